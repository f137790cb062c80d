package io.lakestep.commit

import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec

import io.lakestep.{Errors, LakestepException}
import io.lakestep.log.{CommitMark, LogCommit, LogTail, StateMark, TableLog, TableRef}
import io.lakestep.timeline.{
  CommitEntry, Completed, EntryStatus, LastMark, NamedSnapshot, SnapshotTable, TimelineView
}

/**
 * Step 3: the version of a table that belongs to a snapshot.
 *
 * Never splits one of our transactions, whatever the clocks say: marks bound the version below and
 * above, and times only place foreign commits in between.
 */
private[commit] final class Pins(env: Environment, bindings: Bindings) {
  import env.{timeline, states, observer, safeguards}

  private val late = new MisplacedCommits(env)

  /** The floor of each log that was last found to be ours. */
  private val verifiedFloors = new ConcurrentHashMap[String, LastMark]

  /**
   * @param notBelow newest version that this session has read or written, -1 for none; a log that has
   *   no such version is that of a table made anew
   * @param reader id of the transaction, for observers
   *
   * Conditions: LAKESTEP_TABLE_OF_ANOTHER_TIMELINE, LAKESTEP_TABLE_OVERWRITTEN,
   * LAKESTEP_SNAPSHOT_BEHIND_SESSION, LAKESTEP_SNAPSHOT_GONE, LAKESTEP_NOT_A_TABLE,
   * LAKESTEP_NOT_THERE_AS_OF.
   */
  def apply(at: ReadPoint, path: TableRef, notBelow: Long, reader: String): Pin =
    try
      at.named.flatMap(s => s.table(path).map(named(at, s, _)))
        .getOrElse(pin(at, path, notBelow, reader))
    catch {
      case e: LakestepException if wasThere(at, path) && Pins.Gone(e.getCondition) =>
        throw notThere(
          at,
          path,
          "it was dropped since, or its log was cleaned up; " + keeper(at, path)
        )
    }

  private def wasThere(at: ReadPoint, path: TableRef) =
    at.isPast && at.base.logs.values.exists(s => s.path == path && s.mark.isDefined)

  /** A named snapshot has the version; where the log was copied for it, the copy is read. */
  private def named(at: ReadPoint, snapshot: NamedSnapshot, table: SnapshotTable): Pin = {
    val (kept, tail) = env.both(
      KeptLogs.find(env.stores, table.path, snapshot.id),
      env.log(table.path).tail(table.version)
    )
    val isThere = tail.slot(table.version).isDefined || tail.checkpoints.contains(table.version)
    if (kept.isEmpty && !(isThere && bindings.find(table.path).exists(_.log == table.log)))
      throw notThere(at, table.path, "it is not there any more, and no copy of its log was made")
    Pin(
      table.version,
      tail.slot(table.version).map(Environment.stamp),
      Some(table.log),
      kept.map(_.copy)
    )
  }

  private def pin(at: ReadPoint, path: TableRef, notBelow: Long, reader: String): Pin = {
    val table = env.log(path)
    def floorOf(binding: Option[Binding]) = binding.filter(_ => safeguards.marksBoundPins)
      .flatMap(b => at.base.lastMark(b.log))
    def listed(floor: Option[LastMark]) = table.tail(floor.fold(-1L)(_.slot))
    // Most tables are bound as this client knows them; others are listed again.
    val known = bindings.lastKnown(path)
    val (binding, early) =
      env.both(bindings.find(path), listed(floorOf(known)))
    val floor = floorOf(binding)
    val marked = floor.fold(-1L)(_.slot)
    // The log before the timeline: every mark in this listing has its entry in a later reading.
    val tail = if (binding == known) early else listed(floor)
    val head = tail.head.getOrElse(throw notATable(path, table, marked))
    if (head < marked) throw overwritten(path, marked)
    val lowest = if (notBelow > head) marked else marked.max(notBelow)
    // A table that was bound since then may hold marks in this listing, so it is looked up again.
    val bound = binding.orElse(bindings.find(path))
    val (found, _) = env.both(
      bound.filter(_ => safeguards.marksBoundPins)
        .flatMap(b => ceilingOf(at, b.log, table, tail, head)),
      for (mark <- floor; b <- binding) verify(at, b.log, table, mark)
    )
    val ceiling = found.getOrElse(head).min(head)
    if (lowest > ceiling) throw Errors(
      "LAKESTEP_SNAPSHOT_BEHIND_SESSION",
      "table" -> path.uri,
      "version" -> lowest.toString,
      "snapshot" -> at.entry.toString
    )
    val version = newest(table, tail, ceiling, lowest, at.notAfter(bound.map(_.log)))
    if (at.isPast) checkPast(at, path, table, tail, version, floor, bound)
    if (tail.slot(version).isEmpty && !tail.checkpoints.contains(version)) throw gone(path, version)
    if (bound.exists(b => late.mayBeIn(table, b.log, version, tail))) throw gone(path, version)
    observer.pinned(reader, path, version)
    Pin(version, tail.slot(version).map(Environment.stamp), bound.map(_.log))
  }

  /**
   * That a table was there at a point of the past, and is not another one now.
   *
   * Condition: LAKESTEP_NOT_THERE_AS_OF.
   */
  private def checkPast(
      at: ReadPoint,
      path: TableRef,
      table: TableLog,
      tail: LogTail,
      version: Long,
      floor: Option[LastMark],
      binding: Option[Binding]): Unit = {
    def isYoung =
      Pins.timeOf(table, tail, version).forall(_ > at.notAfter(binding.map(_.log)))
    if (version < 0) throw notThere(at, path, "it was made since")
    if (!floor.exists(_.slot == version) && isYoung) {
      val isAnother =
        wasThere(at, path) && !binding.exists(b => at.base.lastMark(b.log).isDefined)
      throw notThere(
        at,
        path,
        if (isAnother) "its path is that of another table now"
        else s"its oldest version that is left, $version, is younger; ${keeper(at, path)}"
      )
    }
  }

  private def keeper(at: ReadPoint, path: TableRef): String =
    timeline.snapshots.keeper(path)((snapshot, _) => snapshot.entry - at.entry)

  private def notThere(at: ReadPoint, path: TableRef, reason: String): Throwable = Errors(
    "LAKESTEP_NOT_THERE_AS_OF",
    "table" -> path.uri,
    "version" -> at.entry.toString,
    "reason" -> reason
  )

  /**
   * As `ceilingOf`, by the log alone, as there may be any number of entries since. Commits of others count
   * up to a time, by which most of them need not be read.
   */
  private def ceilingInLog(
      at: ReadPoint,
      log: String,
      table: TableLog,
      tail: LogTail,
      head: Long): Option[Long] = {
    val tableId = Seq(at.base, timeline.known.snapshot).flatMap(_.logs.get(log)).map(_.tableId)
    // Also where commits are missing: the state at the next checkpoint knows what stood there.
    val first = at.base.lastMark(log).fold(tail.from)(_.slot + 1)
    // Often the next commit is the first with a mark.
    val (found, next) = env.both(
      Pins.lastUpTo(table, tail, at.notAfter(Some(log))),
      try if (first <= head) table.read(first) else None
      catch { case _: LakestepException => None }
    )
    val last = found.fold(first)(_ + 1)
    val id = tableId.headOption.getOrElse("")
    if (next.exists(isAfter(at.entry, _)) && first <= last.min(head)) Some(first - 1)
    else
      firstMark(table, tail, id, first, last.min(head), at.entry).map(_ - 1)
        .orElse(Option.when(last < head)(last))
  }

  /** The slot before the first mark of an entry after the snapshot, if there is such a mark. */
  private def ceilingOf(
      at: ReadPoint,
      log: String,
      table: TableLog,
      tail: LogTail,
      head: Long): Option[Long] = if (at.isPast) ceilingInLog(at, log, table, tail, head)
  else {
    val view = timeline.refreshEntries()
    firstWriter(view, at, log).flatMap { case (status, entry, index) =>
      val written = entry.tables(index)
      val said = status.outcome.collect {
        case c: Completed => c.slots.lift(index).filter(_.size == written.commits)
      }.flatten.flatMap(_.headOption)
      // Where the log had been cleaned up the outcome names a later version.
      said.filter(table.read(_).exists(_.mark.exists(_.entry == entry.number))).orElse(firstMark(
        table,
        tail,
        written.tableId,
        (written.base + 1).max(tail.from),
        head,
        at.entry
      )).map(_ - 1)
    }
  }

  /** The first entry after the snapshot that writes a log; with the table's index in it. */
  private def firstWriter(
      view: TimelineView,
      at: ReadPoint,
      log: String): Option[(EntryStatus, CommitEntry, Int)] = {
    val isForgotten = view.first > at.entry + 1 &&
      view.snapshot.logs.get(log).exists(_.lastEntry > at.entry)
    if (!isForgotten || !safeguards.readsForgotten) view.writers(log, at.entry).headOption
    else timeline.after(
      at.base,
      !_.logs.get(log).exists(_.lastEntry > at.entry)
    ).map(_.entry).collectFirst {
      case c: CommitEntry if c.number > at.entry && c.tables.exists(_.log == log) =>
        (timeline.status(c.number), c, c.tables.indexWhere(_.log == log))
    }
  }

  @tailrec
  private def firstMark(
      table: TableLog,
      tail: LogTail,
      tableId: String,
      version: Long,
      head: Long,
      snapshot: Long): Option[Long] =
    if (version > head) None
    else
      table.read(version) match {
        case None =>
          val below =
            tail.checkpoints.find(_ >= version).getOrElse(throw gone(table.table, version))
          if (isMarked(table.table, tableId, below, snapshot)) throw gone(table.table, version)
          firstMark(table, tail, tableId, below + 1, head, snapshot)
        case Some(c) if isAfter(snapshot, c) => Some(version)
        case _ => firstMark(table, tail, tableId, version + 1, head, snapshot)
      }

  private def isAfter(snapshot: Long, commit: LogCommit) =
    commit.mark.exists(m => timeline.existingId.contains(m.timeline) && m.entry > snapshot)

  /** Whether a version, whose log was cleaned up, may hold a commit of an entry after the snapshot. */
  private def isMarked(path: TableRef, tableId: String, version: Long, snapshot: Long): Boolean = {
    val state = states.stateAt(path, version)
    state.metadataId != tableId ||
    state.txnVersion(CommitMark.appId(timeline.id, tableId))
      .exists(StateMark.of(_).entry > snapshot)
  }

  /**
   * A floor without our mark was overwritten by a writer that does not create files atomically,
   * unless the mark was cleaned up and the slot only follows it: then the state has the mark.
   */
  private def verify(at: ReadPoint, log: String, table: TableLog, floor: LastMark): Unit =
    if (verifiedFloors.get(log) != floor) {
      table.read(floor.slot).foreach { commit =>
        val isOurs = commit.mark.exists(m => m.timeline == timeline.id && m.entry == floor.entry)
        if (!isOurs && !isInState(at, log, table.table, floor))
          throw overwritten(table.table, floor.slot)
      }
      verifiedFloors.put(log, floor)
      ()
    }

  private def isInState(
      at: ReadPoint,
      log: String,
      path: TableRef,
      floor: LastMark): Boolean =
    at.base.logs.get(log).exists { state =>
      states.stateAt(path, floor.slot).txnVersion(CommitMark.appId(timeline.id, state.tableId))
        .exists(StateMark.of(_).entry >= floor.entry)
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
          if (stamped) table.timeOf(version) else None
        val time = inCommit.orElse(tail.slot(version).map(_.modifiedMs))
        if (time.forall(_ <= timeMs)) version else down(version - 1, inCommit.isDefined)
      }
    down(ceiling, stamped = true)
  }

  private def notATable(path: TableRef, table: TableLog, lowest: Long): Throwable =
    if (lowest <= 0 || table.isGone) Errors("LAKESTEP_NOT_A_TABLE", "table" -> path.uri)
    else overwritten(path, lowest)

  private def overwritten(path: TableRef, version: Long): Throwable = Errors(
    "LAKESTEP_TABLE_OVERWRITTEN",
    "table" -> path.uri,
    "file" -> path.slot(version)
  )

  private def gone(path: TableRef, version: Long): Throwable =
    Errors("LAKESTEP_SNAPSHOT_GONE", "table" -> path.uri, "version" -> version.toString)
}

private object Pins {

  /** What the log of a table says that is not what it was. */
  private val Gone =
    Set("LAKESTEP_NOT_A_TABLE", "LAKESTEP_SNAPSHOT_GONE", "LAKESTEP_TABLE_OVERWRITTEN")

  /** When a version was made: its in-commit timestamp, else the time of its file. */
  def timeOf(table: TableLog, tail: LogTail, version: Long): Option[Long] =
    table.timeOf(version).orElse(tail.slot(version).map(_.modifiedMs))

  /** The last commit that was made by then. In-commit timestamps are asked for by halves. */
  def lastUpTo(table: TableLog, tail: LogTail, timeMs: Long): Option[Long] = {
    val slots = tail.slots
    @tailrec
    def search(from: Int, until: Int): Int =
      if (from >= until) from
      else {
        val middle = (from + until) / 2
        if (timeOf(table, tail, slots(middle).version).exists(_ <= timeMs))
          search(middle + 1, until)
        else search(from, middle)
      }
    val isStamped = slots.lastOption.exists(s => table.timeOf(s.version).isDefined)
    val last =
      if (isStamped) search(0, slots.size) - 1 else slots.lastIndexWhere(_.modifiedMs <= timeMs)
    slots.lift(last).map(_.version)
  }
}
