package io.lakestep.session

import java.util.concurrent.ThreadLocalRandom

import scala.annotation.tailrec

import org.apache.spark.sql.SparkSession

import io.lakestep.{LakestepConf, LakestepException}

/**
 * Runs work again that lost to another client's commit, as long as the settings allow. Waits a
 * random time before, from a range that doubles, so that clients that disturb one another move
 * apart.
 */
private[lakestep] object Redo {

  private val FirstWaitMs = 50L
  private val LongestWaitMs = 5000L

  /** @param work leaves no transaction open when it throws; anything but a conflict is raised at once */
  def apply[T](session: SparkSession)(work: => T): T = {
    val attempts = LakestepConf.MaxAttempts.from(session.conf.getOption)
    val started = System.nanoTime()
    val timeoutMs = LakestepConf.TimeoutMs.from(session.conf.getOption)
    def isLate = (System.nanoTime() - started) / 1000000 >= timeoutMs

    @tailrec
    def run(attempt: Int): T = {
      val result =
        try Right(work)
        catch {
          case e: LakestepException if e.getCondition == "LAKESTEP_CONFLICT" => Left(e)
        }
      result match {
        case Right(value) => value
        case Left(conflict) if attempt >= attempts || isLate => throw conflict
        case Left(_) =>
          val longest = math.min(FirstWaitMs << math.min(attempt, 10), LongestWaitMs)
          Thread.sleep(ThreadLocalRandom.current.nextLong(longest))
          run(attempt + 1)
      }
    }
    run(1)
  }
}
