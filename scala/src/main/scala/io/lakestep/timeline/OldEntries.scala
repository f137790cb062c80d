package io.lakestep.timeline

import java.util

import scala.annotation.tailrec
import scala.util.control.NonFatal

/** What a timeline knows of entries that are not in memory any more. */
private[timeline] trait OldEntries {
  import OldEntries.Most

  protected def atOnce: AtOnce
  def known: TimelineView
  def status(number: Long): EntryStatus
  def requested(id: String): Option[Requested]
  def entryFile(number: Long): String
  protected def existing(number: Long, absent: String = "it is missing"): EntryStatus
  protected def withEnd(status: EntryStatus): EntryStatus
  protected def checked(status: EntryStatus, previousHash: String): EntryStatus

  /** The newest checkpoint that fits. */
  protected def checkpoint(fits: TimelineSnapshot => Boolean): Option[TimelineSnapshot]

  /** Entries of these numbers and what is known of their ends, as far as there are such. */
  def entries(from: Long, to: Long): Vector[EntryStatus] =
    (from.max(TimelineEntry.First) to to.min(known.next - 1)).grouped(Most)
      .flatMap(numbers => atOnce(numbers.toVector)(status)).toVector

  /**
   * What the entries up to one left behind. All of them are finished.
   *
   * @param number at most that of the finished prefix
   */
  def snapshotAt(number: Long): TimelineSnapshot =
    Option(kept.synchronized(kept.get(number))).getOrElse {
      val snapshot = last(onward(start(_.number <= number), number))
      kept.synchronized(kept.put(number, snapshot))
      snapshot
    }

  /** Those that were asked for last: a query has several tables. */
  private val kept = new util.LinkedHashMap[Long, TimelineSnapshot](16, 0.75f, true) {
    override def removeEldestEntry(eldest: util.Map.Entry[Long, TimelineSnapshot]): Boolean =
      size > OldEntries.Kept
  }

  /** The last snapshot whose time is not later; of several with the same time the newest. */
  def snapshotBefore(timeMs: Long): TimelineSnapshot = {
    def isBefore(s: TimelineSnapshot) = s.timeMs.exists(_ <= timeMs)
    last(onward(start(isBefore), known.finished).takeWhile(isBefore))
  }

  private def last(snapshots: Iterator[TimelineSnapshot]) = snapshots.reduce((_, next) => next)

  /** A snapshot and those after it, entry by entry. */
  private def onward(from: TimelineSnapshot, to: Long): Iterator[TimelineSnapshot] =
    (from.number + 1 to to).grouped(Most)
      .flatMap(numbers => atOnce(numbers.toVector)(status))
      .scanLeft(from)((snapshot, entry) => snapshot + checked(entry, snapshot.hash))

  /** The newest snapshot at hand that fits, whose time is known. */
  private def start(fits: TimelineSnapshot => Boolean): TimelineSnapshot = {
    def isGood(s: TimelineSnapshot) = s.timeMs.isDefined && fits(s)
    val view = known
    Seq(view.snapshot, view.milestone).find(isGood).orElse(checkpoint(isGood))
      .getOrElse(TimelineSnapshot.empty)
  }

  /**
   * The entries of those transactions that have one. For what is not among the recent entries it
   * reads back, as far as the snapshot with which the oldest of them began, or to the first entry for
   * one whose REQUESTED file is gone.
   */
  def entriesOf(transactions: Set[String]): Map[String, EntryStatus] = {
    val view = known
    val recent = view.byTransaction(transactions)
    val others = (transactions -- recent.keySet).filter(view.aborted(_).isEmpty)
    if (others.isEmpty || view.first == TimelineEntry.First) recent
    else {
      val began = others.toVector.map(id => id -> snapshotOf(id)).toMap
      recent ++ readBack(view.first - 1, view.hashBeforeFirst, began, Map.empty)
    }
  }

  /** Before every entry where nothing tells. */
  private def snapshotOf(transaction: String): Long =
    try requested(transaction).fold(0L)(_.snapshot)
    catch { case NonFatal(_) => 0L }

  /** @param began the transactions that are looked for, and the snapshot with which each began */
  @tailrec
  private def readBack(
      number: Long,
      hash: String,
      began: Map[String, Long],
      found: Map[String, EntryStatus]): Map[String, EntryStatus] = {
    val left = began.filter(_._2 < number)
    if (left.isEmpty) found
    else {
      val status = existing(number)
      if (status.hash != hash) throw StrictFields.corrupt(
        entryFile(number),
        s"its hash is not the one that entry ${number + 1} holds"
      )
      val id = status.entry match {
        case c: CommitEntry => Some(c.transaction.id).filter(left.contains)
        case _ => None
      }
      readBack(
        number - 1,
        status.entry.previousHash,
        left -- id,
        found ++ id.map(_ -> withEnd(status))
      )
    }
  }
}

private object OldEntries {

  /** How many entries are read at once. */
  val Most = 64

  /** How many snapshots are kept in memory. */
  val Kept = 4
}
