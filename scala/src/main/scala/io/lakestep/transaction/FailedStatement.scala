package io.lakestep.transaction

import io.lakestep.Errors

/**
 * With `spark.lakestep.abortOnError`: the statement of a transaction that failed. Until it is taken back by
 * ROLLBACK TO nothing but that and ROLLBACK is accepted, as in Postgres. Thread-safe.
 */
private[lakestep] final class FailedStatement(transaction: String, isOn: Boolean) {

  @volatile private var counts = isOn
  private var failure = Option.empty[String]

  /** The statement that is being analysed, and on which thread: one that is left there has failed. */
  private var analysed = Option.empty[(AnyRef, Thread)]

  /** For a block, which has its own way with failures. */
  def ignore(): Unit = counts = false

  def failed(cause: Throwable): Unit = failed(String.valueOf(cause.getMessage))

  private def failed(reason: String): Unit = synchronized {
    if (counts && failure.isEmpty) failure = Some(reason.linesIterator.nextOption().getOrElse(""))
  }

  def takenBack(): Unit = synchronized {
    failure = None
    analysed = None
  }

  /** Also called again for the same one. */
  def analysing(statement: AnyRef): Unit = synchronized {
    leftBehind(statement)
    analysed = Some((statement, Thread.currentThread))
  }

  def isAnalysed(statement: AnyRef): Unit = synchronized {
    analysed = analysed.filterNot(_._1 eq statement)
  }

  private def leftBehind(now: AnyRef): Unit = analysed.foreach { case (statement, thread) =>
    if ((thread eq Thread.currentThread) && !(statement eq now)) {
      analysed = None
      failed("it could not be analysed")
    }
  }

  /** Condition: LAKESTEP_TRANSACTION_ABORTED. */
  def check(statement: AnyRef = None): Unit = synchronized {
    leftBehind(statement)
    failure.foreach { reason =>
      throw Errors(
        "LAKESTEP_TRANSACTION_ABORTED",
        "transaction" -> transaction,
        "reason" -> reason
      )
    }
  }
}
