package io.lakestep.delta

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.lakestep.{OverlayRelation, SparkInternals}

/** What Delta keeps beside a log: its cache and checkpoints. Never decides a transaction. */
object DeltaHousekeeping extends Logging {

  /** Setting by which Delta notes the version of a session's last commit. */
  val LastCommitVersion = "spark.databricks.delta.lastCommitVersionInSession"

  /** Drops Delta's cached state of an overlay. */
  def invalidate(session: SparkSession, overlay: Path): Unit =
    DeltaLog.invalidateCache(session, overlay)

  /** Delta notes the version of a session's last commit; a staged version must not stay there. */
  def forgetStagedVersion(session: SparkSession): Unit = session.conf.unset(LastCommitVersion)

  /** Cached queries over an overlay that nobody may read any more. */
  def uncache(session: SparkSession, overlays: Set[Path]): Unit =
    try SparkInternals.uncache(session)(OverlayRelation.table(_).exists(t => overlays(t._1)))
    catch {
      case NonFatal(failure) => logWarning("Cached data of a transaction was not dropped", failure)
    }

  /** Cached queries over a table that has just been published read it anew. */
  def refreshCached(session: SparkSession, table: Path): Unit =
    try session.catalog.refreshByPath(table.toString)
    catch {
      case NonFatal(failure) => logWarning(s"Cached data of $table was not refreshed", failure)
    }

  /**
   * Writes the checkpoint that Delta itself would have written after publishing these versions. A
   * failure is logged: the transaction is committed whatever happens here.
   *
   * @param slots a fence among them counts, too: else a table in which each transaction makes two
   *              versions could go without checkpoints for ever
   */
  def checkpointIfDue(
      session: SparkSession,
      table: Path,
      slots: Seq[Long],
      interval: Int): Unit =
    slots.find(slot => slot > 0 && slot % interval == 0).foreach { slot =>
      try {
        val log = DeltaLog.forTable(session, table)
        log.checkpoint(log.update())
      } catch {
        case NonFatal(failure) => logWarning(s"No checkpoint of $table at version $slot", failure)
      }
    }
}
