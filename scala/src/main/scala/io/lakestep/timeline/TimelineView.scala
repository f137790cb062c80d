package io.lakestep.timeline

import io.lakestep.log.TableRef

/**
 * The timeline as somebody read it: the snapshot of the longest prefix of finished entries, which is
 * the newest there is, and the recent entries themselves, without holes.
 *
 * Immutable. Every entry after the finished prefix is recent; of the others the last `interval` are,
 * or as many as were read, and never more than twice as many.
 *
 * @param snapshot what the finished prefix left behind
 * @param milestone of the prefix up to the last multiple of `interval`, for a checkpoint
 * @param recent the last entries, up to the newest that was read
 */
final case class TimelineView private (
    snapshot: TimelineSnapshot,
    milestone: TimelineSnapshot,
    recent: Vector[EntryStatus],
    interval: Int) {

  /** The last entry of the finished prefix. */
  def finished: Long = snapshot.number

  /** The next free number. */
  def next: Long = recent.lastOption.fold(finished)(_.entry.number) + 1

  /** The number of the oldest recent entry, `next` when there is none. */
  def first: Long = next - recent.size

  /** Hash of the newest entry, for the entry that follows it. */
  def lastHash: String = recent.lastOption.fold(snapshot.hash)(_.hash)

  /** Hash of the entry before the recent ones. */
  def hashBeforeFirst: String = recent.headOption.fold(snapshot.hash)(_.entry.previousHash)

  /** A recent entry. */
  def status(number: Long): Option[EntryStatus] = recent.lift((number - first).toInt)

  /** Recent entries after a snapshot, in order: all there are, when it is not below `first - 1`. */
  def after(snapshot: Long): Vector[EntryStatus] =
    recent.drop((snapshot - first + 1).max(0L).toInt)

  /** Commit entries that still need somebody, oldest first. */
  def unfinished: Vector[CommitEntry] =
    after(finished).filterNot(_.isFinished).map(_.entry).collect {
      case c: CommitEntry => c
    }

  /** The ABORT entry that ended a transaction, if one did. */
  def aborted(transaction: String): Option[Long] =
    snapshot.aborted.get(transaction).orElse(after(finished).map(_.entry).collectFirst {
      case a: AbortEntry if a.transactions.contains(transaction) => a.number
    })

  /** Recent entries of transactions, by their ids. */
  def byTransaction(ids: Set[String]): Map[String, EntryStatus] =
    recent.flatMap { status =>
      status.entry match {
        case c: CommitEntry if ids(c.transaction.id) => Some(c.transaction.id -> status)
        case _ => None
      }
    }.toMap

  /** The newest entry that has changed a name, or taken one from what was dropped; 0 for none that is known. */
  def lastNames: Long =
    after(finished).filter(_.isOverNames).lastOption
      .fold(snapshot.names.last)(_.entry.number)

  /** The newest batch of a query that is committed. */
  def batch(query: String): Option[AppliedBatch] =
    after(finished).filter(_.isCompleted).map(_.entry).foldLeft(snapshot.batches) {
      case (batches, c: CommitEntry) => batches.and(c.batches, c.number)
      case (batches, _) => batches
    }.byQuery.get(query)

  /** Recent entries after a snapshot that write a log, in order; with the table's index in each. */
  def writers(log: String, snapshot: Long): Vector[(EntryStatus, CommitEntry, Int)] =
    after(snapshot).flatMap { status =>
      status.entry match {
        case c: CommitEntry =>
          c.tables.indices.filter(c.tables(_).log == log).map(i => (status, c, i))
        case _ => Vector.empty
      }
    }

  /** The slot of the last mark of a finished entry in a log, also of one above the prefix. */
  def lastSlot(log: String): Option[Long] = {
    val above = writers(log, finished).flatMap { case (status, _, index) => status.lastSlot(index) }
    (snapshot.lastMark(log).map(_.slot) ++ above).maxOption
  }

  /** The tables that entries write: path and log of each. */
  def tables: Vector[(TableRef, String)] =
    (snapshot.logs.toVector.map { case (log, state) => state.path -> log } ++
      after(finished).map(_.entry).collect { case c: CommitEntry => c }
        .flatMap(_.tables).map(t => t.path -> t.log)).distinct

  /** This view, where what an entry has made of names is known to be in the metastores. */
  def withApplied(entry: Long): TimelineView = copy(
    snapshot = snapshot.copy(names = snapshot.names.applied(entry)),
    milestone = milestone.copy(names = milestone.names.applied(entry))
  )

  /** This view with what another one knows in addition. */
  def merge(other: TimelineView): TimelineView = {
    val (longer, less) = if (other.next >= next) (other, this) else (this, other)
    val (further, nearer) =
      if (other.finished >= finished) (other, this) else (this, other)
    val applied = further.snapshot.names.unapplied.keySet
      .filter(n => n <= nearer.finished && !nearer.snapshot.names.unapplied.contains(n))
    mergeEntries(longer, less, applied.foldLeft(further)(_.withApplied(_)))
  }

  private def mergeEntries(
      longer: TimelineView,
      less: TimelineView,
      further: TimelineView): TimelineView = {
    longer.after(further.finished).foldLeft(further.finishedPrefix) { (view, theirs) =>
      view.append(less.status(theirs.entry.number).fold(theirs)(theirs.withEndOf))
    }
  }

  private def finishedPrefix: TimelineView =
    copy(recent = recent.take((finished - first + 1).max(0L).toInt))

  /** This view, with more known of the entries after the finished prefix. */
  def withEnds(known: EntryStatus => EntryStatus): TimelineView =
    after(finished).foldLeft(finishedPrefix)((view, status) => view.append(known(status)))

  /** This view and one more entry. */
  def append(status: EntryStatus): TimelineView = {
    val number = status.entry.number
    val more = recent :+ status
    if (!status.isFinished || finished != number - 1) copy(recent = more)
    else {
      val longer = snapshot + status
      TimelineView(
        snapshot = longer,
        milestone = if (number % interval == 0) longer else milestone,
        recent = if (more.size > 2 * interval) more.takeRight(interval) else more,
        interval = interval
      )
    }
  }
}

object TimelineView {

  /** A view that goes on from a snapshot. */
  def from(snapshot: TimelineSnapshot, interval: Int): TimelineView =
    TimelineView(snapshot, snapshot, Vector.empty, interval)
}
