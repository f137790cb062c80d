package io.lakestep.timeline

import scala.util.control.NonFatal

import io.lakestep.{Errors, LakestepException}
import io.lakestep.storage.{ObjectStore, StoredFile}

/**
 * An entry as its own files say, whatever others hold.
 *
 * @param status none where it cannot be read
 * @param damage what is wrong with its files, or with the hash of the entry before that it holds
 * @param ofOutcome the hash that its outcome holds, where the two do not fit
 */
final case class ReadEntry(
    number: Long,
    status: Option[EntryStatus],
    damage: Vector[LakestepException],
    ofOutcome: Option[String] = None)

/** Reads every entry by its own file: nothing is taken from memory, a checkpoint or a pack. */
private[timeline] trait EveryEntry {
  protected def store: ObjectStore
  protected def atOnce: AtOnce
  def root: String
  def entryFile(number: Long): String
  def known: TimelineView
  def existingId: Option[String]
  protected def readId(): Option[String]
  def requested(id: String): Option[Requested]
  def allRequested: Map[String, StoredFile]
  protected def readEntry(number: Long): Option[EntryStatus]
  protected def withEnd(status: EntryStatus): EntryStatus
  protected def outcome(number: Long): Option[Outcome]
  protected def checkpoint(most: Long)(
      fits: TimelineSnapshot => Boolean): Option[TimelineSnapshot]

  /**
   * The newest number of which any file, an open transaction or this process knows, and what could not be
   * read for it.
   */
  def newestKnown(): (Long, Vector[LakestepException]) = {
    val files = store.list(s"$root/timeline", "0")
    val found = files.map(_.name.take(20)).filter(_.forall(_.isDigit)).flatMap(_.toLongOption)
    // More are not missing than are there.
    val (numbers, strays) = found.distinct.partition(_ <= 2L * found.size + OldEntries.Most)
    val checkpointed = checkpoint(Long.MaxValue)(_ => true).map(_.number)
    val (unread, begun) = allRequested.keys.toVector.map { id =>
      try Right(requested(id).fold(0L)(_.snapshot))
      catch { case e: LakestepException => Left(e) }
    }.partitionMap(identity)
    val wrong = strays.map { number =>
      StrictFields.corrupt(entryFile(number), "nothing leads up to a number like that")
    }
    ((numbers ++ checkpointed ++ begun :+ known.next - 1).max, unread ++ wrong)
  }

  /** What is wrong with the file of the timeline's id, as it is now. */
  def checkId(): Option[LakestepException] = {
    val before = existingId
    try {
      val now = readId()
      val isThere = now.isDefined || store.list(s"$root/timeline", "0").isEmpty
      if (!isThere) Some(StrictFields.corrupt(s"$root/format.json", "it is missing"))
      else if (now != before)
        Some(StrictFields.corrupt(s"$root/format.json", "it was changed: it has another id"))
      else None
    } catch { case e: LakestepException => Some(e) }
  }

  def isMissing(number: Long): Boolean = !store.exists(entryFile(number))

  /** The entries from the first one on, in order. */
  def everyEntry(last: Long): Iterator[ReadEntry] = {
    val entries = (TimelineEntry.First to last).iterator.grouped(OldEntries.Most)
      .flatMap(numbers => atOnce(numbers.toVector)(read))
    (Iterator(None) ++ entries.map(Option(_)) ++ Iterator(None)).sliding(3)
      .collect { case Seq(before, Some(entry), next) => linked(before, entry, next) }
  }

  private def read(number: Long): ReadEntry =
    try readEntry(number) match {
        case None =>
          ReadEntry(number, None, Vector(StrictFields.corrupt(entryFile(number), "it is missing")))
        case Some(status) =>
          try ReadEntry(number, Some(withEnd(status)), Vector.empty)
          catch {
            case NonFatal(e) =>
              ReadEntry(number, Some(status), Vector(told(number, e)), hashOfOutcome(number))
          }
      }
    catch { case NonFatal(e) => ReadEntry(number, None, Vector(told(number, e))) }

  private def hashOfOutcome(number: Long): Option[String] =
    try outcome(number).map(_.entryHash)
    catch { case NonFatal(_) => None }

  private def told(number: Long, cause: Throwable): LakestepException = cause match {
    case e: LakestepException => e
    case e =>
      val reason = String.valueOf(e.getMessage)
      Errors.caused("LAKESTEP_TIMELINE_CORRUPT", e, "file" -> entryFile(number), "reason" -> reason)
  }

  private def linked(
      before: Option[ReadEntry],
      entry: ReadEntry,
      next: Option[ReadEntry]): ReadEntry = {
    def corrupt(reason: String) = StrictFields.corrupt(entryFile(entry.number), reason)
    val previous = before.fold(Option(""))(_.status.map(_.hash))
    val held = entry.status.map(_.entry.previousHash)
    val fits = previous.isEmpty || held.isEmpty || previous == held
    if (wasChanged(Some(entry), next)) {
      val reason = "it was changed: its outcome and the next entry hold another hash of it"
      entry.copy(damage = Vector(corrupt(reason)))
    } else if (fits || wasChanged(before, Some(entry))) entry
    else {
      val reason =
        "the hash that it holds is not that of the entry before: one of the two was changed"
      entry.copy(damage = corrupt(reason) +: entry.damage)
    }
  }

  /** Two others hold the same hash of it, and it has another one. */
  private def wasChanged(entry: Option[ReadEntry], next: Option[ReadEntry]): Boolean =
    entry.exists { e =>
      e.ofOutcome.isDefined && e.ofOutcome != e.status.map(_.hash) &&
      e.ofOutcome == next.flatMap(_.status).map(_.entry.previousHash)
    }
}
