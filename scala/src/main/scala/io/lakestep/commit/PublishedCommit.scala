package io.lakestep.commit

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.log.{
  Action, CommitInfo, CommitMark, ForeignWriters, MarkKind, MetaData, NetChanges, Protocol,
  RemoveFile, RowTracking
}
import io.lakestep.timeline.EntryTable

/**
 * The actions of a commit for one slot: commitInfo with the mark first, then the mark's `txn`, then
 * the net actions with what only the slot decides.
 */
private[commit] object PublishedCommit {
  private val IctEnabled = "delta.enableInCommitTimestamps"
  private val IctTimestamp = "delta.inCommitTimestampEnablementTimestamp"

  /**
   * @param previousMs time of the commit before the slot, for in-commit timestamps
   * @param rowIdHighWaterMark of the version before the slot, when the table tracks rows
   * @param earlier slots of the parts before this one, as far as they are known
   * @param timeOf the in-commit timestamp of an earlier slot
   */
  final case class Place(
      slot: Long,
      nowMs: Long,
      previousMs: Option[Long],
      rowIdHighWaterMark: Option[Long],
      earlier: Vector[Long] = Vector.empty,
      timeOf: Long => Option[Long] = _ => None) {
    def inCommitTimestampMs: Long = previousMs.fold(nowMs)(p => nowMs.max(p + 1))

    /**
     * Where a part is, when this is the place of another one, or of itself. Earlier versions of Lakestep
     * name the one part of theirs by any number.
     */
    def slotOf(part: Long, here: Int): Long =
      if (part >= here) slot else earlier.lift(part.toInt - 1).getOrElse(slot - (here - part))
  }

  def publish(
      changes: NetChanges,
      table: EntryTable,
      mark: CommitMark,
      place: Place): Vector[Action] = {
    val part = changes.parts(mark.part - 1)
    val stamped = keepsTimestamps(changes, table, mark.part)
    val placed = table.rowIds.filterNot(_.asStaged).fold(part.actions) { ids =>
      RowTracking.place(
        part.actions,
        ids.atPin,
        place.rowIdHighWaterMark.getOrElse(ids.atBase),
        changes.pin,
        place.slot
      )
    }
    val timed = placed.map {
      case r: RemoveFile => RemoveFile(r.body.deepCopy().put("deletionTimestamp", place.nowMs))
      case m: MetaData =>
        val moved =
          m.withVersionsMoved(changes.pin, v => place.slotOf(v - changes.pin, mark.part))
        if (stamped) enabled(moved, changes.pin, place) else moved
      case other => other
    }
    val lifted = table.reserve.filter(_ => mark.lifts).map(Protocol(_))
    head(part.info.body, table, mark, place, stamped) ++ lifted ++ timed
  }

  /** The fence of a table with this protocol: foreign writers that begin after it refuse to write. */
  def reserve(
      protocol: Protocol,
      table: EntryTable,
      mark: CommitMark,
      place: Place): Vector[Action] =
    head(operation("LAKESTEP RESERVE", mark), table, mark, place, table.inCommitTimestamps) :+
      ForeignWriters.fenced(protocol)

  private def operation(name: String, mark: CommitMark): ObjectNode = {
    val info = io.lakestep.Json.obj().put("operation", name)
    info.put("isBlindAppend", mark.kind != MarkKind.Undo)
  }

  /**
   * A commit that only settles: `actions` are those of an undo, or none.
   *
   * @param stamped whether the table keeps in-commit timestamps, at the head or by this commit
   */
  def settle(
      actions: Vector[Action],
      residue: Vector[String],
      stamped: Boolean,
      table: EntryTable,
      mark: CommitMark,
      place: Place): Vector[Action] = {
    val name = if (mark.kind == MarkKind.Undo) "LAKESTEP UNDO" else "LAKESTEP CLOSE"
    val first = head(operation(name, mark), table, mark, place, stamped)
    val marked = first.map {
      case c: CommitInfo if residue.nonEmpty =>
        val body = c.body.deepCopy()
        val list = body.get(CommitMark.Field).asInstanceOf[ObjectNode].putArray("residue")
        residue.foreach(r => list.add(r))
        CommitInfo(body)
      case other => other
    }
    marked ++ actions
  }

  /** What an UNDO commit says it could not take back. */
  def residueOf(info: CommitInfo): Vector[String] = {
    import scala.jdk.CollectionConverters._
    info.body.path(CommitMark.Field).path("residue").elements.asScala.map(_.asText).toVector
  }

  private def head(
      info: ObjectNode,
      table: EntryTable,
      mark: CommitMark,
      place: Place,
      stamped: Boolean): Vector[Action] = {
    val body = info.deepCopy()
    body.put("timestamp", place.nowMs)
    // What DESCRIBE HISTORY shows.
    body.withObjectProperty(CommitInfo.Parameters)
      .put("lakestepEntry", mark.entry.toString)
      .put("lakestepTransaction", mark.transaction)
    if (stamped) body.put("inCommitTimestamp", place.inCommitTimestampMs)
    body.put("txnId", mark.transaction)
    body.set[ObjectNode](CommitMark.Field, mark.encode)
    Vector(CommitInfo(body), mark.setTransaction(table.tableId, place.nowMs))
  }

  /** Whether the table keeps in-commit timestamps once `part` is published. */
  private def keepsTimestamps(changes: NetChanges, table: EntryTable, part: Int): Boolean =
    changes.parts.take(part).flatMap(_.metaData).lastOption match {
      case Some(m) => keepsTimestamps(m)
      case None => table.inCommitTimestamps
    }

  /** Whether a table with this metadata keeps in-commit timestamps. */
  def keepsTimestamps(metaData: MetaData): Boolean = metaData.isOn(IctEnabled)

  /** At the time of the slot of ours in which in-commit timestamps were enabled, if they were. */
  private def enabled(metaData: MetaData, pin: Long, place: Place): MetaData =
    metaData.property(MetaData.TimestampsEnabledIn).flatMap(_.toLongOption).filter(_ > pin)
      .fold(metaData) { slot =>
        val here = Some(place.inCommitTimestampMs)
        val time = (if (slot == place.slot) here else place.timeOf(slot)).orElse(here)
        metaData.withProperty(IctTimestamp, time.map(_.toString))
      }
}
