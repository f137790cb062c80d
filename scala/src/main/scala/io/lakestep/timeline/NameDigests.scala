package io.lakestep.timeline

import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.storage.ObjectStore

/**
 * What entries in a row have changed of names.
 *
 * @param before each name, with what it stood for before the first of them that changes it
 * @param purged tables whose data are given up
 */
final case class FirstChanges(
    before: Map[NameKey, Option[NamedObject]],
    purged: Set[TableRef]) {

  def and(later: FirstChanges): FirstChanges =
    FirstChanges(later.before ++ before, purged ++ later.purged)
}

private[timeline] object FirstChanges {
  val None: FirstChanges = FirstChanges(Map.empty, Set.empty)

  def of(entries: Seq[EntryStatus]): FirstChanges = FirstChanges(
    entries.reverseIterator.flatMap(_.names).map(c => c.key -> c.before).toMap,
    entries.map(_.entry).collect { case c: CommitEntry => c.purges.map(_.path) }.flatten.toSet
  )
}

/**
 * The changes of names of old entries, in files for runs of them: 64 packs, and 64 of those. So what stood for a name
 * at any version is known from a number of files that has a bound.
 *
 * As with packs nothing depends on them: where one is missing, damaged, or of other entries, the entries are read.
 *
 * @param pack how many entries a pack has
 * @param entries all with these numbers, with their ends
 */
private[timeline] final class NameDigests(
    store: ObjectStore,
    folder: String,
    pack: Int,
    atOnce: AtOnce,
    entries: (Long, Long) => Vector[EntryStatus]) {
  import NameDigests._

  /** How many entries a file is about. */
  private val spans = Vector(pack.toLong * Runs, pack.toLong * Runs * Runs)

  /** The last entry of the newest runs that are known to be there, or were tried. */
  private val newest = new AtomicLong(0L)

  /** Puts those of the runs that end with this entry. Whatever goes wrong is left to readers. */
  def putIfDue(last: Long): Unit =
    if (last % spans.head == 0 && newest.getAndUpdate(_.max(last)) < last)
      try
        for (span <- spans if last % span == 0 && !store.exists(file(last, span))) {
          val run = joined(runs(last - span + 1, last, under = span))
          store.putIfAbsent(file(last, span), encode(run))
        }
      catch { case NonFatal(_) => () }

  /**
   * @param previousHash of the entry before the first
   * @param hash of the last one
   */
  def of(from: Long, to: Long, previousHash: String, hash: String): FirstChanges = {
    def isThis(run: Digest) = run.previousHash == previousHash && run.hash == hash
    def whole(under: Long) = Some(joined(runs(from, to, under))).filter(isThis)
    val found =
      try whole(under = Long.MaxValue)
      catch { case NonFatal(_) => None }
    found.orElse(whole(under = 0)).map(_.changes).getOrElse(
      throw StrictFields.corrupt(folder, s"entries $from to $to are not a chain")
    )
  }

  /** As few as can be, none of a file of so many entries or more; a pack, or a part of it, has no file. */
  private def runs(from: Long, to: Long, under: Long): Vector[Run] =
    Iterator.unfold(from) { first =>
      Option.when(first <= to) {
        val span = spans.reverse.find(s =>
          s < under && (first - 1) % s == 0 && first + s - 1 <= to
        )
        val last = span.fold(((first + pack - 1) / pack * pack).min(to))(first + _ - 1)
        Run(first, last, span) -> (last + 1)
      }
    }.toVector

  private def joined(all: Vector[Run]): Digest =
    all.grouped(AtATime).flatMap(atOnce(_)(read)).reduce(_.and(_))

  private def read(run: Run): Digest = run.span match {
    case Some(span) =>
      find(file(run.to, span)).getOrElse(joined(runs(run.from, run.to, under = span)))
    case None => entries(run.from, run.to).map(digest).reduce(_.and(_))
  }

  private def digest(status: EntryStatus): Digest =
    Digest(status.entry.previousHash, status.hash, FirstChanges.of(Seq(status)))

  private def find(file: String): Option[Digest] =
    try store.get(file).map(decode(file, _))
    catch { case NonFatal(_) => None }

  private def file(last: Long, span: Long) = f"$folder/$last%020d.$span.json"
}

private object NameDigests {

  /** How many files are read at once. */
  private val AtATime = 64

  /** How many packs, or runs of them, are one. */
  private val Runs = 64

  private final case class Run(from: Long, to: Long, span: Option[Long])

  private final case class Digest(previousHash: String, hash: String, changes: FirstChanges) {
    def and(later: Digest): Digest =
      if (later.previousHash == hash) Digest(previousHash, later.hash, changes.and(later.changes))
      else throw StrictFields.corrupt(hash, "no entry follows the one with this hash")
  }

  private def encode(digest: Digest): Array[Byte] = {
    val node = Json.obj().put("previousHash", digest.previousHash).put("hash", digest.hash)
    val names = node.putArray("names")
    digest.changes.before.toVector.sortBy(_._1.toString).foreach { case (key, before) =>
      names.add(NameCodec.encode(NameChange(key, before, None)))
    }
    val purged = node.putArray("purged")
    digest.changes.purged.toVector.map(_.uri).sorted.foreach(purged.add(_))
    StrictFields.summed(node)
  }

  private def decode(file: String, bytes: Array[Byte]): Digest = {
    val fields = StrictFields.parseSummed(file, bytes)
    val names = fields.children("names").map(NameCodec.decode).map(c => c.key -> c.before)
    val purged = fields.strings("purged").map(TableRef(_))
    Digest(
      fields.string("previousHash"),
      fields.string("hash"),
      FirstChanges(names.toMap, purged.toSet)
    )
  }
}
