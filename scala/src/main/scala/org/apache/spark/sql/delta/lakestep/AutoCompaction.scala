package org.apache.spark.sql.delta.lakestep

import scala.collection.mutable
import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.delta.{CommittedTransaction, DeltaLog, MaintenanceOperation}
import org.apache.spark.sql.delta.actions.Metadata
import org.apache.spark.sql.delta.hooks.{
  AutoCompact, AutoCompactPartitionReserve, AutoCompactUtils, PostCommitHook
}
import org.apache.spark.sql.delta.stats.AutoCompactPartitionStats
import org.apache.spark.sql.internal.SQLConf

/**
 * Delta's auto compaction of a table that a transaction has written (`delta.autoOptimize.autoCompact`,
 * `spark.databricks.delta.autoCompact.enabled`): Delta's own decision and its own OPTIMIZE, of which
 * Delta makes a hook after each commit.
 */
object AutoCompaction {

  /** Whether table or session ask for it. What Delta refuses as a value asks for nothing. */
  private[lakestep] def isOn(conf: SQLConf, metadata: Metadata): Boolean =
    Try(AutoCompact.getAutoCompactType(conf, metadata).isDefined).getOrElse(false)

  /** In place of Delta's hook, which would compact the overlay: tells what was written. */
  private[lakestep] final class Note(listener: StagingListener) extends PostCommitHook {
    override val name: String = "Lakestep: what auto compaction looks at"
    override def run(spark: SparkSession, done: CommittedTransaction): Unit = {
      val partitions = done.partitionsAddedToOpt.fold(Set.empty[Map[String, String]])(_.toSet)
      listener.mayCompact(done.deltaLog.dataPath, WrittenPartitions(partitions, done.isBlindAppend))
    }
  }

  /**
   * Compacts the table if Delta would after these writes.
   *
   * @param rewrite gets what runs Delta's OPTIMIZE on the table at a path, and runs it as a transaction
   */
  def apply(session: SparkSession, table: Path, written: WrittenPartitions)(
      rewrite: ((SparkSession, Path) => Unit) => Unit): Unit = {
    val log = DeltaLog.forTable(session, table)
    val snapshot = log.update()
    val committed = CommittedTransaction(
      txnId = "",
      deltaLog = log,
      catalogTable = None,
      readSnapshot = snapshot,
      committedVersion = snapshot.version,
      committedActions = Nil,
      postCommitSnapshot = snapshot,
      postCommitHooks = Nil,
      txnExecutionTimeMs = 0L,
      maintenanceOperation = MaintenanceOperation(),
      partitionsAddedToOpt = Some(mutable.HashSet.from(written.partitions)),
      isBlindAppend = written.isBlindAppend
    )
    val conf = session.sessionState.conf
    if (isOn(conf, snapshot.metadata) &&
      AutoCompactUtils.isQualifiedForAutoCompact(session, committed)) {
      val request =
        AutoCompactUtils.prepareAutoCompactRequest(session, committed, AutoCompact.OP_TYPE, None)
      val id = snapshot.metadata.id
      if (request.shouldCompact)
        try {
          rewrite((own, at) => compact(own, at, request.targetPartitionsPredicate))
          AutoCompactPartitionStats.instance(session)
            .markPartitionsAsCompacted(id, request.allowedPartitions)
        } finally
          if (AutoCompactUtils.reservePartitionEnabled(session))
            AutoCompactPartitionReserve.releasePartitions(id, request.allowedPartitions)
    }
  }

  private def compact(session: SparkSession, at: Path, where: Seq[Expression]): Unit = {
    AutoCompact.compact(session, DeltaLog.forTable(session, at), catalogTable = None, where)
    ()
  }
}
