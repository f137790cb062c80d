package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.timeline.{CommitEntry, Conflict}

/** What happened to a transaction, or to what a dead client left of one. */
sealed trait TransactionEvent

object TransactionEvent {

  final case class Began(transaction: BegunTransaction) extends TransactionEvent

  /**
   * @param tries how many numbers of the timeline were tried; others took all but the last
   * @param tookMs from the start of COMMIT
   * @param costs of the parts of its last run
   */
  final case class Committed(
      entry: CommitEntry,
      slots: Vector[Vector[Long]],
      tries: Int,
      tookMs: Long,
      costs: Vector[StepCost])
      extends TransactionEvent

  /** COMMIT of a transaction that has changed nothing. */
  final case class CommittedNothing(transaction: BegunTransaction, tookMs: Long)
      extends TransactionEvent

  /** COMMIT runs statements again, which met a conflict; the transaction goes on. */
  final case class Rerunning(transaction: BegunTransaction, conflict: Conflict, statements: Int)
      extends TransactionEvent

  /** @param residue what others had built upon, which stays */
  final case class Conflicted(
      transaction: BegunTransaction,
      conflict: Conflict,
      residue: Vector[String],
      tookMs: Long)
      extends TransactionEvent

  /** COMMIT cannot tell; whoever comes next finishes what there is. */
  final case class OutcomeUnknown(transaction: BegunTransaction, cause: Throwable)
      extends TransactionEvent

  /** What failed before it had an entry; nothing is changed. */
  final case class Failed(transaction: BegunTransaction, cause: Throwable) extends TransactionEvent

  final case class RolledBack(transaction: BegunTransaction) extends TransactionEvent

  /** This client has brought the entry of another one to its end. */
  final case class FinishedForOther(entry: CommitEntry, end: Finished) extends TransactionEvent

  /** Transactions of others that this client has ended, as they were silent for long. */
  final case class Aborted(transactions: Vector[String], reason: String) extends TransactionEvent

  /** The transaction is committed, and something of what its metastore should show is not done. */
  final case class CatalogBehind(entry: CommitEntry, cause: Throwable)
      extends TransactionEvent
}

/**
 * Is told of transactions as values, when all is done that an event says, on the thread that did it.
 * What it throws is dropped: no listener changes what a transaction does. Any number of threads may
 * tell one.
 */
trait TransactionListener {
  def on(event: TransactionEvent): Unit
}

object TransactionListener {

  object Silent extends TransactionListener {
    override def on(event: TransactionEvent): Unit = ()
  }

  /** Tells all of them, each whatever the others throw. */
  def all(listeners: Seq[TransactionListener]): TransactionListener = event =>
    listeners.foreach { listener =>
      try listener.on(event)
      catch { case NonFatal(_) | _: LinkageError => () }
    }
}
