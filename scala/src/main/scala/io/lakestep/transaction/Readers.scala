package io.lakestep.transaction

import java.util.concurrent.atomic.AtomicInteger

/** The queries of a transaction that may be reading its data files. Thread-safe. */
private[lakestep] final class Readers {
  private val running = new AtomicInteger
  @volatile private var hasLent = false

  private final class Statement {
    @volatile var runs = true
  }

  /** The statement that this thread works for, or the one that has made it: Delta makes threads for some. */
  private val current = new InheritableThreadLocal[Statement]

  /** Runs a statement: the queries that it makes are read when it ends. */
  def ofStatement[T](statement: => T): T = {
    val before = current.get
    val own = new Statement
    current.set(own)
    try statement
    finally {
      // A thread of a pool may have it for ever.
      own.runs = false
      current.set(before)
    }
  }

  private def isInStatement: Boolean = Option(current.get).exists(_.runs)

  /**
   * Runs a query.
   *
   * @param lends whether it hands rows out that are read later, at any time
   */
  def during[T](lends: Boolean)(query: => T): T = {
    running.incrementAndGet()
    try {
      if (lends && !isInStatement) hasLent = true
      query
    } finally {
      running.decrementAndGet()
      ()
    }
  }

  /** Whether one may read after the transaction has ended. */
  def mayRead: Boolean = hasLent || running.get > 0
}
