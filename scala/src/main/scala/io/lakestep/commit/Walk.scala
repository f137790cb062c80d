package io.lakestep.commit

import io.lakestep.log.ReadSet
import io.lakestep.timeline.{Conflict, SlotStamp}

/** What one table's log says about an entry. */
private[commit] sealed trait Vote

private[commit] object Vote {

  /**
   * Every part is in the log; slots whose commits were cleaned up meanwhile are left out.
   *
   * @param hashes of those commits that were seen
   * @param walk where the walk ended, if the log was seen to end there with a part of this client
   */
  final case class Published(
      slots: Vector[Long],
      hashes: Map[Long, String] = Map.empty,
      walk: Option[Walk] = None)
      extends Vote
  final case class Conflicting(conflict: Conflict) extends Vote

  /** A close, an undo, or a later entry stands in the log: an outcome exists, and is obeyed. */
  final case class Decided(conflict: Conflict) extends Vote
}

/**
 * Where a walk through a log is.
 *
 * @param cursor every commit up to here has been looked at
 * @param at how the commit file of the cursor was listed, if it was
 * @param part the next part to put
 * @param reads what the transaction has read, and where others have moved it
 * @param put slots that this client itself has put
 * @param hashes of commits with marks
 */
private[commit] final case class Walk(
    cursor: Long,
    at: Option[SlotStamp],
    part: Int,
    slots: Vector[Long],
    previousMs: Option[Long],
    rowIdHighWaterMark: Option[Long],
    reads: Option[ReadSet],
    put: Set[Long] = Set.empty,
    hashes: Map[Long, String] = Map.empty)
