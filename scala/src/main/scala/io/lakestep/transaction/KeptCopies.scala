package io.lakestep.transaction

import java.net.URI

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileUtil, Path}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{LogCleanup, SparkInternals, VersionFiles}
import io.lakestep.Ids
import io.lakestep.commit.Database
import io.lakestep.log.TableRef
import io.lakestep.timeline.{NamedSnapshot, SnapshotTable}

/**
 * Copies, for a named snapshot, of what its versions need of their logs. Whoever finds that one is missing
 * makes it; several may do so at once.
 */
object KeptCopies extends Logging {

  /** The tables of which there is no copy after this, each with the reason. */
  def make(session: SparkSession, snapshot: NamedSnapshot): Vector[(SnapshotTable, Throwable)] = {
    val database = Databases.of(session)
    lazy val own = SparkInternals.cloned(session)
    database.snapshots.copying(snapshot) { table =>
      try copy(own, database, snapshot, table)
      catch {
        case NonFatal(cause) =>
          logWarning(s"No copy of the log of ${table.path} for snapshot ${snapshot.name}", cause)
          throw cause
      }
    }
  }

  private def copy(
      session: SparkSession,
      database: Database,
      snapshot: NamedSnapshot,
      table: SnapshotTable): Unit = {
    val conf = session.sessionState.newHadoopConf()
    val folder = Ids.random.nextHex()
    database.snapshots.starting(table, folder)
    val (source, files) =
      try table.path.log -> VersionFiles.ofLog(session, path(table.path.uri), table.version)
      catch {
        // The log may be gone, and another snapshot of the version have a copy.
        case NonFatal(cause) =>
          val others = database.snapshots.copies(table.path, table.version)
          val from = table.path.keptCopy(others.headOption.getOrElse(throw cause).copy)
          from -> filesIn(path(from), conf)
      }
    files.foreach { file =>
      copy(path(s"$source/$file"), path(target(table.path, folder, file)), conf)
    }
    database.snapshots.keep(snapshot, table, folder, files.map(target(table.path, folder, _)))
  }

  /** Until when the log keeps a version without a copy, if that can be told. */
  def keptUntilMs(session: SparkSession, table: SnapshotTable): Option[Long] =
    try LogCleanup.keptUntilMs(session, path(table.path.uri), table.version)
    catch { case NonFatal(_) => None }

  private def target(table: TableRef, copy: String, file: String) =
    s"${table.keptCopy(copy)}/$file"

  /** With the time of the original, by which Delta tells when a version was made. */
  private def copy(from: Path, to: Path, conf: Configuration): Unit = {
    val (source, target) = (from.getFileSystem(conf), to.getFileSystem(conf))
    val status = source.getFileStatus(from)
    FileUtil.copy(source, status, target, to, false, true, conf)
    target.setTimes(to, status.getModificationTime, -1)
  }

  /** Of all depths, relative to the folder. */
  private def filesIn(folder: Path, conf: Configuration): Seq[String] = {
    val fs = folder.getFileSystem(conf)
    val root = fs.makeQualified(folder).toUri
    val found = fs.listFiles(folder, true)
    Iterator.continually(found).takeWhile(_.hasNext)
      .map(f => root.relativize(f.next().getPath.toUri).getPath).toVector
  }

  private def path(uri: String) = new Path(new URI(uri))
}
