package io.lakestep.commit

import io.lakestep.Errors
import io.lakestep.timeline.{
  AppliedBatch, BatchKey, BatchTakenBack, CommitEntry, Conflict, Rule, TimelineView
}

/** Step 16: a batch of a streaming query is committed once, and none before an earlier one. */
private[commit] object Batches {

  /**
   * At BEGIN: the entry that has applied it already; none where the query is to be forgotten.
   *
   * Conditions: LAKESTEP_BATCH_IN_FLIGHT, LAKESTEP_BATCH_BEHIND, LAKESTEP_BATCH_OF_ANOTHER_QUERY.
   */
  def appliedAt(key: BatchKey, view: TimelineView): Option[Long] = {
    undecided(key, view).foreach { entry =>
      throw Errors(
        "LAKESTEP_BATCH_IN_FLIGHT",
        "query" -> key.query,
        "entry" -> entry.number.toString,
        "other" -> entry.transaction.id
      )
    }
    for {
      batch <- key.batch
      applied <- view.batch(key.query)
      if appliesTo(key, batch, applied)
    } yield applied.entry
  }

  private def appliesTo(key: BatchKey, batch: Long, applied: AppliedBatch): Boolean = {
    def failed(condition: String, more: (String, String)*) = {
      val all = Seq(
        "query" -> key.query,
        "batch" -> batch.toString,
        "entry" -> applied.entry.toString
      ) ++ more
      throw Errors(condition, all: _*)
    }
    if (isOfAnother(key, applied)) failed("LAKESTEP_BATCH_OF_ANOTHER_QUERY")
    if (applied.batch > batch)
      failed("LAKESTEP_BATCH_BEHIND", "applied" -> applied.batch.toString)
    applied.batch == batch
  }

  /** 5a. What BEGIN has seen may be no longer so, and what a statement has taken back not be the newest. */
  def conflict(txn: BegunTransaction, view: TimelineView): Option[Conflict] =
    ofBatch(txn, view).orElse(txn.takenBack.flatMap(ofTakenBack(_, view)).headOption)

  private def ofTakenBack(taken: BatchTakenBack, view: TimelineView): Option[Conflict] = {
    val now = view.batch(taken.key.query)
    inFlight(taken.key, view).orElse(Option.when(!now.exists(_.entry == taken.from)) {
      told(Rule.BatchBehind, taken.key, now.map(_.batch), now.map(_.entry))
    })
  }

  private def inFlight(key: BatchKey, view: TimelineView): Option[Conflict] =
    undecided(key, view).map(e => told(Rule.InFlight, key, None, Some(e.number)))

  private def ofBatch(txn: BegunTransaction, view: TimelineView): Option[Conflict] = for {
    key <- txn.batch
    batch <- key.batch
    now = view.batch(key.query)
    conflict <- inFlight(key, view)
      .orElse(now.filter(a => a.batch >= batch || isOfAnother(key, a)).map { a =>
        val isSame = a.batch == batch && !isOfAnother(key, a)
        told(if (isSame) Rule.BatchApplied else Rule.BatchBehind, key, Some(a.batch), Some(a.entry))
      })
      // Somebody has forgotten the query, and may have begun anew, or has taken a batch back.
      .orElse(txn.batchBefore.filter(before => now.forall(_.batch < before)).map { before =>
        told(Rule.BatchBehind, key, Some(before), None)
      })
  } yield conflict

  private def told(rule: Rule, key: BatchKey, batch: Option[Long], entry: Option[Long]) = Conflict(
    rule,
    key.query,
    "",
    operation = batch.map(b => s"batch $b"),
    entry = entry
  )

  /** Whether an entry is over the same query. */
  def meets(txn: BegunTransaction, entry: CommitEntry): Boolean =
    txn.batches.exists(key => entry.batches.exists(_.query == key.query))

  /** What may still be committed. */
  private def undecided(key: BatchKey, view: TimelineView): Option[CommitEntry] =
    view.after(
      view.finished
    ).filterNot(s => s.isFinished || s.isAborting).map(_.entry).collectFirst {
      case c: CommitEntry if c.batches.exists(_.query == key.query) => c
    }

  private def isOfAnother(key: BatchKey, applied: AppliedBatch) =
    applied.stream.exists(other => key.stream.exists(_ != other))
}
