package io.lakestep.simulation

import io.lakestep.transaction.CommitOutcome

/** What a transaction of the simulation does to one table. */
final case class PlannedWrite(
    table: String,
    pin: Long,
    removes: Set[String],
    adds: Set[String],
    parts: Int,
    readsAll: Boolean,
    changesHeader: Boolean)

/**
 * A COMMIT that a client called. The answer is nothing when the client crashed before it came.
 *
 * @param reads versions of tables that it depends on and does not write
 */
final class Attempt(
    val client: String,
    val root: String,
    val transaction: String,
    val writes: Vector[PlannedWrite],
    val reads: Map[String, Long]) {
  var answer: Option[CommitOutcome] = None
  var answeredAt: Int = Int.MaxValue
}

/** A snapshot that a reader took: the prefix of entries, and the version of every table. */
final case class SeenSnapshot(
    client: String,
    root: String,
    begunAt: Int,
    mayWrite: Boolean,
    entry: Long,
    pins: Map[String, Long])
