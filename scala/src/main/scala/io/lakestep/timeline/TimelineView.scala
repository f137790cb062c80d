package io.lakestep.timeline

/**
 * The timeline as somebody read it: entries from the first on, without holes.
 *
 * Immutable. `finished` is the longest prefix of finished entries, the newest snapshot there is.
 *
 * @param statuses entry `First + i` at index i
 * @param settled by log: (entry, slot of its last mark) of the finished prefix, in order
 */
final case class TimelineView private (
    statuses: Vector[EntryStatus],
    finished: Long,
    settled: Map[String, Vector[(Long, Long)]],
    aborted: Map[String, Long],
    byTransaction: Map[String, Long]) {

  import TimelineEntry.First

  /** The next free number. */
  def next: Long = First + statuses.size

  def status(number: Long): Option[EntryStatus] = statuses.lift((number - First).toInt)

  /** Entries after a snapshot, in order. */
  def after(snapshot: Long): Vector[EntryStatus] = statuses.drop((snapshot - First + 1).max(0L).toInt)

  /** Commit entries that still need somebody, oldest first. */
  def unfinished: Vector[CommitEntry] = after(finished).filterNot(_.isFinished).map(_.entry).collect {
    case c: CommitEntry => c
  }

  /** The slot of the last mark of an entry ≤ `snapshot` in a log; with the entry. */
  def lastMark(log: String, snapshot: Long): Option[(Long, Long)] =
    settled.getOrElse(log, Vector.empty).reverseIterator.find(_._1 <= snapshot)

  /** Hash of the newest entry, for the entry that follows it. */
  def lastHash: String = statuses.lastOption.fold("")(_.hash)

  /** This view with what another one knows in addition. */
  def merge(other: TimelineView): TimelineView = {
    val (longer, shorter) =
      if (other.statuses.size >= statuses.size) (other, this) else (this, other)
    val from = finished.min(other.finished)
    longer.after(from).foldLeft(longer.prefix(from)) { (view, theirs) =>
      val mine = shorter.status(theirs.entry.number)
      view.append(
        theirs.copy(
          outcome = theirs.outcome.orElse(mine.flatMap(_.outcome)),
          rolledBack = theirs.rolledBack.orElse(mine.flatMap(_.rolledBack))
        )
      )
    }
  }

  /** The entries up to a finished one. */
  def prefix(from: Long): TimelineView =
    if (next == from + 1) this
    else
      copy(
        statuses = statuses.take((from - First + 1).toInt),
        finished = from,
        settled = settled.map { case (log, marks) => log -> marks.takeWhile(_._1 <= from) },
        aborted = aborted.filter(_._2 <= from),
        byTransaction = byTransaction.filter(_._2 <= from)
      )

  /** This view and one more entry. */
  def append(status: EntryStatus): TimelineView = {
    val number = status.entry.number
    val extends_ = status.isFinished && finished == number - 1
    val base = copy(statuses = statuses :+ status, finished = if (extends_) number else finished)
    status.entry match {
      case a: AbortEntry => base.copy(aborted = aborted ++ a.transactions.map(_ -> number))
      case c: CommitEntry =>
        val known = base.copy(byTransaction = byTransaction + (c.transaction.id -> number))
        if (extends_) known.copy(settled = withSlots(c, status)) else known
    }
  }

  private def withSlots(entry: CommitEntry, status: EntryStatus): Map[String, Vector[(Long, Long)]] =
    entry.tables.zipWithIndex.foldLeft(settled) { case (all, (table, i)) =>
      TimelineView.lastSlot(status, i).fold(all) { slot =>
        all.updated(table.log, all.getOrElse(table.log, Vector.empty) :+ (entry.number -> slot))
      }
    }
}

object TimelineView {
  val empty: TimelineView = TimelineView(Vector.empty, 0L, Map.empty, Map.empty, Map.empty)

  /** The slot of the last mark that a finished entry left in a table, if it left one. */
  def lastSlot(status: EntryStatus, table: Int): Option[Long] = status.outcome match {
    case Some(c: Completed) => c.slots.lift(table).flatMap(_.lastOption)
    case _ => status.rolledBack.flatMap(_.tables.lift(table)).flatMap(_.version)
  }
}
