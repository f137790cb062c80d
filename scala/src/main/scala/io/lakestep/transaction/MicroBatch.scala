package io.lakestep.transaction

import org.apache.spark.sql.SparkSession

import io.lakestep.Errors

/** The batch of a streaming query in whose foreachBatch a thread is, if the driver runs it. */
private[lakestep] object MicroBatch {

  /** The id of its query. */
  def query(session: SparkSession): Option[String] =
    Option(session.sparkContext.getLocalProperty("sql.streaming.queryId"))

  /**
   * A function of foreachBatch runs in a session of its own, and the batch is written in that one:
   * a transaction of the session outside would not hold what it writes.
   *
   * Condition: LAKESTEP_SESSION_OUTSIDE_BATCH.
   */
  def check(session: SparkSession, statement: String): Unit =
    if (query(session).isDefined && !InternalClones.isOfStream(session))
      throw outside(statement)

  /**
   * Whether this thread is in a batch that an open transaction holds, and the session is another one: what
   * it writes would be no part of that, and come again with the batch.
   */
  def isLeftBy(session: SparkSession): Boolean = query(session).exists { id =>
    Transactions.holdsBatchOf(id) && !InternalClones.isOfStream(session) &&
    !InternalClones.contains(session)
  }

  def outside(statement: String): Throwable =
    Errors("LAKESTEP_SESSION_OUTSIDE_BATCH", "statement" -> statement)
}
