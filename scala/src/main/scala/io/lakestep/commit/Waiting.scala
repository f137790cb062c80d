package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.timeline.{CommitEntry, Conflict, Rule}

/** Asks the strategy about an entry, and waits for it no longer than is allowed. */
private[commit] final class Waiting(env: Environment) {
  import env.{timeline, options}

  /** The conflict, when the strategy gives up. */
  def apply(entry: CommitEntry, logs: Set[String]): Option[Conflict] = {
    @annotation.tailrec
    def ask(waitedMs: Long): Option[Conflict] =
      options.conflicts.meets(entry, waitedMs, options.longestWaitMs) match {
        case ConflictStrategy.GiveUp => Some(conflict(entry, logs))
        case ConflictStrategy.Wait(ms) if waitedMs < options.longestWaitMs =>
          val step = math.max(1L, math.min(ms, options.longestWaitMs - waitedMs))
          options.pause(step)
          if (isFinished(entry)) None else ask(waitedMs + step)
        case _ => None
      }
    ask(0L)
  }

  private def isFinished(entry: CommitEntry): Boolean =
    try !timeline.refresh().unfinished.exists(_.number == entry.number)
    catch { case NonFatal(_) => false }

  private def conflict(entry: CommitEntry, logs: Set[String]): Conflict = {
    val table = entry.tables.find(t => logs(t.log))
    Conflict(
      Rule.InFlight,
      table.fold("")(_.name),
      table.fold("")(_.path.uri),
      user = Some(entry.transaction.user),
      timeMs = Some(entry.timeMs),
      otherTransaction = Some(entry.transaction.id),
      entry = Some(entry.number)
    )
  }
}
