package io.lakestep.transaction

import org.apache.spark.scheduler.SparkListenerEvent

import io.lakestep.commit.CommitOutcome

/**
 * A version of a table.
 *
 * @param name how the user named the table
 * @param path where it is
 */
final case class TableVersion(name: String, path: String, version: Long)

/**
 * Posted to the listeners of Spark (`onOtherEvent`) after each COMMIT that has changed something.
 *
 * @param entry its number in the timeline
 * @param inputs every table that it has met, as it was at its snapshot
 * @param outputs every version that it has published
 */
final case class TransactionCommitted(
    transactionId: String,
    entry: Long,
    name: Option[String],
    comment: Option[String],
    tags: Map[String, String],
    user: String,
    application: String,
    inputs: Seq[TableVersion],
    outputs: Seq[TableVersion])
    extends SparkListenerEvent

object TransactionCommitted {

  private[transaction] def of(
      transaction: Transaction,
      done: CommitOutcome.Committed): TransactionCommitted = {
    val of = done.entry.transaction
    TransactionCommitted(
      of.id,
      done.entry.number,
      of.name,
      of.labels.comment,
      of.labels.tags,
      of.user,
      of.application,
      inputs = transaction.touched.filter(_.pin >= 0)
        .map(t => TableVersion(t.name, t.ref.uri, t.pin)),
      outputs = done.entry.tables.zip(done.slots).flatMap { case (table, versions) =>
        versions.map(TableVersion(table.name, table.path.uri, _))
      }
    )
  }
}
