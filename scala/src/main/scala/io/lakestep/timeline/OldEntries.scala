package io.lakestep.timeline

import java.util

import scala.annotation.tailrec
import scala.util.control.NonFatal

/** What a timeline knows of entries that are not in memory any more. */
private[timeline] trait OldEntries {
  import OldEntries.{Most, Recent}

  protected def atOnce: AtOnce
  def known: TimelineView
  def status(number: Long): EntryStatus
  def requested(id: String): Option[Requested]
  def entryFile(number: Long): String
  protected def existing(number: Long, absent: String = "it is missing"): EntryStatus
  protected def withEnd(status: EntryStatus): EntryStatus
  protected def checked(status: EntryStatus, previousHash: String): EntryStatus

  /** The newest checkpoint that fits. */
  protected def checkpoint(most: Long)(
      fits: TimelineSnapshot => Boolean): Option[TimelineSnapshot]

  protected def history: History

  private lazy val digests = history.digests(entries)

  /** Puts what is due behind a finished prefix. */
  protected def putHistory(prefix: TimelineSnapshot): Unit = {
    history.putIfDue(prefix, entries)
    digests.putIfDue(prefix.number)
  }

  /** Entries of these numbers and what is known of their ends, as far as there are such. */
  def entries(from: Long, to: Long): Vector[EntryStatus] =
    inOrder(from.max(TimelineEntry.First), to.min(known.next - 1)).toVector

  /** From memory, from packs, and one by one, many at once, but for the first so many packs. */
  private def inOrder(from: Long, to: Long, alone: Int = 0): Iterator[EntryStatus] = {
    val inMemory = known.first
    val (old, recent) = (to.min(inMemory - 1), from.max(inMemory))
    packed(from, old, alone).flatten ++ (recent to to).iterator.map(status)
  }

  /** By packs, each all of them or those of its entries that are asked for. */
  private def packed(from: Long, to: Long, alone: Int): Iterator[Vector[EntryStatus]] = {
    val starts = Iterator.iterate(from)(history.after).takeWhile(_ <= to)
    val (first, others) = starts.splitAt(alone)
    (first.map(Seq(_)) ++ others.grouped(Most)).flatMap { some =>
      val found = atOnce(some.toVector)(n => n -> history.packOf(n)).toMap
      val left = some.filter(found(_).isEmpty).flatMap(n => n to (history.after(n) - 1).min(to))
      val singles = left.toVector.grouped(Most).flatMap(atOnce(_)(status)).toVector
        .map(s => s.entry.number -> s).toMap
      some.map { first =>
        val last = (history.after(first) - 1).min(to)
        found(first).fold((first to last).map(singles).toVector)(_.filter { s =>
          s.entry.number >= first && s.entry.number <= last
        })
      }
    }
  }

  /**
   * What the entries up to one left behind. All of them are finished.
   *
   * @param number at most that of the finished prefix
   */
  def snapshotAt(number: Long): TimelineSnapshot =
    if (number < TimelineEntry.First) TimelineSnapshot.empty
    else kept.getOrElse(number)(last(onward(start(number)(_.number <= number), number)))

  private val kept = new Recent[Long, TimelineSnapshot]

  /** The last snapshot whose time is not later; of several with the same time the newest. */
  def snapshotBefore(timeMs: Long): TimelineSnapshot = {
    def isBefore(s: TimelineSnapshot) = s.timeMs.exists(_ <= timeMs)
    val first = start(known.finished)(isBefore)
    last(Iterator(first) ++ onward(first, known.finished).drop(1).takeWhile(isBefore))
  }

  private def last(snapshots: Iterator[TimelineSnapshot]) = snapshots.reduce((_, next) => next)

  /**
   * The entries after a snapshot, in order; far from it, those before a later one of which the same holds may be left
   * out.
   */
  def after(
      snapshot: TimelineSnapshot,
      holds: TimelineSnapshot => Boolean): Iterator[EntryStatus] = {
    val end = known.next - 1
    val next = Iterator.iterate(snapshot.number + 1)(history.after).drop(Most).next()
    val near = chained(inOrder(snapshot.number + 1, (next - 1).min(end), alone = 4), snapshot.hash)
    near ++ Iterator.single(()).filter(_ => next <= end).flatMap { _ =>
      val newest = start(known.finished)(holds)
      if (newest.number < next) chained(inOrder(next, end), hashAt(next - 1))
      else chained(inOrder(newest.number + 1, end), newest.hash)
    }
  }

  /** The entries after one, in order, to be read as a whole. */
  def allAfter(number: Long): Iterator[EntryStatus] =
    chained(inOrder(number + 1, known.next - 1), hashAt(number))

  private def hashAt(number: Long) = if (number < TimelineEntry.First) "" else status(number).hash

  private def chained(entries: Iterator[EntryStatus], hash: String): Iterator[EntryStatus] = {
    var last = hash
    entries.map { status =>
      val found = checked(status, last)
      last = found.hash
      found
    }
  }

  /** What the entries after one have changed of names, as far as they are known. */
  def firstChanges(number: Long): FirstChanges = firstChanges(number, hashAt(number))

  /** @param hash that of the entry with the number */
  def firstChanges(number: Long, hash: => String): FirstChanges = {
    val view = known
    val recent = FirstChanges.of(view.after(number))
    if (view.first <= number + 1) recent
    else {
      val range = (number, view.first - 1)
      val old = changes.getOrElse(range) {
        digests.of(number + 1, view.first - 1, hash, view.hashBeforeFirst)
      }
      old.and(recent)
    }
  }

  private val changes = new Recent[(Long, Long), FirstChanges]

  /** A snapshot and those after it, entry by entry. */
  private def onward(from: TimelineSnapshot, to: Long): Iterator[TimelineSnapshot] =
    inOrder(from.number + 1, to)
      .scanLeft(from)((snapshot, entry) => snapshot + checked(entry, snapshot.hash))

  /** The newest snapshot at hand that fits, whose time is known; none after a number does. */
  private def start(most: Long)(fits: TimelineSnapshot => Boolean): TimelineSnapshot = {
    def isGood(s: TimelineSnapshot) = s.timeMs.isDefined && fits(s)
    val view = known
    Seq(view.snapshot, view.milestone).find(isGood)
      .orElse {
        val (checkpointed, packed) =
          atOnce.both(checkpoint(most)(isGood), history.newestSnapshot(most)(isGood))
        (checkpointed ++ packed).maxByOption(_.number)
      }
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
      recent ++ readBack(view.first - 1, view.hashBeforeFirst, began, Map.empty, mayBePacked = true)
    }
  }

  /** Before every entry where nothing tells. */
  private def snapshotOf(transaction: String): Long =
    try requested(transaction).fold(0L)(_.snapshot)
    catch { case NonFatal(_) => 0L }

  /**
   * @param began the transactions that are looked for, and the snapshot with which each began
   * @param mayBePacked whether it is not known that there is no pack with that number
   */
  @tailrec
  private def readBack(
      number: Long,
      hash: String,
      began: Map[String, Long],
      found: Map[String, EntryStatus],
      mayBePacked: Boolean): Map[String, EntryStatus] = {
    val left = began.filter(_._2 < number)
    if (left.isEmpty) found
    else {
      val pack = if (mayBePacked) history.packOf(number).filter(_.exists(_.hash == hash)) else None
      val block =
        pack.fold(Vector(existing(number)))(_.takeWhile(_.entry.number <= number))
      if (block.last.hash != hash) throw StrictFields.corrupt(
        entryFile(number),
        s"its hash is not the one that entry ${number + 1} holds"
      )
      val here = block.flatMap { status =>
        status.entry match {
          case c: CommitEntry if left.contains(c.transaction.id) => Some(c.transaction.id -> status)
          case _ => None
        }
      }
      readBack(
        block.head.entry.number - 1,
        block.head.entry.previousHash,
        left -- here.map(_._1),
        found ++ here.map { case (id, status) => id -> withEnd(status) },
        pack.isDefined || history.begins(block.head.entry.number)
      )
    }
  }
}

private object OldEntries {

  /** How many entries are read at once, also by the timeline itself. */
  val Most = 64

  /** How many are kept in memory. */
  private val Kept = 4

  /** What was asked for last: a query has several tables, and names. */
  private final class Recent[K, V] {
    private val found = new util.LinkedHashMap[K, V](16, 0.75f, true) {
      override def removeEldestEntry(eldest: util.Map.Entry[K, V]): Boolean = size > Kept
    }

    def getOrElse(key: K)(make: => V): V =
      Option(found.synchronized(found.get(key))).getOrElse {
        val made = make
        found.synchronized(found.put(key, made))
        made
      }
  }
}
