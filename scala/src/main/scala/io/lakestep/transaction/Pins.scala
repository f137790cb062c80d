package io.lakestep.transaction

import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec

import io.lakestep.Errors
import io.lakestep.delta.{LogTail, Mark, StateMark, TableLog, TablePath}
import io.lakestep.timeline.{CommitEntry, Completed, EntryStatus, EntryTable, TimelineView}

/**
 * Step 3: the version of a table that belongs to a snapshot.
 *
 * Never splits one of our transactions, whatever the clocks say: marks bound the version below and
 * above, and times only place foreign commits in between.
 */
private[transaction] final class Pins(world: World, bindings: Bindings) {
  import world._

  private val late = new LateCommits(world)

  /** The floor of each log that was last found to be ours. */
  private val verifiedFloors = new ConcurrentHashMap[String, (Long, Long)]

  /**
   * @param notBelow newest version that this session has read or written, -1 for none
   *
   * Conditions: LAKESTEP_TABLE_OF_ANOTHER_TIMELINE, LAKESTEP_TABLE_OVERWRITTEN,
   * LAKESTEP_SNAPSHOT_BEHIND_SESSION, LAKESTEP_SNAPSHOT_GONE, LAKESTEP_NOT_A_TABLE.
   */
  def apply(txn: BegunTransaction, path: String, notBelow: Long): Pin = {
    val binding = bindings.find(path)
    val table = log(path)
    val floor = binding.filter(_ => amendments.marksBoundPins)
      .flatMap(b => timeline.known.lastMark(b.log, txn.snapshot))
    val lowest = floor.fold(-1L)(_._2).max(notBelow)
    // The log before the timeline: every mark in this listing has its entry in a later reading.
    val tail = table.tail(lowest)
    val head = tail.head.getOrElse(throw notATable(path, table, lowest))
    if (head < lowest) throw overwritten(path, lowest)
    // A table that was bound since then may hold marks in this listing, so it is looked up again.
    val bound = binding.orElse(bindings.find(path))
    val ceiling = bound.filter(_ => amendments.marksBoundPins)
      .flatMap(b => ceilingOf(txn, b.log, table, tail, head)).getOrElse(head).min(head)
    if (lowest > ceiling) throw Errors(
      "LAKESTEP_SNAPSHOT_BEHIND_SESSION",
      "table" -> path,
      "version" -> lowest.toString,
      "snapshot" -> txn.snapshot.toString
    )
    floor.foreach { case (entry, slot) =>
      binding.foreach(b => verify(path, b.log, table, entry, slot))
    }
    val version = newest(table, tail, ceiling, lowest, txn.requestedAtMs)
    if (tail.slot(version).isEmpty && !tail.checkpoints.contains(version)) throw gone(path, version)
    if (bound.exists(b => late.mayBeIn(table, b.log, version, tail))) throw gone(path, version)
    observer.pinned(txn.id, path, version)
    Pin(version, tail.slot(version).map(World.stamp))
  }

  /** The slot before the first mark of an entry after the snapshot, if there is such a mark. */
  private def ceilingOf(
      txn: BegunTransaction,
      log: String,
      table: TableLog,
      tail: LogTail,
      head: Long): Option[Long] = {
    def writers(view: TimelineView): Vector[(EntryStatus, CommitEntry, Int)] =
      view.after(txn.snapshot).flatMap { status =>
        status.entry match {
          case c: CommitEntry =>
            c.tables.zipWithIndex.collect { case (t, i) if t.log == log => (status, c, i) }
          case _ => Vector.empty
        }
      }
    val view = if (timeline.isCurrent) timeline.known else timeline.refresh()
    writers(view).headOption.flatMap { case (status, entry, index) =>
      val base = entry.tables(index).base
      val said = status.outcome.collect {
        case c: Completed => c.slots.lift(index).filter(_.size == entry.tables(index).commits)
      }.flatten.flatMap(_.headOption)
      // Where the log had been cleaned up the outcome names a later version.
      val first = said.filter(table.read(_).exists(_.mark.exists(_.entry == entry.number)))
      first.orElse(firstMark(
        table,
        tail,
        entry.tables(index),
        (base + 1).max(tail.from),
        head,
        txn.snapshot
      ))
        .map(_ - 1)
    }
  }

  @tailrec
  private def firstMark(
      table: TableLog,
      tail: LogTail,
      entry: EntryTable,
      version: Long,
      head: Long,
      snapshot: Long): Option[Long] =
    if (version > head) None
    else
      table.read(version) match {
        case None =>
          val below = tail.checkpoints.find(_ >= version).getOrElse(throw gone(table.path, version))
          if (isMarked(table.path, entry, below, snapshot)) throw gone(table.path, version)
          firstMark(table, tail, entry, below + 1, head, snapshot)
        case Some(c)
            if c.mark.exists(m => timeline.existingId.contains(m.timeline) && m.entry > snapshot) =>
          Some(version)
        case _ => firstMark(table, tail, entry, version + 1, head, snapshot)
      }

  /** Whether a version, whose log was cleaned up, may hold a commit of an entry after the snapshot. */
  private def isMarked(path: String, entry: EntryTable, version: Long, snapshot: Long): Boolean = {
    val state = states.stateAt(path, version)
    state.metadataId != entry.tableId ||
    state.txnVersion(Mark.appId(
      timeline.id,
      entry.tableId
    )).exists(StateMark.of(_).entry > snapshot)
  }

  /**
   * A floor without our mark was overwritten by a writer that does not create files atomically,
   * unless the mark was cleaned up and the slot only follows it: then the state has the mark.
   */
  private def verify(path: String, log: String, table: TableLog, entry: Long, slot: Long): Unit =
    if (!Option(verifiedFloors.get(log)).contains((entry, slot))) {
      table.read(slot).foreach { commit =>
        val isOurs = commit.mark.exists(m => m.timeline == timeline.id && m.entry == entry)
        if (!isOurs && !isInState(path, log, entry, slot))
          throw overwritten(path, slot)
      }
      verifiedFloors.put(log, (entry, slot))
      ()
    }

  private def isInState(path: String, log: String, entry: Long, slot: Long): Boolean =
    timeline.known.status(entry).map(_.entry).exists {
      case c: CommitEntry =>
        c.tables.find(_.log == log).exists { t =>
          states.stateAt(path, slot).txnVersion(Mark.appId(timeline.id, t.tableId))
            .exists(StateMark.of(_).entry >= entry)
        }
      case _ => false
    }

  /** The last version from `lowest` to `ceiling` whose time is not after `timeMs`. */
  private def newest(
      table: TableLog,
      tail: LogTail,
      ceiling: Long,
      lowest: Long,
      timeMs: Long): Long = {
    val oldest = lowest.max(0L).max(tail.slots.headOption.map(_.version).getOrElse(ceiling))
    @tailrec
    def down(version: Long, stamped: Boolean): Long =
      if (version <= oldest) version.max(lowest)
      else {
        val inCommit =
          if (stamped) table.read(version).flatMap(_.info).flatMap(_.inCommitTimestampMs) else None
        val time = inCommit.orElse(tail.slot(version).map(_.modifiedMs))
        if (time.forall(_ <= timeMs)) version else down(version - 1, inCommit.isDefined)
      }
    down(ceiling, stamped = true)
  }

  private def notATable(path: String, table: TableLog, lowest: Long): Throwable =
    if (lowest <= 0 || table.isGone) Errors("LAKESTEP_NOT_A_TABLE", "table" -> path)
    else overwritten(path, lowest)

  private def overwritten(path: String, version: Long): Throwable = Errors(
    "LAKESTEP_TABLE_OVERWRITTEN",
    "table" -> path,
    "file" -> TablePath.slot(path, version)
  )

  private def gone(path: String, version: Long): Throwable =
    Errors("LAKESTEP_SNAPSHOT_GONE", "table" -> path, "version" -> version.toString)
}
