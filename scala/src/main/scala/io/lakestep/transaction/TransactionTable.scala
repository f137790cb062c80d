package io.lakestep.transaction

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.delta.Snapshot

import org.apache.spark.sql.delta.lakestep.WrittenPartitions
import io.lakestep.commit.{Pin, WrittenTable}
import io.lakestep.log.{
  Action, ForeignWriters, OneCommit, PinnedHeader, ReadSet, StagedEffect, TableRef
}

/**
 * What COMMIT and the combination rules must know of a table, read from its pinned snapshot.
 *
 * @param pinned nothing for a table that the transaction makes
 */
final case class TableFacts(
    tableId: String,
    inCommitTimestamps: Boolean,
    rowIdHighWaterMark: Option[Long],
    checkpointInterval: Int,
    pinned: Option[PinnedHeader])

/** A table that the open transaction has read or written: its pin, its overlay, its statements. */
final class TransactionTable(val base: Path, val pinned: Pin, val overlay: Path) {

  val pin: Long = pinned.version

  /** Whether the transaction makes it. */
  def isNew: Boolean = pin < 0

  /** Its address as the timeline has it. */
  val ref: TableRef = BasePath.ref(base)

  /** The session's own snapshot of the pin, where the overlay has taken its state from it. */
  @volatile var snapshot: Option[Snapshot] = None

  @volatile private var facts: Option[TableFacts] = None
  @volatile private var readSoFar: Option[ReadSet] = None

  /** The last versions that finished statements have staged. */
  @volatile private var staged: Vector[Long] = Vector.empty

  @volatile private var called: Option[TableIdentifier] = None

  /** A catalog calls it so; the first name counts. */
  def call(name: TableIdentifier): Unit = synchronized { called = called.orElse(Some(name)) }

  def identifier: Option[TableIdentifier] = called

  /** As a catalog calls it, or else its path. */
  def name: String = called.fold(base.toString)(_.unquotedString)

  /** What statements have written of it, where that may have to be compacted after COMMIT. */
  @volatile private var written: Option[WrittenPartitions] = None

  def mayCompact: Option[WrittenPartitions] = written

  def mayCompact(more: WrittenPartitions): Unit = synchronized {
    written = Some(written.fold(more)(_ and more))
  }

  /** The first facts count: they are those of the pinned snapshot. */
  def learn(found: TableFacts): Unit = synchronized {
    if (facts.isEmpty) {
      // Others may have made it anew between the pin and this.
      snapshot = snapshot.filter(_.metadata.id == found.tableId)
      facts = Some(found)
    }
  }

  /** Its header at the pin, once a statement was about to write it. */
  def pinnedHeader: Option[PinnedHeader] = facts.flatMap(_.pinned)

  /** Whether a Delta transaction has begun on it. */
  def isKnown: Boolean = facts.isDefined

  /** Whether a commit is staged that lets statements through the fence. */
  def isFenced: Boolean = pinnedHeader.exists(p => ForeignWriters.isFenced(p.protocol))

  /** Id and schema of the table at the pin, once a statement was about to write it. */
  def shape: Option[(String, String)] =
    for (f <- facts; p <- f.pinned) yield (f.tableId, p.metaData.schema)

  /** The last version that a finished statement has staged. */
  def lastStaged: Option[Long] = staged.lastOption

  def checkpointInterval: Option[Int] = facts.map(_.checkpointInterval)

  /** What statements have read of it, also those that failed. */
  def reads: Option[ReadSet] = readSoFar

  def read(what: ReadSet): Unit = synchronized {
    readSoFar = Some(readSoFar.fold(what)(_.and(what)))
  }

  def hasStaged(version: Long): Unit = synchronized { staged = staged :+ version }

  /** What statements have told of it so far. */
  def state: TransactionTable.State = synchronized(TransactionTable.State(facts, staged, readSoFar))

  /** Takes what has been staged since back; `keepPins` and `keepReads` as in `Transaction`. */
  def restore(state: TransactionTable.State, keepPins: Boolean, keepReads: Boolean): Unit =
    synchronized {
      staged = state.staged
      if (!keepPins) facts = state.facts
      if (!keepReads) readSoFar = state.reads
    }

  /**
   * @param effects of all its staged commits
   * @param commits by version, those that are known
   */
  def written(
      stagedTo: Long,
      effects: Seq[StagedEffect],
      commits: Map[Long, Vector[Action]]): WrittenTable = {
    val known = facts.getOrElse(
      throw new IllegalStateException(s"$base was staged without a Delta transaction")
    )
    WrittenTable(
      path = ref,
      name = name,
      tableId = if (isNew) effects.flatMap(_.metaData).last.id else known.tableId,
      pin = pin,
      stagedTo = stagedTo,
      inCommitTimestamps = known.inCommitTimestamps,
      rowTracking = OneCommit.tracksRows(known.pinned, effects),
      rowIdHighWaterMark = known.rowIdHighWaterMark,
      pinned = known.pinned,
      reads = reads,
      pinnedAs = Some(pinned),
      staged = commits
    )
  }
}

object TransactionTable {

  object State {
    val Untouched: State = State(None, Vector.empty, None)
  }

  final case class State(
      facts: Option[TableFacts],
      staged: Vector[Long],
      reads: Option[ReadSet]) {

    /** Whether the pinned header had been noted. */
    def isKnown: Boolean = facts.isDefined
  }
}
