package io.lakestep.session

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.delta.Snapshot

import io.lakestep.delta.{ForeignWriters, PinnedHeader}
import io.lakestep.timeline.ReadSet
import io.lakestep.transaction.{Pin, WrittenTable}

/** What COMMIT and the combination rules must know of a table, read from its pinned snapshot. */
final case class TableFacts(
    name: String,
    tableId: String,
    inCommitTimestamps: Boolean,
    rowIdHighWaterMark: Option[Long],
    rowTracking: Boolean,
    changeDataFeed: Boolean,
    columnMapping: Boolean,
    checkpointInterval: Int,
    pinned: PinnedHeader)

/** A table that the open transaction has read or written: its pin, its overlay, its statements. */
final class TouchedTable(val base: Path, val pinned: Pin, val overlay: Path) {

  val pin: Long = pinned.version

  /** The base path as the timeline writes it. */
  val uri: String = BasePath.uri(base)

  /** The session's own snapshot of the pin, where the overlay has taken its state from it. */
  @volatile var snapshot: Option[Snapshot] = None

  @volatile private var facts: Option[TableFacts] = None
  @volatile private var readSoFar: Option[ReadSet] = None
  @volatile private var statements: Vector[(Long, StatementKind)] = Vector.empty

  /** The first facts are those of the pinned snapshot; a feature switched on later is added. */
  def learn(found: TableFacts): Unit = synchronized {
    facts = facts match {
      case None =>
        // Others may have made it anew between the pin and this.
        snapshot = snapshot.filter(_.metadata.id == found.tableId)
        Some(found)
      case Some(first) =>
        Some(
          first.copy(
            changeDataFeed = first.changeDataFeed || found.changeDataFeed,
            columnMapping = first.columnMapping || found.columnMapping,
            rowTracking = first.rowTracking || found.rowTracking
          )
        )
    }
  }

  /** Whether a commit is staged that lets statements through the fence. */
  def isFenced: Boolean = facts.exists(f => ForeignWriters.isFenced(f.pinned.protocol))

  /** Id and schema of the table at the pin, once a statement was about to write it. */
  def shape: Option[(String, String)] =
    facts.map(f => (f.tableId, f.pinned.metaData.body.path("schemaString").asText))

  /** As the catalog calls it, once a statement has written it. */
  def name: String = facts.fold(base.toString)(_.name)

  /** The last version that a finished statement has staged. */
  def lastStaged: Option[Long] = statements.lastOption.map(_._1)

  def checkpointInterval: Option[Int] = facts.map(_.checkpointInterval)

  /** What statements have read of it, also those that failed. */
  def reads: Option[ReadSet] = readSoFar

  def read(what: ReadSet): Unit = synchronized {
    readSoFar = Some(readSoFar.fold(what)(_.and(what)))
  }

  def staged(version: Long, kind: StatementKind): Unit = synchronized {
    statements = statements :+ (version -> kind)
  }

  /** What statements have told of it so far; `restore` takes it back to that. */
  def state: TouchedTable.State = synchronized(TouchedTable.State(facts, statements, readSoFar))

  def restore(state: TouchedTable.State): Unit = synchronized {
    facts = state.facts
    statements = state.statements
    readSoFar = state.reads
  }

  def forgetAfter(version: Long): Unit = synchronized {
    statements = statements.filter(_._1 <= version)
  }

  /** Why a further statement of this kind could not be published in one commit, if so. */
  def refusal(next: StatementKind): Option[String] = {
    import StatementKind._
    val kinds = statements.map(_._2)
    val changesRows = kinds.exists(k => k == Data || k == Rewrite)
    def feature(f: TableFacts => Boolean): Boolean = facts.exists(f)
    next match {
      case Data | Rewrite if kinds.exists(k => k != Metadata && k != next) => Some("OPTIMIZE")
      case Data | Rewrite if changesRows && feature(_.rowTracking) => Some("ROW_TRACKING")
      case Data if changesRows && feature(_.changeDataFeed) => Some("CHANGE_DATA_FEED")
      case Data if kinds.contains(Metadata) && feature(f => f.changeDataFeed && f.columnMapping) =>
        Some("CHANGE_DATA_FEED")
      case Metadata if changesRows && feature(f => f.changeDataFeed && f.columnMapping) =>
        Some("CHANGE_DATA_FEED")
      case _ => None
    }
  }

  def written(stagedTo: Long): WrittenTable = {
    val known = facts.getOrElse(
      throw new IllegalStateException(s"$base was staged without a Delta transaction")
    )
    WrittenTable(
      path = uri,
      name = known.name,
      tableId = known.tableId,
      pin = pin,
      stagedTo = stagedTo,
      inCommitTimestamps = known.inCommitTimestamps,
      rowTracking = known.rowTracking,
      rowIdHighWaterMark = known.rowIdHighWaterMark,
      pinned = Some(known.pinned),
      reads = reads,
      pinnedAs = Some(pinned)
    )
  }
}

object TouchedTable {
  final case class State(
      facts: Option[TableFacts],
      statements: Vector[(Long, StatementKind)],
      reads: Option[ReadSet]) {

    /** Whether the pinned header had been noted. */
    def isKnown: Boolean = facts.isDefined
  }
}
