package io.lakestep.transaction

import java.util.concurrent.atomic.AtomicInteger

/** The queries of a transaction that may be reading its data files. Thread-safe. */
private[lakestep] final class Readers {
  private val running = new AtomicInteger
  @volatile private var hasLent = false

  /** Whether this thread, or the one that has made it, runs a statement; Delta makes threads for some. */
  private val isInStatement = new InheritableThreadLocal[java.lang.Boolean]

  /** Runs a statement: the queries that it makes are read when it ends. */
  def ofStatement[T](statement: => T): T = {
    val before = isInStatement.get
    isInStatement.set(true)
    try statement
    finally isInStatement.set(before)
  }

  /**
   * Runs a query.
   *
   * @param lends whether it hands rows out that are read later, at any time
   */
  def during[T](lends: Boolean)(query: => T): T = {
    running.incrementAndGet()
    try {
      if (lends && isInStatement.get == null) hasLent = true
      query
    } finally {
      running.decrementAndGet()
      ()
    }
  }

  /** Whether one may read after the transaction has ended. */
  def mayRead: Boolean = hasLent || running.get > 0
}
