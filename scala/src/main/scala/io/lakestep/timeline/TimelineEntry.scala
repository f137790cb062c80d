package io.lakestep.timeline

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.log.{ReadSet, TableRef}

/** A numbered place in the one order of the database; put once, never changed. */
sealed trait TimelineEntry {
  def number: Long

  /** BLAKE3 of the bytes of entry `number - 1`; empty text for the first entry. */
  def previousHash: String
  def timeMs: Long
}

object TimelineEntry {

  /** The number of the first entry; snapshot 0 is the empty prefix. */
  val First = 1L
}

/**
 * A transaction at its order point.
 *
 * @param rules version of the conflict rules by which it was validated
 * @param timeMs when it was ordered, by the clock of its owner
 * @param tables the tables it writes, in the order of their indexes
 * @param reads what it depends on (SERIALIZABLE), validated up to the versions given
 * @param names what the transaction changes in a catalog, in order
 * @param purges dropped tables whose data it deletes; an entry that has some does nothing else
 * @param batches what it applies of streaming queries
 * @param assertions what was asked before it was ordered
 * @param undoes what it takes back
 */
final case class CommitEntry(
    number: Long,
    previousHash: String,
    timeMs: Long,
    rules: Int,
    transaction: Requested,
    tables: Vector[EntryTable],
    reads: Vector[EntryRead],
    names: Vector[NameChange] = Vector.empty,
    purges: Vector[Purge] = Vector.empty,
    batches: Vector[BatchKey] = Vector.empty,
    assertions: Vector[AssertionOutcome] = Vector.empty,
    undoes: Vector[Undone] = Vector.empty)
    extends TimelineEntry {
  def isOverNames: Boolean = names.nonEmpty || purges.nonEmpty
}

/** Whether an assertion of a transaction held. */
final case class AssertionOutcome(name: String, passed: Boolean)

/** Ends transactions that have no entry and never may get one. */
final case class AbortEntry(
    number: Long,
    previousHash: String,
    timeMs: Long,
    transactions: Vector[String],
    reason: String)
    extends TimelineEntry

/**
 * A table that a transaction writes.
 *
 * @param log id of the table's log, from its binding file
 * @param tableId Delta table id
 * @param path where the table is
 * @param name how the user named it
 * @param metastore the metastore that knows the name
 * @param pin version that the transaction read
 * @param base newest version up to which it was validated
 * @param baseSlot size and modification time of that commit's file, when it was listed
 * @param parts number of commits to publish
 * @param conflictCapable whether a foreign commit can conflict with it
 * @param closed whether the table was closed to foreign writers at the pin
 * @param reserve the body of the protocol at the pin, when a fence against foreign writers is put in
 *   before the entry is published anywhere; it is the protocol again afterwards
 * @param reads what it has read of the table's data and depends on (SERIALIZABLE)
 * @param actionsHash BLAKE3 of the canonical net actions
 * @param metaDataHash BLAKE3 of the canonical metaData at the pin, when it is known
 * @param protocolHash BLAKE3 of the canonical protocol at the pin, when it is known
 * @param inCommitTimestampMs in-commit timestamp of `base`, when the table keeps them
 * @param inCommitTimestamps whether the table kept in-commit timestamps at the pin
 * @param rowIds high-water marks of row ids at the pin and at `base`, when the table tracks rows
 * @param operations what Delta calls the statements over it, in order; only undo depends on it
 */
final case class EntryTable(
    log: String,
    tableId: String,
    path: TableRef,
    name: String,
    metastore: Option[String],
    pin: Long,
    base: Long,
    baseSlot: Option[SlotStamp],
    parts: Int,
    conflictCapable: Boolean,
    closed: Boolean,
    reserve: Option[ObjectNode],
    reads: Option[ReadSet],
    actionsHash: String,
    metaDataHash: Option[String],
    protocolHash: Option[String],
    inCommitTimestamps: Boolean,
    inCommitTimestampMs: Option[Long],
    rowIds: Option[RowIds],
    added: FileSums,
    removed: FileSums,
    operations: Vector[String] = Vector.empty) {

  /** The number of the first commit that is put into the table: 0 for a reserve, else 1. */
  def first: Int = if (reserve.isDefined) 0 else 1

  /** How many commits the table holds when the entry is completed. */
  def commits: Int = parts + 1 - first

  /** The commit that the table holds while its state says `Partly`, where it can be but one. */
  def partly: Option[Int] = Option.when(commits == 2)(first)
}

final case class SlotStamp(sizeBytes: Long, modifiedMs: Long)

/**
 * The high-water marks of row ids.
 *
 * @param asStaged whether the parts get the very versions and row ids with which they were staged, as
 *   these stand inside files
 */
final case class RowIds(atPin: Long, atBase: Long, asStaged: Boolean = false)

/** Files, rows (as far as statistics tell) and bytes. */
final case class FileSums(files: Long, rows: Long, sizeBytes: Long)

/** A table that a SERIALIZABLE transaction read, and the newest version it was validated against. */
final case class EntryRead(
    log: String,
    path: TableRef,
    name: String,
    pin: Long,
    validatedTo: Long,
    reads: ReadSet)

/**
 * A transaction at BEGIN: `<root>/transactions/<id>.json`.
 *
 * @param id `t` and 32 hexadecimal digits
 * @param isolation name of the isolation level
 * @param snapshot newest entry of the longest finished prefix that it reads
 */
final case class Requested(
    id: String,
    name: Option[String],
    user: String,
    application: String,
    isolation: String,
    snapshot: Long,
    requestedAtMs: Long,
    labels: Labels = Labels.none)

/** What became of an entry; put once. `entryHash` is the BLAKE3 of the entry's bytes. */
sealed trait Outcome {
  def number: Long
  def entryHash: String
  def timeMs: Long
}

/**
 * Every table holds every commit of the entry.
 *
 * @param slots the versions, table by table
 * @param commitHashes BLAKE3 of the commit file in each of them, one after another, empty where it is not
 *   known; nothing depends on it
 */
final case class Completed(
    number: Long,
    entryHash: String,
    timeMs: Long,
    slots: Vector[Vector[Long]],
    commitHashes: Vector[String] = Vector.empty)
    extends Outcome

/** A conflict was met between order point and publish: the entry is being rolled back. */
final case class Aborting(number: Long, entryHash: String, timeMs: Long, evidence: Conflict)
    extends Outcome

/** Every table of an aborted entry was settled in its own log. `entryHash` as in `Outcome`. */
final case class RolledBack(
    number: Long,
    entryHash: String,
    timeMs: Long,
    tables: Vector[RolledBackTable])

/**
 * How one table was settled.
 *
 * @param how `closed` (nothing was published), `undone`, or `gone` (there is no such table any more)
 * @param version slot of the mark, nothing for a table that is gone
 * @param residue what could not be taken back because somebody built upon it
 */
final case class RolledBackTable(how: String, version: Option[Long], residue: Vector[String])

/** An entry with what is known of its end. */
final case class EntryStatus(
    entry: TimelineEntry,
    hash: String,
    outcome: Option[Outcome],
    rolledBack: Option[RolledBack]) {

  /** Whether nobody has anything left to do for it. */
  def isFinished: Boolean = entry match {
    case _: AbortEntry => true
    case _: CommitEntry => rolledBack.isDefined || outcome.exists(_.isInstanceOf[Completed])
  }

  /** What it makes of names. */
  def names: Vector[NameChange] = entry match {
    case c: CommitEntry => c.names
    case _ => Vector.empty
  }

  def isOverNames: Boolean = entry match {
    case c: CommitEntry => c.isOverNames
    case _ => false
  }

  /** When nobody had anything left to do for it, by the clock of who said so. */
  def endedAtMs: Option[Long] = entry match {
    case a: AbortEntry => Some(a.timeMs)
    case _: CommitEntry =>
      rolledBack.map(_.timeMs).orElse(outcome.filter(_ => isCompleted).map(_.timeMs))
  }

  def isCompleted: Boolean = outcome.exists(_.isInstanceOf[Completed])

  /** Whether it is, or was, rolled back. */
  def isAborting: Boolean = outcome.exists(_.isInstanceOf[Aborting])

  /** With what another reading of the same entry knows of its end in addition. */
  def withEndOf(other: EntryStatus): EntryStatus = copy(
    outcome = outcome.orElse(other.outcome),
    rolledBack = rolledBack.orElse(other.rolledBack)
  )

  /** The slot of the last mark that a finished entry left in a table, if it left one. */
  def lastSlot(table: Int): Option[Long] = outcome match {
    case Some(c: Completed) => c.slots.lift(table).flatMap(_.lastOption)
    case _ => rolledBack.flatMap(_.tables.lift(table)).flatMap(_.version)
  }
}
