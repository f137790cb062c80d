package io.lakestep.api

import org.apache.spark.sql.{DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession}
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation
import org.apache.spark.sql.delta.lakestep.SparkInternals

import io.lakestep.commit.TransactionModes
import io.lakestep.sql.redirect.RedirectTables.TransactionOption
import io.lakestep.transaction.{CommitReport, Lifecycle, Transactions}

/**
 * Transactions for Scala and Java callers. The transaction is the session's: everything the
 * session does while it is open is inside, whichever thread does it.
 */
object Lakestep {

  /**
   * Commits when `body` returns; rolls back and rethrows when it throws.
   *
   * Conditions: LAKESTEP_TRANSACTION_ALREADY_ACTIVE (25001), LAKESTEP_CONFLICT (40001),
   * LAKESTEP_TRANSACTION_STATE_UNKNOWN (08007).
   */
  def transaction[T](
      session: SparkSession,
      name: Option[String] = None,
      modes: TransactionModes = TransactionModes())(body: Transaction => T): T = {
    // So that the session has been looked at once; see `StartAnalysis`.
    SparkInternals.frame(session, OneRowRelation())
    val handle = new Transaction(session, Lifecycle.begin(session, name, modes).id)
    try {
      val result = body(handle)
      if (handle.isOpen) handle.commit()
      result
    } catch {
      case failure: Throwable =>
        try handle.end()
        catch { case undo: Throwable => failure.addSuppressed(undo) }
        throw failure
    }
  }

  /** `df.write.withTransaction(txn)`, `df.writeTo(…).withTransaction(txn)`, `spark.read.…`. */
  implicit final class TransactionalWriter[T](private val writer: DataFrameWriter[T])
      extends AnyVal {
    def withTransaction(txn: Transaction): DataFrameWriter[T] =
      writer.option(TransactionOption, txn.id)
  }

  implicit final class TransactionalWriterV2[T](private val writer: DataFrameWriterV2[T])
      extends AnyVal {
    def withTransaction(txn: Transaction): DataFrameWriterV2[T] =
      writer.option(TransactionOption, txn.id)
  }

  implicit final class TransactionalReader(private val reader: DataFrameReader) extends AnyVal {
    def withTransaction(txn: Transaction): DataFrameReader =
      reader.option(TransactionOption, txn.id)
  }
}

/** A handle on the transaction of a session; of no effect once that has ended. */
final class Transaction private[api] (session: SparkSession, val id: String) {

  def isOpen: Boolean = Transactions.isOpenTransaction(session, id)

  def commit(): CommitReport = Lifecycle.commit(session)

  def rollback(): Unit = { Lifecycle.rollback(session); () }

  /** Rolls back if it is still open or its COMMIT failed; else nothing. */
  private[api] def end(): Unit = if (Transactions.isCurrent(session, id)) rollback()
}
