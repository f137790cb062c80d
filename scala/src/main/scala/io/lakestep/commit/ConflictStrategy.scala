package io.lakestep.commit

import io.lakestep.timeline.CommitEntry

/**
 * What COMMIT does when it meets an entry in flight over its tables, before it validates.
 *
 * Decides about time alone: afterwards the entry is finished by whoever, and the tables' logs are
 * validated as ever. So a strategy can delay a COMMIT, or give it up, and never let one through
 * that has a conflict. Any number of threads may ask one.
 *
 * A class of a user has a constructor without parameters.
 */
trait ConflictStrategy {

  /**
   * Asked again after each wait, until the entry is finished.
   *
   * @param entry by another client, ordered before us, its outcome not known yet
   * @param waitedMs how long this COMMIT has waited by now
   * @param longestWaitMs after that it is not asked any more, and goes on
   */
  def meets(entry: CommitEntry, waitedMs: Long, longestWaitMs: Long): ConflictStrategy.Step
}

object ConflictStrategy {

  sealed trait Step

  /** Finish the entry for its client, then validate. */
  case object GoOn extends Step

  /** Look again later. */
  final case class Wait(ms: Long) extends Step

  /** The conflict `entry-in-flight`; nothing was changed. */
  case object GiveUp extends Step

  /** Names of ours, else of a class; throws IllegalArgumentException for neither. */
  def named(name: String): ConflictStrategy = name match {
    case "first-committer-wins" => FirstCommitterWins
    case "younger-waits" => YoungerWaits
    case className =>
      try
        Thread.currentThread.getContextClassLoader.loadClass(className)
          .getDeclaredConstructor().newInstance() match {
          case strategy: ConflictStrategy => strategy
          case _ => throw new IllegalArgumentException(s"$className is no ConflictStrategy")
        }
      catch {
        case e @ (_: ReflectiveOperationException | _: LinkageError) =>
          throw new IllegalArgumentException(s"$className cannot be used", e)
      }
  }
}

/** Finishes what is in flight at once, whoever began it. */
object FirstCommitterWins extends ConflictStrategy {
  override def meets(
      entry: CommitEntry,
      waitedMs: Long,
      longestWaitMs: Long): ConflictStrategy.Step =
    ConflictStrategy.GoOn
}

/**
 * Who has no entry yet waits for the client of one in flight, in ever longer steps, and finishes it
 * only when that client seems dead. Saves the requests of two clients that publish the same.
 */
object YoungerWaits extends ConflictStrategy {

  private val FirstWaitMs = 10L
  private val LongestStepMs = 1000L

  override def meets(
      entry: CommitEntry,
      waitedMs: Long,
      longestWaitMs: Long): ConflictStrategy.Step =
    if (waitedMs >= longestWaitMs) ConflictStrategy.GoOn
    else ConflictStrategy.Wait(math.min(math.max(waitedMs, FirstWaitMs), LongestStepMs))
}
