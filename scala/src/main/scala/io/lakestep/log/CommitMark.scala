package io.lakestep.log

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json

/** What one of our commits in a Delta log did for its timeline entry. */
sealed abstract class MarkKind(val text: String)

object MarkKind {

  /** A short fence against foreign writers, ahead of the first part; see [[ForeignWriters]]. */
  case object Reserve extends MarkKind("reserve")
  case object Publish extends MarkKind("publish")
  case object Close extends MarkKind("close")
  case object Undo extends MarkKind("undo")

  def parse(text: String): Option[MarkKind] =
    Seq(Reserve, Publish, Close, Undo).find(_.text == text)
}

/**
 * Names the timeline entry that a commit in a Delta log belongs to; stands in `commitInfo` under
 * `lakestep`, and, shortened, in a `txn` action, where it survives checkpoints.
 *
 * @param table index of the table in the entry
 * @param part number of this commit among the `parts` of the table, from 1; 0 for a reserve
 * @param lifts whether the commit's protocol only takes the fence of the reserve away
 */
final case class CommitMark(
    timeline: String,
    entry: Long,
    transaction: String,
    table: Int,
    part: Int,
    parts: Int,
    kind: MarkKind,
    lifts: Boolean = false) {

  /** Whether this is a commit of that table of that entry; a transaction id alone decides nothing. */
  def isOf(timeline: String, entry: Long, table: Int): Boolean =
    this.timeline == timeline && this.entry == entry && this.table == table

  /** Whether the last of our commits in a log, this one, ends the entry there for good. */
  def settles: Boolean = kind == MarkKind.Close || kind == MarkKind.Undo

  /** Whether the protocol of the commit means nothing to other transactions of ours. */
  def onlyFences: Boolean = kind == MarkKind.Reserve || lifts

  def status: MarkStatus = kind match {
    case MarkKind.Reserve => MarkStatus.Partly
    case MarkKind.Publish => if (part == parts) MarkStatus.Published else MarkStatus.Partly
    case MarkKind.Close => MarkStatus.Closed
    case MarkKind.Undo => MarkStatus.Undone
  }

  def encode: ObjectNode = {
    val node = Json
      .obj()
      .put("timeline", timeline)
      .put("entry", entry)
      .put("transaction", transaction)
      .put("table", table)
      .put("part", part)
      .put("parts", parts)
      .put("kind", kind.text)
    if (lifts) node.put("lifts", true) else node
  }

  /** The `txn` action that carries this mark through checkpoints and log clean-up. */
  def setTransaction(tableId: String, nowMs: Long): SetTransaction =
    SetTransaction(CommitMark.appId(timeline, tableId), StateMark(entry, status).version, nowMs)
}

object CommitMark {

  /** The field of `commitInfo`. */
  val Field = "lakestep"

  private val Prefix = "lakestep/"

  /** One application id per table, so that checkpoints do not grow with transactions. */
  def appId(timeline: String, tableId: String): String = s"$Prefix$timeline/$tableId"

  def isOwnAppId(appId: String): Boolean = appId.startsWith(Prefix)

  def decode(node: ObjectNode): Option[CommitMark] =
    for {
      timeline <- Option(node.get("timeline")).filter(_.isTextual).map(_.asText)
      entry <- Option(node.get("entry")).filter(_.isIntegralNumber).map(_.asLong)
      table <- Option(node.get("table")).filter(_.isIntegralNumber).map(_.asInt)
      kind <- Option(node.get("kind")).map(_.asText).flatMap(MarkKind.parse)
    } yield CommitMark(
      timeline,
      entry,
      node.path("transaction").asText,
      table,
      node.path("part").asInt(1),
      node.path("parts").asInt(1),
      kind,
      node.path("lifts").asBoolean(false)
    )
}

/** How far an entry has come in one table. */
sealed abstract class MarkStatus(val code: Int)

object MarkStatus {
  case object Partly extends MarkStatus(0)
  case object Published extends MarkStatus(1)
  case object Closed extends MarkStatus(2)
  case object Undone extends MarkStatus(3)

  def of(code: Int): MarkStatus = Vector(Partly, Published, Closed, Undone)(code)
}

/** A mark as the table's state keeps it: `txn` version = 4 · entry + status. */
final case class StateMark(entry: Long, status: MarkStatus) {
  def version: Long = 4 * entry + status.code
}

object StateMark {
  def of(version: Long): StateMark =
    StateMark(Math.floorDiv(version, 4L), MarkStatus.of(Math.floorMod(version, 4L).toInt))
}
