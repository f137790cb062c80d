package io.lakestep.commit

import io.lakestep.log.{LogTail, PinnedHeader, ReadSet, TableRef}
import io.lakestep.timeline.{CommitEntry, Conflict, Requested, SlotStamp, TimelineSnapshot}

/**
 * What BEGIN asks for.
 *
 * @param readOnly nothing is written to any store, nobody is helped
 * @param notBefore newest entry that this session has seen finished; it never goes back behind it
 */
final case class BeginRequest(
    name: Option[String],
    user: String,
    application: String,
    isolation: IsolationLevel,
    readOnly: Boolean,
    notBefore: Long)

/**
 * An open transaction; a value. The snapshot is the longest prefix of finished entries at BEGIN.
 *
 * @param base what the entries of the snapshot left behind; of a query's, which may leave out
 *   unfinished entries of other tables, those of the finished prefix
 */
final case class BegunTransaction(
    id: String,
    name: Option[String],
    user: String,
    application: String,
    snapshot: Long,
    base: TimelineSnapshot,
    requestedAtMs: Long,
    isolation: IsolationLevel,
    readOnly: Boolean) {

  def requested: Requested =
    Requested(id, name, user, application, isolation.name, snapshot, requestedAtMs)
}

/**
 * A version that a snapshot has of a table, and what tells it from a version of another table that is
 * made at the same path.
 *
 * @param slot how its commit file was listed, if it was
 * @param log the log's id, if the table was bound
 */
final case class Pin(version: Long, slot: Option[SlotStamp], log: Option[String]) {

  /** Whether a listing shows the same commit file; none has been cleaned up. */
  def isIn(tail: LogTail): Boolean = tail.slot(version).map(Environment.stamp).forall(slot.contains)

  /** Whether it may be of this log: others may have bound the table since. */
  def isOf(id: Option[String]): Boolean = log.forall(id.contains)
}

/** A table that an open transaction has met: its pin, and the number of the first statement on it. */
final case class FirstTouch(path: TableRef, pin: Pin, statement: Int)

/** From which statement on a transaction is run again, and the transaction on its new snapshot. */
final case class Rerun(statement: Int, txn: BegunTransaction)

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
 * @param oneCommit whether the staged commits become one; otherwise plain readers see every one
 * @param reads what the statements read of the table's data; counts under SERIALIZABLE
 * @param pinnedAs the pin as it was found; without it a table that others made anew at the same path
 *   is known by its binding and by what was staged alone
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
    pinnedAs: Option[Pin] = None) {

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

/** What COMMIT did. */
sealed trait CommitOutcome

object CommitOutcome {

  /** Every table holds the transaction; `slots` are the published versions, table by table. */
  final case class Committed(entry: CommitEntry, slots: Vector[Vector[Long]])
      extends CommitOutcome {

    /** The published versions of each written table, by its path. */
    def published: Map[TableRef, Vector[Long]] = entry.tables.map(_.path).zip(slots).toMap
  }

  /** No statement changed anything. */
  case object NothingToCommit extends CommitOutcome

  /** No table holds the transaction; `entry` when it had already been ordered. */
  final case class Conflicted(conflict: Conflict, entry: Option[Long] = None) extends CommitOutcome

  /**
   * As `Conflicted` after the order point, but for what others had built upon meanwhile: that stays,
   * so the same transaction must not simply be run again.
   */
  final case class LeftResidue(conflict: Conflict, entry: Long, residue: Vector[String])
      extends CommitOutcome

  /**
   * Nobody can tell yet. Whoever comes next finishes the transaction, or finds that it never had
   * a place in the timeline; nothing of it may be deleted or repeated before.
   */
  final case class Unknown(cause: Throwable, entry: Option[Long] = None) extends CommitOutcome
}

/** What became of an entry that somebody finished. */
sealed trait Finished

object Finished {
  final case class Completed(slots: Vector[Vector[Long]]) extends Finished
  final case class RolledBack(conflict: Conflict, residue: Vector[String]) extends Finished
}

/**
 * What RECOVER did.
 *
 * @param finished entries that this call finished, oldest first
 * @param failed entries that this client could not finish, with the reason
 */
final case class RecoveryReport(
    finished: Vector[(CommitEntry, Finished)],
    failed: Vector[(CommitEntry, Throwable)])

/** Where a transaction is. */
sealed trait TransactionStatus

object TransactionStatus {
  final case class Open(requested: Requested) extends TransactionStatus
  final case class InFlight(entry: CommitEntry) extends TransactionStatus
  final case class Committed(entry: CommitEntry, slots: Vector[Vector[Long]])
      extends TransactionStatus
  final case class RolledBack(entry: CommitEntry, conflict: Conflict, residue: Vector[String])
      extends TransactionStatus
  final case class Aborted(entry: Long) extends TransactionStatus
  case object NotFound extends TransactionStatus
}
