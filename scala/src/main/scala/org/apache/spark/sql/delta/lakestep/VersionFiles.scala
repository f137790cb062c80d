package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.{DataFrame, Encoders, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.util.DeltaFileOperations

import io.lakestep.log.LogFileName

/** The files of one version of a table: those of the log that it is read from, and those with its rows. */
object VersionFiles {

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
      (checkpoint ++ segment.deltas).map(_.getPath.getName) ++
        checkpoint.flatMap(sidecars(session, snapshot, _))
    }

  /** Of a checkpoint of version 2, whose top file names others. */
  private def sidecars(
      session: SparkSession,
      snapshot: Snapshot,
      checkpoint: FileStatus): Seq[String] =
    if (!snapshot.protocol.readerFeatures.exists(_.contains("v2Checkpoint"))) Nil
    else {
      val path = checkpoint.getPath.toString
      val top = if (path.endsWith(".json")) session.read.json(path) else session.read.parquet(path)
      if (!top.columns.contains("sidecar")) Nil
      else
        top.where("sidecar IS NOT NULL").select("sidecar.path").collect().toSeq
          .map(row => s"${LogFileName.SidecarFolder}/${row.getString(0).split('/').last}")
    }

  /**
   * The data files of the newest version below a path, as full paths below `base`, and the deletion
   * vectors beside them; with the bytes of the former.
   *
   * @param table perhaps an overlay, in which a version is the newest one
   * @param base how the paths begin
   */
  def data(session: SparkSession, table: Path, base: String): DataFrame = {
    val files = DeltaLog.forTable(session, table).update().allFiles
    files.flatMap(pathsOf(base, _))(
      Encoders.tuple(Encoders.STRING, Encoders.scalaLong)
    ).toDF("path", "bytes")
  }

  private def pathsOf(base: String, file: AddFile): Seq[(String, Long)] = {
    val vector = Option(file.deletionVector).filter(_.isOnDisk)
      .map(_.absolutePath(new Path(base)).toString -> 0L)
    val path = DeltaFileOperations.absolutePath(base, file.path).toString
    Seq(path -> file.size) ++ vector
  }
}
