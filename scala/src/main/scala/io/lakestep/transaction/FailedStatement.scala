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

  /**
   * Also called again for the same one.
   *
   * @param isInner whether it is a part of another one that is being analysed, the body of a function
   */
  def analysing(statement: AnyRef, isInner: => Boolean): Unit = if (counts && !isInner)
    synchronized {
      leftBehind(statement)
      analysed = Some((statement, Thread.currentThread))
    }

  /** A query: it need not be run. */
  def isAnalysed(statement: AnyRef): Unit = synchronized {
    analysed = analysed.filterNot(_._1 eq statement)
  }

  /** What this thread has analysed is run. */
  def isRun(): Unit = synchronized {
    analysed = analysed.filterNot(_._2 eq Thread.currentThread)
  }

  private def leftBehind(now: AnyRef): Unit = analysed.foreach { case (statement, thread) =>
    if ((thread eq Thread.currentThread) && !(statement eq now)) {
      analysed = None
      failed("it could not be analysed")
    }
  }

  /** Condition: LAKESTEP_TRANSACTION_ABORTED. */
  def check(statement: AnyRef = None, isInner: => Boolean = false): Unit = synchronized {
    if (analysed.isDefined && !isInner) leftBehind(statement)
    checkFailed()
  }

  /** The same, of what has been seen to fail so far. */
  def checkFailed(): Unit = synchronized {
    failure.foreach { reason =>
      throw Errors(
        "LAKESTEP_TRANSACTION_ABORTED",
        "transaction" -> transaction,
        "reason" -> reason
      )
    }
  }
}
