package io.lakestep.sql.command

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.{LongType, MapType, StringType, TimestampType}

import io.lakestep.commit.TransactionStatus
import io.lakestep.sql.listing.{KeyRange, Listing, TimelineListing, TransactionsListing}
import io.lakestep.timeline.{CommitEntry, Requested}
import io.lakestep.transaction.Databases

/**
 * `SHOW TRANSACTIONS`: this session's open one, then the unfinished entries of the timeline.
 *
 * @param ofAll whether those are shown, too, that other clients have open, or have left when they died
 */
final case class ShowTransactions(ofAll: Boolean = false) extends InspectionCommand {

  override val output: Seq[Attribute] = Columns(TransactionsListing.columns: _*)

  override def run(session: SparkSession): Seq[Row] = TransactionsListing.rows(session, ofAll)
}

/** `DESCRIBE TRANSACTION`: where a transaction is, of whatever client, by its id. */
final case class DescribeTransaction(id: String) extends InspectionCommand {

  override val output: Seq[Attribute] = Columns(
    "transaction_id" -> StringType,
    "state" -> StringType,
    "name" -> StringType,
    "user" -> StringType,
    "isolation" -> StringType,
    "snapshot" -> LongType,
    "began_at" -> TimestampType,
    "entry" -> LongType,
    "tables" -> StringType,
    "residue" -> StringType,
    "batch" -> StringType,
    "assertions" -> StringType,
    "comment" -> StringType,
    "tags" -> MapType(StringType, StringType),
    "undoes" -> StringType
  )

  override def run(session: SparkSession): Seq[Row] = Databases.of(session).describe(id) match {
    case TransactionStatus.NotFound => Seq(row("NOT_FOUND"))
    case TransactionStatus.Open(requested) => Seq(row("REQUESTED", Some(requested)))
    case TransactionStatus.Aborted(entry) => Seq(row("ABORTED", entry = Some(entry)))
    case TransactionStatus.InFlight(entry) => Seq(ordered("INFLIGHT", entry))
    case TransactionStatus.Committed(entry, _) => Seq(ordered("COMPLETED", entry))
    case TransactionStatus.RolledBack(entry, _, residue) =>
      Seq(ordered("ROLLED_BACK", entry, residue))
  }

  private def ordered(state: String, entry: CommitEntry, residue: Seq[String] = Nil): Row = row(
    state,
    Some(entry.transaction),
    Some(entry.number),
    entry.tables.map(_.name).mkString(", "),
    residue.mkString("; "),
    TimelineListing.batches(entry),
    entry.assertions
      .map(a => s"${a.name} ${if (a.passed) "passed" else "failed"}").mkString(", "),
    entry.undoes.mkString(", ")
  )

  private def row(
      state: String,
      requested: Option[Requested] = None,
      entry: Option[Long] = None,
      tables: String = null,
      residue: String = null,
      batch: String = null,
      assertions: String = null,
      undoes: String = null): Row = Row(
    id,
    state,
    requested.flatMap(_.name).orNull,
    requested.map(_.user).orNull,
    requested.map(_.isolation).orNull,
    requested.map(r => Long.box(r.snapshot)).orNull,
    requested.map(r => Listing.time(r.requestedAtMs)).orNull,
    entry.map(Long.box).orNull,
    tables,
    residue,
    batch,
    assertions,
    requested.flatMap(_.labels.comment).orNull,
    requested.map(_.labels.tags).orNull,
    undoes
  )
}

/**
 * `SHOW TIMELINE`: a row for each transaction that has an entry, the newest first.
 *
 * @param last how many entries at most
 */
final case class ShowTimeline(from: Option[Long], to: Option[Long], last: Option[Long])
    extends InspectionCommand {

  override val output: Seq[Attribute] = Columns(TimelineListing.columns: _*)

  override def run(session: SparkSession): Seq[Row] = {
    val until = to.getOrElse(Long.MaxValue)
    from match {
      case Some(first) => TimelineListing.rows(session, KeyRange(first, until))
      case None => TimelineListing.last(session, last.getOrElse(ShowTimeline.Last), until)
    }
  }
}

object ShowTimeline {

  /** How many entries are shown where nobody says how many. */
  val Last = 100L
}
