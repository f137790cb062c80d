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
private[timeline] final class Checkpoints(store: ObjectStore, folder: String) {
  import Checkpoints._

  /** The newest one that is known to be there, or was tried. */
  private val last = new AtomicLong(0L)

  /**
   * The newest one that fits the timeline.
   *
   * @param hashOf the hash of an entry, as the store has it
   * @param fits whether it is one that is looked for
   */
  def newest(
      hashOf: Long => Option[String],
      fits: TimelineSnapshot => Boolean = _ => true): Option[TimelineSnapshot] = {
    val there =
      try numbers
      catch { case NonFatal(_) => Vector.empty }
    val found = there.reverseIterator.flatMap(read)
      .find(s => fits(s) && hashOf(s.number).contains(s.hash))
    found.foreach(s => last.updateAndGet(_.max(s.number)))
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
