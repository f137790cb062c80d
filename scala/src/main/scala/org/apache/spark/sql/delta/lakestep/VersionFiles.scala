package org.apache.spark.sql.delta.lakestep

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.{DataFrame, Encoders, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, DeltaLogFileIndex, Snapshot}
import org.apache.spark.sql.delta.actions.{AddFile, DeletionVectorDescriptor}
import org.apache.spark.sql.delta.util.DeltaFileOperations

import io.lakestep.log.LogFileName

/** How many bytes a file has, or at least has. */
final case class FileSize(path: String, bytes: Long, isLeast: Boolean) {
  def fits(size: Long): Boolean = if (isLeast) size >= bytes else size == bytes
}

/** The files of one version of a table: those of the log that it is read from, and those with its rows. */
object VersionFiles extends Logging {

  /**
   * Paths, relative to the log, of what the version is read from: a checkpoint and commits.
   *
   * Read from storage, as `DeltaState` does.
   */
  def ofLog(session: SparkSession, table: Path, version: Long): Seq[String] =
    session.withActive {
      DeltaLog.invalidateCache(session, table)
      val log = DeltaLog.forTable(session, table)
      val snapshot = log.getSnapshotAt(version, catalogTableOpt = None)
      val segment = snapshot.logSegment
      val checkpoint = segment.checkpointProvider.topLevelFiles
      // Delta wants the commit of a version beside its checkpoint.
      val commit = Seq(LogFileName.commitName(version)).filter { name =>
        val file = new Path(log.logPath, name)
        file.getFileSystem(session.sessionState.newHadoopConf()).exists(file)
      }
      val deltas = segment.deltas.map(_.getPath.getName)
      checkpoint.map(_.getPath.getName) ++ (deltas ++ commit).distinct ++
        sidecars(snapshot, checkpoint)
    }

  /** Of a checkpoint of version 2, whose top file names others. */
  private def sidecars(snapshot: Snapshot, checkpoint: Seq[FileStatus]): Seq[String] =
    if (!snapshot.protocol.readerFeatures.exists(_.contains("v2Checkpoint"))) Nil
    else {
      val (json, parquet) = checkpoint.partition(_.getPath.getName.endsWith(".json"))
      val indexes = DeltaLogFileIndex(DeltaLogFileIndex.CHECKPOINT_FILE_FORMAT_JSON, json) ++
        DeltaLogFileIndex(DeltaLogFileIndex.CHECKPOINT_FILE_FORMAT_PARQUET, parquet)
      indexes.toSeq.flatMap { index =>
        snapshot.deltaLog.loadIndex(index).where("sidecar IS NOT NULL").select("sidecar.path")
          .collect().toSeq
      }.map(row => s"${LogFileName.SidecarFolder}/${row.getString(0).split('/').last}")
    }

  /**
   * The data files of a version, as full paths below `base`, with their bytes and the id of their deletion
   * vector; and the files of deletion vectors, with neither. None where the version cannot be read there.
   *
   * @param table the table, or an overlay in which the version is the newest one
   * @param base how the paths begin
   */
  def data(session: SparkSession, table: Path, version: Long, base: String): Option[DataFrame] =
    session.withActive {
      val found =
        try Some(DeltaLog.forTable(session, table).update())
        catch {
          case NonFatal(cause) =>
            logWarning(s"Version $version of $table cannot be read", cause)
            None
        }
      // Where there is no log Delta has an empty one.
      found.filter(_.version == version).map { snapshot =>
        snapshot.allFiles.flatMap(pathsOf(base, _))(Columns).toDF("path", "bytes", "vector")
      }
    }

  /**
   * The files of a version, as `data` has them, with the bytes that they have; of those with deletion
   * vectors with the bytes that they have at least. None where the version cannot be read there.
   *
   * Read from storage, as `DeltaState` does.
   */
  def sizes(
      session: SparkSession,
      table: Path,
      version: Long,
      base: String): Option[Iterator[FileSize]] = session.withActive {
    DeltaLog.invalidateCache(session, table)
    val snapshot = DeltaLog.forTable(session, table).update()
    Option.when(snapshot.version == version) {
      snapshot.allFiles.toLocalIterator().asScala.flatMap { file =>
        val path = DeltaFileOperations.absolutePath(base, file.path).toString
        val vector = Option(file.deletionVector).filter(_.isOnDisk).map { v =>
          val end = v.offset.getOrElse(0).toLong + v.sizeInBytes + AroundVector
          FileSize(v.absolutePath(new Path(base)).toString, end, isLeast = true)
        }
        FileSize(path, file.size, isLeast = false) +: vector.toSeq
      }
    }
  }

  /** Before a deletion vector stands its size, after it its checksum. */
  private val AroundVector = 8

  /** The data files that were removed since a time, as `data` has them, as far as the table still tells. */
  def removed(session: SparkSession, table: Path, sinceMs: Long, base: String): DataFrame =
    session.withActive {
      val tombstones = DeltaLog.forTable(session, table).update().tombstones
      tombstones.filter(_.delTimestamp >= sinceMs).flatMap { file =>
        pathsOf(base, file.path, file.size.getOrElse(0L), file.deletionVector)
      }(Columns).toDF("path", "bytes", "vector")
    }

  /** The newest version of a table. */
  def head(session: SparkSession, table: Path): Long =
    session.withActive(DeltaLog.forTable(session, table).update().version)

  private val Columns = Encoders.tuple(Encoders.STRING, Encoders.scalaLong, Encoders.STRING)

  /** A data file below `base` and its deletion vector, if that lies in a file; as `data` has them. */
  def pathsOf(base: String, file: AddFile): Seq[(String, Long, String)] =
    pathsOf(base, file.path, file.size, file.deletionVector)

  private def pathsOf(
      base: String,
      path: String,
      bytes: Long,
      vector: DeletionVectorDescriptor): Seq[(String, Long, String)] = {
    val own = Option(vector)
    val file = DeltaFileOperations.absolutePath(base, path).toString
    Seq((file, bytes, own.fold("")(_.uniqueId))) ++
      own.filter(_.isOnDisk).map(v => (v.absolutePath(new Path(base)).toString, 0L, ""))
  }
}
