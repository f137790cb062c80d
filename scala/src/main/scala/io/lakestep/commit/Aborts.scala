package io.lakestep.commit

import scala.annotation.tailrec

import io.lakestep.Errors
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.AbortEntry

/** Step 10: ends transactions that have no entry, by an ABORT entry. */
private[commit] final class Aborts(env: Environment) {
  import env.{timeline, clock, options}

  def apply(transactions: Seq[String], reason: String): Vector[String] =
    abort(transactions, reason, options.maxAttempts)

  @tailrec
  private def abort(transactions: Seq[String], reason: String, attempts: Int): Vector[String] = {
    val view = timeline.refresh()
    val ordered = timeline.entriesOf(transactions.toSet)
    val open = transactions.toVector.distinct.filterNot(ordered.contains)
    val still = open.filter(view.aborted(_).isEmpty)
    if (still.isEmpty) tidy(open, reason)
    else {
      val entry = AbortEntry(view.next, view.lastHash, clock.nowMs(), still, reason)
      timeline.putEntry(entry) match {
        case PutOutcome.Created => tidy(open, reason)
        case _ if timeline.holds(entry).contains(true) =>
          env.keep(timeline.entryFile(entry.number))
          tidy(open, reason)
        case PutOutcome.Unknown(cause) if attempts <= 1 =>
          throw Errors.caused("LAKESTEP_OUTCOME_UNKNOWN", cause, "file" -> s"entry ${entry.number}")
        case _ if attempts <= 1 =>
          throw Errors("LAKESTEP_TIMELINE_BUSY", "attempts" -> options.maxAttempts.toString)
        case _ => abort(transactions, reason, attempts - 1)
      }
    }
  }

  private def tidy(ids: Vector[String], reason: String): Vector[String] = {
    ids.foreach(timeline.deleteRequested)
    if (ids.nonEmpty) env.tell(TransactionEvent.Aborted(ids, reason))
    ids
  }
}
