package io.lakestep.commit

import io.lakestep.log.{LogCommit, LogTail, MarkKind, TableLog}
import io.lakestep.timeline.{CommitEntry, Completed, EntryStatus, EntryTable}

/**
 * Commits of ours in slots that a log clean-up had emptied, put there by a client that woke up late
 * (PROTOCOL.md, decision 7).
 *
 * Such a commit hides the one that stood there. It stands below a checkpoint, and between the base
 * and the last mark of its entry, as whoever puts has read every slot below. What the end of the
 * entry says of its slots tells late commits from others; where it does not, they count as late.
 */
private[commit] final class MisplacedCommits(env: Environment) {
  import env.{timeline, safeguards}

  /**
   * Whether who reads the state of a version may read such a commit: the state begins at the newest
   * checkpoint up to the version. Reads commits only of entries that met others in this log, or were
   * rolled back there.
   *
   * @param id the log's id, as bindings and entries have it
   * @param tail a listing of the log, from the version or below it; the answer holds for states
   *   that were read before it was made
   */
  def mayBeIn(log: TableLog, id: String, version: Long, tail: LogTail): Boolean = {
    def isUsed(place: Place) =
      !log.tail(place.slots.last).checkpoints.exists(_ <= version)
    safeguards.checksAfterPut && tail.hasCheckpointFrom(version + 1) &&
    !tail.checkpoints.contains(version) &&
    places(id, version).takeWhile(isUsed).exists(isDoubtful(_, log))
  }

  /** Slots of a log in which clients of one entry may have been late, in order. */
  private case class Place(status: EntryStatus, entry: CommitEntry, index: Int, slots: Seq[Long])

  /** Newest first. Of finished entries only irregular ones have any. */
  private def places(id: String, version: Long): Iterator[Place] = {
    val open = timeline.known.writers(id, timeline.known.finished).map(_._1).filterNot(_.isFinished)
    val view =
      if (open.isEmpty) timeline.known else timeline.refreshEnds(open.map(_.entry.number))
    val above = view.writers(id, view.finished).reverseIterator
    val irregular = view.snapshot.logs.get(id).fold(Vector.empty[Long])(_.irregular)
    val below = irregular.reverseIterator.map(timeline.status).flatMap { status =>
      status.entry match {
        case c: CommitEntry => Some((status, c, c.tables.indexWhere(_.log == id)))
        case _ => None
      }
    }
    (above ++ below).map { case (status, c, i) =>
      Place(status, c, i, unclear(status, c.tables(i), i, version))
    }.filter(_.slots.nonEmpty)
  }

  /** Up to the version, without those where a commit of the entry is known to belong. */
  private def unclear(status: EntryStatus, table: EntryTable, i: Int, version: Long): Seq[Long] = {
    val own = status.outcome.collect { case c: Completed => c.slots.lift(i) }.flatten
    val settled = status.rolledBack.flatMap(_.tables.lift(i)).flatMap(_.version)
    val last = own.flatMap(_.lastOption).orElse(settled).getOrElse(version)
    (table.base + 1 to last.min(version)).filterNot(own.getOrElse(Vector.empty).contains(_))
  }

  private def isDoubtful(place: Place, log: TableLog): Boolean = {
    val own = place.slots.flatMap(log.read).filter {
      _.mark.exists(_.isOf(timeline.id, place.entry.number, place.index))
    }
    own.nonEmpty && !place.status.rolledBack.exists { end =>
      end.tables.lift(place.index).flatMap(_.version).exists(isWhole(own, _))
    }
  }

  /**
   * Whether these are the commits that a table was rolled back by: one that settles it, where
   * `rolled_back` says, and before it at most one fence and one publish. Of several publishes the
   * last one may be late; so may be a fence before a CLOSE that takes none away.
   */
  private def isWhole(own: Seq[LogCommit], settled: Long): Boolean = {
    val (ends, others) = own.partition(_.mark.exists(_.settles))
    val kinds = others.flatMap(_.mark).map(_.kind)
    ends.map(_.version) == Seq(settled) && kinds.distinct.size == kinds.size &&
    ends.flatMap(_.mark).forall { m =>
      m.kind == MarkKind.Undo || kinds.isEmpty || m.lifts && kinds == Seq(MarkKind.Reserve)
    }
  }
}
