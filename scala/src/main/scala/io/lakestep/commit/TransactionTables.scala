package io.lakestep.commit

import io.lakestep.log.{Action, PinnedHeader, ReadSet, TableRef}

/**
 * A table with staged commits.
 *
 * @param tableId Delta table id
 * @param stagedTo newest staged commit that the session made, the pin for none; when one of them is
 *   no longer there, somebody has deleted the table with what was staged in it
 * @param inCommitTimestamps whether the table kept in-commit timestamps at the pin
 * @param rowIdHighWaterMark of the pin, when the table tracks rows
 * @param pinned metadata and protocol at the pin; without it a log that is cleaned up under a
 *   helper counts as a conflict, and an undo cannot put metadata back
 * @param oneCommit whether the staged commits become as few as can say the same; otherwise each is one
 * @param reads what the statements read of the table's data; counts under SERIALIZABLE
 * @param pinnedAs the pin as it was found; without it a table that others made anew at the same path
 *   is known by its binding and by what was staged alone
 * @param staged by version, the staged commits that the caller knows; others are read
 */
final case class WrittenTable(
    path: TableRef,
    name: String,
    tableId: String,
    pin: Long,
    stagedTo: Long,
    inCommitTimestamps: Boolean = false,
    rowTracking: Boolean = false,
    rowIdHighWaterMark: Option[Long] = None,
    pinned: Option[PinnedHeader] = None,
    oneCommit: Boolean = true,
    reads: Option[ReadSet] = None,
    metastore: Option[String] = None,
    pinnedAs: Option[Pin] = None,
    staged: Map[Long, Vector[Action]] = Map.empty) {

  /** As one that was only read, when its staged commits change nothing. */
  def asRead: Option[ReadTable] = reads.map(ReadTable(path, name, pin, _, pinnedAs))
}

/** A table that a transaction read and did not write; counts under SERIALIZABLE. */
final case class ReadTable(
    path: TableRef,
    name: String,
    pin: Long,
    reads: ReadSet,
    pinnedAs: Option[Pin] = None)
