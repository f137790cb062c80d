package org.apache.spark.sql.delta.lakestep

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}

import io.lakestep.log.LogCommit
import io.lakestep.storage.ObjectStores

/** What Delta keeps beside a log: cache, checksums, checkpoints. Never decides a transaction. */
object DeltaHousekeeping extends Logging {

  /** Setting by which Delta notes the version of a session's last commit. */
  val LastCommitVersion = "spark.databricks.delta.lastCommitVersionInSession"

  /**
   * Drops what is in memory of overlays: Delta's state, and cached queries, which Spark makes again
   * from whatever a statement stages.
   */
  def forget(session: SparkSession, overlays: Path*): Unit = {
    WarmOverlay.forget(session, overlays)
    SparkInternals.uncache(session) {
      OverlayRelation.table(_).exists { case (overlay, _) => overlays.contains(overlay) }
    }
  }

  /** Drops what is in memory of a table whose log was deleted. */
  def gone(session: SparkSession, table: Path): Unit = DeltaLog.invalidateCache(session, table)

  /** Delta notes the version of a session's last commit; a staged version must not stay there. */
  def forgetStagedVersion(session: SparkSession): Unit = session.conf.unset(LastCommitVersion)

  /** The same at the end of their transaction, which this cannot fail any more. */
  def forgetAtEnd(session: SparkSession, overlays: Path*): Unit =
    logged("What was in memory of a transaction was not dropped")(forget(session, overlays: _*))

  // What Delta itself would have done after a commit. Failures are logged: the transaction is
  // committed whatever happens here.

  /** Cached queries read the table anew. */
  def refresh(session: SparkSession, table: Path): Unit =
    logged(s"Cached data of $table was not refreshed") {
      if (SparkInternals.hasCachedData(session)) session.catalog.refreshByPath(table.toString)
    }

  /**
   * The work that writes the checksums of the versions that a transaction published.
   *
   * @param stores for what need not survive a crash of the machine
   * @param pinned the session's own snapshot of the pin, where it has one
   * @param versions the versions that were published, in their order
   * @param known those of the commits that this process has put
   */
  def checksums(
      session: SparkSession,
      stores: ObjectStores,
      table: Path,
      pinned: Option[Snapshot],
      transaction: String,
      versions: Seq[Long],
      known: Seq[LogCommit]): ChecksumWork = {
    def what = s"No checksums of $table at versions ${versions.mkString(", ")}"
    def made(log: DeltaLog) = new PublishedChecksums(
      session,
      log,
      stores.forPath(table.toUri.toString),
      pinned,
      transaction
    )
    val quick = pinned.map(at => made(at.deltaLog)).filter { checksums =>
      try checksums.isQuick(versions, known)
      catch { case NonFatal(_) => false }
    }
    ChecksumWork(
      quick.map(checksums =>
        () =>
          try checksums.put(versions, known)
          catch {
            case e @ (NonFatal(_) | _: LinkageError) =>
              logWarning(what, e)
              true
          }
      ),
      () => logged(what)(made(DeltaLog.forTable(session, table)).write(versions))
    )
  }

  /** Whoever reads the table next in this process need not read its log first. */
  def learn(session: SparkSession, table: Path): Unit =
    logged(s"The log of $table was not read") {
      if (!session.sparkContext.isStopped) DeltaLog.forTable(session, table).update()
    }

  /**
   * Writes a checkpoint where one is due. A fence among the versions counts, too: else a table in
   * which each transaction makes two versions could go without for ever.
   *
   * @param keep makes files durable
   * @param needs what the clean-up of the log that follows has to leave
   */
  def checkpoint(
      session: SparkSession,
      table: Path,
      versions: Seq[Long],
      checkpointInterval: Int,
      keep: Seq[Path] => Unit,
      needs: LogCleanup.Needs): Unit =
    versions.find(version => version > 0 && version % checkpointInterval == 0).foreach { version =>
      logged(s"No checkpoint of $table at version $version") {
        val log = DeltaLog.forTable(session, table)
        val snapshot = log.update()
        DurableCheckpoint.write(session, log, snapshot, keep) {
          LogCleanup(log, snapshot, needs)
        }
        PublishedChecksums.writeMissing(session, snapshot)
      }
    }

  /** Work that may fail without harm. */
  def logged(what: => String)(work: => Unit): Unit =
    try work
    catch {
      case failure @ (NonFatal(_) | _: LinkageError) => logWarning(what, failure)
      case interrupt: InterruptedException =>
        logWarning(what, interrupt)
        Thread.currentThread.interrupt()
    }
}

/**
 * @param quick where that needs no log to be read and no Spark job, so that who needs a checksum may wait
 *              for it; tells whether it did
 * @param slow reads the log, and may run jobs
 */
final case class ChecksumWork(quick: Option[() => Boolean], slow: () => Unit)
