package io.lakestep.simulation

import io.lakestep.commit.{CommitOutcome, TransactionStatus}
import io.lakestep.timeline.{NameChange, NameKey, NamedObject, Purge}

/** The rows that a commit takes out of a table and those that it brings. */
final case class RowChange(takes: Set[Row], brings: Set[Row])

object RowChange {

  /** From files with their deletion vectors to others. */
  def between(from: Map[String, Set[Int]], to: Map[String, Set[Int]]): RowChange = {
    val (before, after) = (Cells.rows(from).toSet, Cells.rows(to).toSet)
    RowChange(before -- after, after -- before)
  }
}

/** The rows of a file that a transaction found deleted, and those that it leaves so. */
final case class Vectors(base: Set[Int], ours: Set[Int]) {

  /** Whether somebody else's rows can be united with ours. */
  def isMergeable(theirs: Set[Int]): Boolean =
    base.subsetOf(theirs) && (ours -- base).intersect(theirs -- base).isEmpty
}

/**
 * What a transaction of the simulation does to one table.
 *
 * @param vectors files that only get another deletion vector, and may be merged
 * @param parts what each of its commits does to the rows
 * @param opens whether it lets foreign writers into a closed table
 */
final case class PlannedWrite(
    table: String,
    pin: Long,
    removes: Set[String],
    adds: Set[String],
    vectors: Map[String, Vectors],
    parts: Vector[RowChange],
    readsAll: Boolean,
    changesHeader: Boolean,
    opens: Boolean)

/**
 * A COMMIT that a client called. The answer is nothing when the client crashed before it came.
 *
 * @param reads versions of tables that it depends on and does not write
 * @param names what it changes names of
 * @param readNames names that it depends on
 * @param batch of the query that it applies
 * @param purges dropped tables whose data it deletes
 */
final class Attempt(
    val client: String,
    val root: String,
    val transaction: String,
    val writes: Vector[PlannedWrite],
    val reads: Map[String, Long],
    val snapshot: Long,
    val names: Vector[NameChange],
    val readNames: Set[NameKey],
    val batch: Option[Long],
    val purges: Vector[Purge] = Vector.empty) {
  var answer: Option[CommitOutcome] = None
  var answeredAt: Int = Int.MaxValue

  /** Whether the transaction went on after a conflict, and this COMMIT is not its last one. */
  var isRunAgain: Boolean = false
}

/** What DESCRIBE TRANSACTION said of a transaction. */
final case class SeenStatus(client: String, transaction: String, status: TransactionStatus)

/** A snapshot that a reader took: the prefix of entries, and the version of every table. */
final case class SeenSnapshot(
    client: String,
    root: String,
    begunAt: Int,
    takenAt: Int,
    mayWrite: Boolean,
    entry: Long,
    pins: Map[String, Long])

/** The entry that is said to have applied a batch. */
final case class SeenReplay(client: String, root: String, batch: Long, entry: Long)

/** What a query outside a transaction read. */
final case class SeenQuery(
    client: String,
    root: String,
    begunAt: Int,
    versions: Map[String, Long])

/**
 * What names stood for when somebody read them.
 *
 * @param snapshot of the transaction, nothing for a query outside of one
 * @param listed a schema, and the names in it
 * @param rows the version of each table that was read with them
 * @param isLast whether nobody changed anything any more
 */
final case class SeenNames(
    client: String,
    metastore: SimulatedMetastore,
    from: Int,
    until: Int,
    snapshot: Option[Long],
    names: Map[NameKey, Option[NamedObject]],
    listed: Option[(String, Set[String])],
    rows: Map[String, Long],
    isLast: Boolean)
