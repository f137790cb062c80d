package io.lakestep.timeline

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import io.lakestep.Json
import io.lakestep.storage.ObjectStore

/**
 * What makes old entries cheap to read: *packs*, each a run of finished entries with their ends in one
 * file, and a snapshot after every so many of them. A reader with other settings looks for others.
 *
 * Nothing depends on them: each can be made again, and one that is missing or damaged is passed over for
 * the files that it was made of.
 *
 * @param size how many entries a pack has; the last one is a multiple of it
 * @param bytesOf the bytes of an entry's file
 */
private[timeline] final class History(
    store: ObjectStore,
    folder: String,
    size: Int,
    atOnce: AtOnce,
    bytesOf: Long => Option[Array[Byte]]) {
  import History._

  /** The last entry of the newest pack that is known to be there, or was tried. */
  private val newest = new AtomicLong(0L)

  private val packs = s"$folder/entries"
  private val snapshots = s"$folder/snapshots"

  private val names = s"$folder/names"

  /** Where the temporary files of stores stand. */
  def folders: Vector[String] = Vector(packs, snapshots, names)

  /** @param entries all with these numbers, with their ends */
  def digests(entries: (Long, Long) => Vector[EntryStatus]): NameDigests =
    new NameDigests(store, names, size, atOnce, entries)

  /**
   * Puts what is due behind a finished prefix; what is missing before it, too, as far as a few packs.
   * Whatever goes wrong is left to the next client.
   */
  def putIfDue(prefix: TimelineSnapshot, statuses: (Long, Long) => Vector[EntryStatus]): Unit = {
    val last = prefix.number
    val before = if (last % size == 0) newest.getAndUpdate(_.max(last)) else last
    if (before < last)
      try {
        Iterator.iterate(last)(_ - size).take(MostPacks).takeWhile(_ > before)
          .takeWhile(to => !store.exists(pack(to)))
          .foreach(to => put(pack(to), encode(statuses(to - size + 1, to))))
        if (last % (size * PacksPerSnapshot) == 0 && prefix.timeMs.isDefined)
          put(snapshot(last), SnapshotCodec.encode(prefix))
      } catch { case NonFatal(_) => () }
  }

  private def put(file: String, bytes: => Array[Byte]): Unit = {
    store.putIfAbsent(file, bytes)
    ()
  }

  /** The first number after the pack that holds this one. */
  def after(number: Long): Long = (number + size - 1) / size * size + 1

  def begins(number: Long): Boolean = after(number - 1) == number

  /** The entries of the pack that holds this one, if there is such a pack. */
  def packOf(number: Long): Option[Vector[EntryStatus]] = {
    val to = after(number) - 1
    try
      store.get(pack(to)).map(decode(pack(to), _))
        .filter(_.map(_.entry.number) == (to - size + 1 to to))
    catch { case NonFatal(_) => None }
  }

  /**
   * The newest snapshot that fits. Those that fit are older than those that do not.
   *
   * @param most none after this number fits
   */
  def newestSnapshot(most: Long)(fits: TimelineSnapshot => Boolean): Option[TimelineSnapshot] =
    try {
      val numbers = store.list(snapshots, "0").map(_.name)
        .collect { case Name(number) => number.toLong }.filter(_ <= most)
      search(numbers)(fits)
    } catch { case NonFatal(_) => None }

  /** Some of them at once, and so on between those where it turns. */
  private def search(numbers: Vector[Long])(
      fits: TimelineSnapshot => Boolean): Option[TimelineSnapshot] =
    if (numbers.isEmpty) None
    else {
      val step = (numbers.size - 1) / AtATime + 1
      val asked = (numbers.size - 1 to 0 by -step).reverse.toVector
      val found = atOnce(asked)(i => read(numbers(i)).filter(fits))
      val last = found.lastIndexWhere(_.isDefined)
      val from = if (last < 0) 0 else asked(last) + 1
      val until = asked.lift(last + 1).getOrElse(numbers.size)
      search(numbers.slice(from, until))(fits).orElse(found.lift(last).flatten)
    }

  private def read(number: Long): Option[TimelineSnapshot] =
    SnapshotCodec.find(store, snapshot(number), number)

  private def pack(to: Long) = f"$packs/$to%020d.json"
  private def snapshot(number: Long) = f"$snapshots/$number%020d.json"

  private def encode(statuses: Vector[EntryStatus]): Array[Byte] = {
    val node = Json.obj()
    val array = node.putArray(Entries)
    statuses.foreach { status =>
      val number = status.entry.number
      val written = TimelineCodec.encode(status.entry)
      // Another version may have written what this one does not know.
      val bytes = if (Json.blake3(written) == status.hash) written
      else bytesOf(number).getOrElse(throw new java.io.IOException(s"entry $number is gone"))
      val one = array.addObject().put(Entry, text(bytes))
      status.outcome.foreach(o => one.put(End, text(TimelineCodec.encode(o))))
      status.rolledBack.foreach(r => one.put(Rollback, text(TimelineCodec.encode(r))))
    }
    StrictFields.summed(node)
  }

  private def decode(file: String, content: Array[Byte]): Vector[EntryStatus] = {
    val statuses = StrictFields.parseSummed(file, content).children(Entries).map { one =>
      val bytes = one.string(Entry).getBytes(UTF_8)
      EntryStatus(
        TimelineCodec.decodeEntry(file, bytes),
        Json.blake3(bytes),
        one.optString(End).map(o => TimelineCodec.decodeOutcome(file, o.getBytes(UTF_8))),
        one.optString(Rollback).map(r => TimelineCodec.decodeRolledBack(file, r.getBytes(UTF_8)))
      )
    }
    val isWhole = statuses.forall(_.isFinished) &&
      statuses.zip(statuses.drop(1)).forall { case (a, b) => b.entry.previousHash == a.hash }
    if (isWhole) statuses else throw StrictFields.corrupt(file, "its entries are not a chain")
  }

  private def text(bytes: Array[Byte]) = new String(bytes, UTF_8)
}

private object History {

  /** How many packs one client makes that others have left out. */
  private val MostPacks = 16

  private val PacksPerSnapshot = 64

  /** How many snapshots are read at once. */
  private val AtATime = 16

  private val Entries = "entries"
  private val Entry = "entry"
  private val End = "outcome"
  private val Rollback = "rolledBack"
  private val Name = """(\d{20})\.json""".r
}
