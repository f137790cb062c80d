package io.lakestep.commit

import io.lakestep.log.{LogCommit, TableRef}
import io.lakestep.timeline.{CommitEntry, Conflict, Requested}

/** What COMMIT did. */
sealed trait CommitOutcome

object CommitOutcome {

  /**
   * Every table holds the transaction.
   *
   * @param slots the published versions, table by table
   * @param tries how many numbers were tried
   * @param put the commits that this client has put, by table; others may have put some
   * @param costs of its parts, in order
   * @param behind why names are not made, by entry: this one, or earlier ones that it waits for
   */
  final case class Committed(
      entry: CommitEntry,
      slots: Vector[Vector[Long]],
      tries: Int,
      put: Map[TableRef, Vector[LogCommit]],
      costs: Vector[StepCost],
      behind: Vector[(Long, Throwable)])
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
