package io.lakestep.transaction

import java.util.concurrent.ThreadLocalRandom

import org.apache.spark.sql.SparkSession

import io.lakestep.LakestepConf

/**
 * How often one piece of work may still be tried. Before each further try it waits a random time,
 * from a range that doubles, so that clients that disturb one another move apart.
 */
final class Attempts private (most: Int, timeoutMs: Long) {
  import Attempts._

  private val started = System.nanoTime()
  private var made = 1
  private var isGranted = false

  /** Whether there may be another; waits before it says yes. Asked again it is the same one. */
  def another(): Boolean = {
    val isLate = (System.nanoTime() - started) / 1000000 >= timeoutMs
    if (!isGranted && made < most && !isLate) {
      val longest = math.min(FirstWaitMs << math.min(made, 10), LongestWaitMs)
      Thread.sleep(ThreadLocalRandom.current.nextLong(longest))
      made += 1
      isGranted = true
    }
    isGranted
  }

  def begin(): Unit = isGranted = false
}

object Attempts {
  private val FirstWaitMs = 50L
  private val LongestWaitMs = 5000L

  def of(session: SparkSession): Attempts = new Attempts(
    LakestepConf.MaxAttempts.from(session.conf.getOption),
    LakestepConf.TimeoutMs.from(session.conf.getOption)
  )
}
