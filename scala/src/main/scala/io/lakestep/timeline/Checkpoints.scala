package io.lakestep.timeline

import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import io.lakestep.storage.ObjectStore

/**
 * Snapshots of the timeline in files, so that who comes new need not read every entry.
 *
 * Nothing depends on one: each can be made again from the entries, and one that is missing, corrupt
 * or not understood is passed over for an older one.
 */
private[timeline] final class Checkpoints(store: ObjectStore, folder: String, atOnce: AtOnce) {
  import Checkpoints._

  /** The newest one that is known to be there, or was tried. */
  private val last = new AtomicLong(0L)

  /**
   * The newest one that fits the timeline, with what is read at once with it.
   *
   * @param hashOf the hash of an entry, as the store has it
   * @param most none after this number is looked for
   * @param fits whether it is one that is looked for
   */
  def newest[A](hashOf: Long => Option[String], most: Long = Long.MaxValue)(
      fits: TimelineSnapshot => Boolean)(beside: Long => A): Option[(TimelineSnapshot, A)] = {
    val there =
      try numbers
      catch { case NonFatal(_) => Vector.empty }
    val found = there.reverseIterator.filter(_ <= most).flatMap { number =>
      val (snapshot, (hash, more)) =
        atOnce.both(read(number), atOnce.both(hashOf(number), beside(number)))
      snapshot.filter(s => fits(s) && hash.contains(s.hash)).map(_ -> more)
    }.nextOption()
    found.foreach { case (s, _) => last.updateAndGet(_.max(s.number)) }
    found
  }

  /** Puts one, if it is newer than those that are known, and deletes old ones. */
  def putIfDue(snapshot: TimelineSnapshot): Unit =
    if (last.getAndUpdate(_.max(snapshot.number)) < snapshot.number)
      try {
        val path = file(snapshot.number)
        if (!store.exists(path)) {
          store.putIfAbsent(path, SnapshotCodec.encode(snapshot))
          numbers.filter(_ <= snapshot.number).dropRight(Kept).foreach(n => store.delete(file(n)))
        }
      } catch { case NonFatal(_) => () }

  private def numbers: Vector[Long] =
    store.list(folder, "0").map(_.name).collect { case Name(number) => number }
      .flatMap(_.toLongOption)

  private def read(number: Long): Option[TimelineSnapshot] =
    SnapshotCodec.find(store, file(number), number)

  private def file(number: Long) = f"$folder/$number%020d.json"
}

private object Checkpoints {

  /** Somebody may be about to read the one before the newest. */
  private val Kept = 2

  private val Name = """(\d{20})\.json""".r
}
