package io.lakestep.timeline

/**
 * The timeline as somebody read it: entries from the first on, without holes.
 *
 * Immutable. `finished` is the longest prefix of finished entries, the newest snapshot there is.
 *
 * @param statuses entry `First + i` at index i
 * @param settled by log: (entry, slot of its last mark) of the finished prefix, in order
 * @param shorter the view of the finished prefix alone, where this is more; kept, so that going back
 *   to it costs the same however long the timeline is
 */
final case class TimelineView private (
    statuses: Vector[EntryStatus],
    finished: Long,
    settled: Map[String, Vector[(Long, Long)]],
    aborted: Map[String, Long],
    byTransaction: Map[String, Long])(shorter: Option[TimelineView]) {

  import TimelineEntry.First

  /** The next free number. */
  def next: Long = First + statuses.size

  def status(number: Long): Option[EntryStatus] = statuses.lift((number - First).toInt)

  /** Entries after a snapshot, in order. */
  def after(snapshot: Long): Vector[EntryStatus] =
    statuses.drop((snapshot - First + 1).max(0L).toInt)

  /** Commit entries that still need somebody, oldest first. */
  def unfinished: Vector[CommitEntry] =
    after(finished).filterNot(_.isFinished).map(_.entry).collect {
      case c: CommitEntry => c
    }

  /** The slot of the last mark of an entry ≤ `snapshot` in a log; with the entry. */
  def lastMark(log: String, snapshot: Long): Option[(Long, Long)] =
    settled.getOrElse(log, Vector.empty).reverseIterator.find(_._1 <= snapshot)

  /** Entries that write a log, newest first; of finished ones those that left a mark there. */
  def writers(log: String): Iterator[EntryStatus] = {
    val above = after(finished).reverseIterator.filter {
      _.entry match {
        case c: CommitEntry => c.tables.exists(_.log == log)
        case _ => false
      }
    }
    above ++ settled.getOrElse(log, Vector.empty).reverseIterator.flatMap(m => status(m._1))
  }

  /** The slot of the last mark of a finished entry in a log, also of one above the prefix. */
  def lastSlot(log: String): Option[Long] =
    (lastMark(log, finished).map(_._2) ++ after(finished).flatMap { status =>
      status.entry match {
        case c: CommitEntry =>
          c.tables.indices.filter(c.tables(_).log == log).flatMap(TimelineView.lastSlot(status, _))
        case _ => Nil
      }
    }).maxOption

  /** Hash of the newest entry, for the entry that follows it. */
  def lastHash: String = statuses.lastOption.fold("")(_.hash)

  /** This view with what another one knows in addition. */
  def merge(other: TimelineView): TimelineView = {
    val (longer, less) =
      if (other.statuses.size >= statuses.size) (other, this) else (this, other)
    val further = if (other.finished >= finished) other else this
    longer.after(further.finished).foldLeft(further.finishedPrefix) { (view, theirs) =>
      val mine = less.status(theirs.entry.number)
      view.append(
        theirs.copy(
          outcome = theirs.outcome.orElse(mine.flatMap(_.outcome)),
          rolledBack = theirs.rolledBack.orElse(mine.flatMap(_.rolledBack))
        )
      )
    }
  }

  /** The entries up to the last of the finished prefix. */
  def finishedPrefix: TimelineView = shorter.getOrElse(this)

  /** This view, with more known of the entries after the finished prefix. */
  def withEnds(known: EntryStatus => EntryStatus): TimelineView =
    after(finished).foldLeft(finishedPrefix)((view, status) => view.append(known(status)))

  /** This view and one more entry. */
  def append(status: EntryStatus): TimelineView = {
    val number = status.entry.number
    val extends_ = status.isFinished && finished == number - 1
    val whole = if (extends_) None else Some(finishedPrefix)
    TimelineView(
      statuses = statuses :+ status,
      finished = if (extends_) number else finished,
      settled = status.entry match {
        case c: CommitEntry if extends_ => withSlots(c, status)
        case _ => settled
      },
      aborted = status.entry match {
        case a: AbortEntry => aborted ++ a.transactions.map(_ -> number)
        case _ => aborted
      },
      byTransaction = status.entry match {
        case c: CommitEntry => byTransaction + (c.transaction.id -> number)
        case _ => byTransaction
      }
    )(whole)
  }

  private def withSlots(
      entry: CommitEntry,
      status: EntryStatus): Map[String, Vector[(Long, Long)]] =
    entry.tables.zipWithIndex.foldLeft(settled) { case (all, (table, i)) =>
      TimelineView.lastSlot(status, i).fold(all) { slot =>
        all.updated(table.log, all.getOrElse(table.log, Vector.empty) :+ (entry.number -> slot))
      }
    }
}

object TimelineView {
  val empty: TimelineView = TimelineView(Vector.empty, 0L, Map.empty, Map.empty, Map.empty)(None)

  /** The slot of the last mark that a finished entry left in a table, if it left one. */
  def lastSlot(status: EntryStatus, table: Int): Option[Long] = status.outcome match {
    case Some(c: Completed) => c.slots.lift(table).flatMap(_.lastOption)
    case _ => status.rolledBack.flatMap(_.tables.lift(table)).flatMap(_.version)
  }
}
