package io.lakestep.sql.command

import java.sql.Timestamp

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.{ArrayType, LongType, MapType, StringType, TimestampType}

import io.lakestep.commit.TransactionStatus
import io.lakestep.timeline.{AbortEntry, CommitEntry, EntryStatus, Requested, Timeline}
import io.lakestep.transaction.{Databases, SessionState, Transactions}

/** What rows about several transactions say in the same way. */
private[command] object Listed {
  def batches(entry: CommitEntry): String =
    entry.batches.map(b => b.batch.fold("none")(_.toString) + s" of ${b.query}").mkString(", ")

  def time(ms: Long): Timestamp = new Timestamp(ms)
}

/**
 * `SHOW TRANSACTIONS`: this session's open one, then the unfinished entries of the timeline.
 *
 * @param ofAll whether those are shown, too, that other clients have open, or have left when they died
 */
final case class ShowTransactions(ofAll: Boolean = false) extends InspectionCommand {

  override val output: Seq[Attribute] = Columns(
    "transaction_id" -> StringType,
    "name" -> StringType,
    "user" -> StringType,
    "state" -> StringType,
    "entry" -> LongType,
    "began_at" -> TimestampType,
    "tables" -> StringType,
    "application" -> StringType,
    "comment" -> StringType,
    "tags" -> MapType(StringType, StringType)
  )

  override def run(session: SparkSession): Seq[Row] = {
    val database = Databases.of(session)
    val inFlight = database.unfinished()
    val own = Transactions.state(session) match {
      case SessionState.Idle => None
      case SessionState.Failed(t) => Some(t.id -> row(t.begun.requested, "FAILED", None, null))
      case SessionState.Open(t) =>
        val tables = t.touched.map(_.base.toString).mkString(", ")
        Some(t.id -> row(t.begun.requested, "REQUESTED", None, tables))
    }
    val known = (own.map(_._1) ++ inFlight.map(_.transaction.id)).toSet
    val others =
      if (ofAll)
        open(database.timeline).filterNot(r => known(r.id)).map(row(_, "REQUESTED", None, null))
      else Nil
    own.map(_._2).toSeq ++ others ++ inFlight.map { e =>
      row(e.transaction, "INFLIGHT", Some(e.number), e.tables.map(_.name).mkString(", "))
    }
  }

  /** Those of all clients that have no entry. */
  private def open(timeline: Timeline): Vector[Requested] =
    if (timeline.existingId.isEmpty) Vector.empty
    else {
      val all = timeline.requested()
      val view = timeline.refresh()
      val ended = timeline.entriesOf(all.map(_.id).toSet).keySet
      all.filterNot(r => ended(r.id) || view.aborted(r.id).isDefined)
    }

  private def row(of: Requested, state: String, entry: Option[Long], tables: String) = Row(
    of.id,
    of.name.orNull,
    of.user,
    state,
    entry.map(Long.box).orNull,
    Listed.time(of.requestedAtMs),
    tables,
    of.application,
    of.labels.comment.orNull,
    of.labels.tags
  )
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
    "tags" -> MapType(StringType, StringType)
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
    Listed.batches(entry),
    entry.assertions
      .map(a => s"${a.name} ${if (a.passed) "passed" else "failed"}").mkString(", ")
  )

  private def row(
      state: String,
      requested: Option[Requested] = None,
      entry: Option[Long] = None,
      tables: String = null,
      residue: String = null,
      batch: String = null,
      assertions: String = null): Row = Row(
    id,
    state,
    requested.flatMap(_.name).orNull,
    requested.map(_.user).orNull,
    requested.map(_.isolation).orNull,
    requested.map(r => Long.box(r.snapshot)).orNull,
    requested.map(r => new Timestamp(r.requestedAtMs)).orNull,
    entry.map(Long.box).orNull,
    tables,
    residue,
    batch,
    assertions,
    requested.flatMap(_.labels.comment).orNull,
    requested.map(_.labels.tags).orNull
  )
}

/**
 * `SHOW TIMELINE`: a row for each transaction that has an entry, the newest first.
 *
 * @param last how many entries at most
 */
final case class ShowTimeline(from: Option[Long], to: Option[Long], last: Option[Long])
    extends InspectionCommand {

  override val output: Seq[Attribute] = Columns(
    "entry" -> LongType,
    "state" -> StringType,
    "transaction_id" -> StringType,
    "name" -> StringType,
    "comment" -> StringType,
    "tags" -> MapType(StringType, StringType),
    "user" -> StringType,
    "application" -> StringType,
    "isolation" -> StringType,
    "began_at" -> TimestampType,
    "ordered_at" -> TimestampType,
    "ended_at" -> TimestampType,
    "tables" -> ArrayType(StringType),
    "names" -> ArrayType(StringType),
    "batch" -> StringType,
    "added_files" -> LongType,
    "added_rows" -> LongType,
    "removed_files" -> LongType
  )

  override def run(session: SparkSession): Seq[Row] = {
    val timeline = Databases.of(session).timeline
    if (timeline.existingId.isEmpty) Nil
    else {
      val newest = timeline.refresh().next - 1
      val until = to.getOrElse(newest).min(newest)
      val most = last.orElse(Option.when(from.isEmpty)(ShowTimeline.Last))
      val begin = from.orElse(most.map(until - _ + 1)).getOrElse(1L)
      timeline.entries(begin, until).reverse.flatMap(rows)
    }
  }

  private def rows(status: EntryStatus): Seq[Row] = status.entry match {
    case commit: CommitEntry => Seq(row(commit, status))
    case abort: AbortEntry =>
      val ended = Listed.time(abort.timeMs)
      abort.transactions.map { id =>
        val about = Seq[Any](abort.number, "ABORTED", id) ++ Seq.fill(7)(null) ++ Seq(ended, ended)
        Row.fromSeq(about.padTo(output.size, null))
      }
  }

  private def row(entry: CommitEntry, status: EntryStatus): Row = {
    val of = entry.transaction
    Row(
      entry.number,
      if (status.isCompleted) "COMPLETED"
      else if (status.rolledBack.isDefined) "ROLLED_BACK"
      else "INFLIGHT",
      of.id,
      of.name.orNull,
      of.labels.comment.orNull,
      of.labels.tags,
      of.user,
      of.application,
      of.isolation,
      Listed.time(of.requestedAtMs),
      Listed.time(entry.timeMs),
      status.rolledBack.map(_.timeMs)
        .orElse(status.outcome.filter(_ => status.isCompleted).map(_.timeMs))
        .map(Listed.time).orNull,
      entry.tables.map(_.name),
      entry.names.map(change => s"${change.verb} ${change.key}"),
      Some(Listed.batches(entry)).filter(_.nonEmpty).orNull,
      entry.tables.map(_.added.files).sum,
      entry.tables.map(_.added.rows).sum,
      entry.tables.map(_.removed.files).sum
    )
  }
}

object ShowTimeline {

  /** How many entries are shown where nobody says how many. */
  val Last = 100L
}
