package io.lakestep.commit

import io.lakestep.log.{LogTail, TableRef}
import io.lakestep.timeline.SlotStamp

/**
 * A version that a snapshot has of a table, and what tells it from a version of another table that is
 * made at the same path.
 *
 * @param slot how its commit file was listed, if it was
 * @param log the log's id, if the table was bound
 * @param kept the copy of the log up to there that is read in its place, if there is one
 */
final case class Pin(
    version: Long,
    slot: Option[SlotStamp],
    log: Option[String],
    kept: Option[String] = Option.empty) {

  /** Whether a listing shows the same commit file; none has been cleaned up. */
  def isIn(tail: LogTail): Boolean = tail.slot(version).map(Environment.stamp).forall(slot.contains)

  /** Whether two tables of a transaction may be one under two paths. */
  def mayBeOfOneLog(other: Pin): Boolean =
    version == other.version && slot == other.slot &&
      log.forall(id => other.log.forall(_ == id))

  /** Whether it may be of this log: others may have bound the table since. */
  def isOf(id: Option[String]): Boolean = log.forall(id.contains)
}

object Pin {

  /** Where there is no table yet. */
  val None: Pin = Pin(-1L, Option.empty, Option.empty)
}

/** A table that an open transaction has met: its pin, and the number of the first statement on it. */
final case class FirstTouch(path: TableRef, pin: Pin, statement: Int)

/** From which statement on a transaction is run again, and the transaction on its new snapshot. */
final case class Rerun(statement: Int, txn: BegunTransaction)
