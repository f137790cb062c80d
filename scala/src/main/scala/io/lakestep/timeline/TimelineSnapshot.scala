package io.lakestep.timeline

import io.lakestep.log.TableRef

/**
 * What the entries up to one, all of them finished, left behind: enough to go on from there without
 * reading them. Two clients that have read the same entries make the same.
 *
 * @param number the last of these entries
 * @param hash of the bytes of that entry, empty for none
 * @param logs what each log that was written holds, by the log's id
 * @param aborted transactions that were ended without an entry of their own, with the ABORT entry
 * @param names what is known of entries that have changed names
 * @param batches what is known of streaming queries
 * @param timeMs when the last of them ended, by the latest of their clocks; a checkpoint of an earlier
 *   version does not tell
 */
final case class TimelineSnapshot(
    number: Long,
    hash: String,
    logs: Map[String, LogState],
    aborted: Map[String, Long],
    names: NameHistory = NameHistory.none,
    batches: AppliedBatches = AppliedBatches.none,
    timeMs: Option[Long] = None) {

  /** This snapshot and the next entry, which is finished. */
  def +(status: EntryStatus): TimelineSnapshot = {
    val time = for (known <- timeMs; ended <- status.endedAtMs) yield known.max(ended)
    and(status).copy(timeMs = time)
  }

  private def and(status: EntryStatus): TimelineSnapshot = status.entry match {
    case c: CommitEntry =>
      val written = c.tables.indices.foldLeft(logs) { (all, i) =>
        val log = c.tables(i).log
        all.updated(log, LogState.after(all.get(log), c, status, i))
      }
      copy(
        number = c.number,
        hash = status.hash,
        logs = written,
        names = if (status.isCompleted) names.and(c) else names,
        batches = if (status.isCompleted) batches.and(c.batches, c.number) else batches
      )
    case a: AbortEntry =>
      copy(
        number = a.number,
        hash = status.hash,
        aborted = aborted ++ a.transactions.map(_ -> a.number)
      )
  }

  /** The last mark in a log. */
  def lastMark(log: String): Option[LastMark] = logs.get(log).flatMap(_.mark)

  override def toString: String = s"snapshot $number"
}

object TimelineSnapshot {
  val empty: TimelineSnapshot =
    TimelineSnapshot(TimelineEntry.First - 1, "", Map.empty, Map.empty, timeMs = Some(0L))
}

/** The slot of a log in which the last mark of an entry stands. */
final case class LastMark(entry: Long, slot: Long)

/**
 * What finished entries left in one log.
 *
 * @param path where the last of them found the table
 * @param tableId Delta's id of the table, as the entry of the last mark names it
 * @param lastEntry the last of them
 * @param mark none when no entry left one, as the table was gone each time
 * @param irregular those that left a mark, and whose slots from their base to it are not all their
 *   own, in order
 */
final case class LogState(
    path: TableRef,
    tableId: String,
    lastEntry: Long,
    mark: Option[LastMark],
    irregular: Vector[Long])

private object LogState {

  def after(
      before: Option[LogState],
      entry: CommitEntry,
      status: EntryStatus,
      index: Int): LogState = {
    val table = entry.tables(index)
    val mark = status.lastSlot(index).map(LastMark(entry.number, _))
    val irregular = before.fold(Vector.empty[Long])(_.irregular)
    LogState(
      path = table.path,
      tableId = before.filter(_.mark.isDefined && mark.isEmpty).fold(table.tableId)(_.tableId),
      lastEntry = entry.number,
      mark = mark.orElse(before.flatMap(_.mark)),
      irregular =
        if (mark.isEmpty || isRegular(table, status, index)) irregular
        else irregular :+ entry.number
    )
  }

  /** Whether the entry published one commit after the other, right after its base. */
  private def isRegular(table: EntryTable, status: EntryStatus, index: Int): Boolean =
    status.outcome match {
      case Some(c: Completed) =>
        c.slots.lift(index).exists { slots =>
          slots.nonEmpty && slots == slots.indices.map(table.base + 1 + _)
        }
      case _ => false
    }
}
