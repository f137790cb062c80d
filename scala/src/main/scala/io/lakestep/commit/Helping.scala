package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.LakestepException
import io.lakestep.log.TableRef
import io.lakestep.timeline.TimelineView

/** Finishes entries of others: all of them at BEGIN and RECOVER, those of a table before a write. */
private[commit] final class Helping(env: Environment, finish: Finish, names: Names) {
  import env.{timeline, stores}

  /**
   * Helps oldest first; an entry that cannot be finished does not keep others from it. With the
   * timeline as it is then, at least up to the last entry that was put before.
   *
   * @param beside is told of the timeline, where all entries without an end are young, and works while
   *   they are asked for it
   */
  def all(beside: TimelineView => Unit = _ => ()): (RecoveryReport, TimelineView) = {
    val view = timeline.refresh()
    val unfinished = view.unfinished
    val work = Option.when(unfinished.forall(finish.isYoung))(() => beside(view))
    val open = finish.leftOpen(unfinished, beside = work)
    val results = open.flatMap { entry =>
      view.status(entry.number).map { status =>
        entry -> (try {
          val end = finish(entry, status.hash)
          env.tell(TransactionEvent.FinishedForOther(entry, end))
          Right(end)
        } catch {
          case e: LakestepException if e.getCondition == "LAKESTEP_TIMELINE_CORRUPT" => throw e
          case NonFatal(e) => Left(e)
        })
      }
    }
    val report = RecoveryReport(
      results.collect { case (entry, Right(finished)) => entry -> finished },
      results.collect { case (entry, Left(cause)) => entry -> cause }
    )
    val now =
      if (unfinished.isEmpty) view
      else if (open.isEmpty) withEnds(view)
      else timeline.refresh()
    if (now.snapshot.names.unapplied.isEmpty) report -> now
    else {
      names.applyPending(now)
      report -> now.merge(timeline.known)
    }
  }

  /** A view whose entries all have an end by now. */
  private def withEnds(view: TimelineView): TimelineView = {
    val known = timeline.known
    val ended = view.withEnds(s => known.status(s.entry.number).fold(s)(s.withEndOf))
    if (ended.unfinished.isEmpty) ended else view.merge(known)
  }

  /** Step 12, writing: whether an entry that writes the table was unfinished. */
  def beforeWrite(tablePath: TableRef): Boolean = {
    val entries = for {
      binding <- Bindings.read(stores, tablePath).toVector
      if timeline.existingId.contains(binding.timeline)
      view = timeline.refresh()
      entry <- view.unfinished
      if entry.tables.exists(_.log == binding.log)
      status <- view.status(entry.number)
    } yield entry -> status.hash
    entries.foreach { case (entry, hash) => finish.help(entry, hash) }
    entries.nonEmpty
  }
}
