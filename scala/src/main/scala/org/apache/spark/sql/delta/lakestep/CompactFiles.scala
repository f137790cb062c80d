package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Column, SparkSession}
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.classic.ClassicConversions._
import org.apache.spark.sql.delta.{DeltaLog, OptimisticTransaction}
import org.apache.spark.sql.delta.actions.{Action, AddFile}

/** Writes files of a table that a transaction has staged as fewer ones, as Delta's OPTIMIZE does. */
object CompactFiles {

  /**
   * Nothing is staged: the caller publishes the new files in place of the old ones.
   *
   * @param overlay the table with all that is staged
   * @param files as lines of the log
   * @param partitions how many partitions they are of; each becomes one file
   * @return likewise
   */
  def apply(
      session: SparkSession,
      overlay: Path,
      files: Seq[String],
      partitions: Int): Seq[String] = session.withActive {
    val log = DeltaLog.forTable(session, overlay)
    val snapshot = log.update()
    val adds = files.map(Action.fromJson).collect { case add: AddFile => add }
    val rows = log.createDataFrame(snapshot, adds, actionTypeOpt = Some("Optimize"))
    val columns =
      snapshot.metadata.partitionColumns.map(name => Column(UnresolvedAttribute.quoted(name)))
    val tasks = partitions.min(session.sessionState.conf.numShufflePartitions)
    val byPartition = if (tasks == 1) rows.coalesce(1) else rows.repartition(tasks, columns: _*)
    new OptimisticTransaction(log, None, snapshot)
      .writeFiles(byPartition, None, isOptimize = true, Nil)
      .collect { case add: AddFile => add.json }
  }
}
