package io.lakestep.sql.listing

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.types.{
  ArrayType, DataType, LongType, MapType, StringType, TimestampType
}

import io.lakestep.timeline.{AbortEntry, CommitEntry, EntryStatus}

/** Every transaction that has an entry, the newest first. */
private[sql] object TimelineListing extends Listing {

  override def name: String = "lakestep_timeline"

  override def key: Option[String] = Some("entry")

  override def endedAt: Option[String] = Some("ended_at")

  override val columns: Seq[(String, DataType)] = Seq(
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
    "operations" -> ArrayType(StringType),
    "tables" -> ArrayType(StringType),
    "names" -> ArrayType(StringType),
    "batch" -> StringType,
    "added_files" -> LongType,
    "added_rows" -> LongType,
    "removed_files" -> LongType,
    "undoes" -> ArrayType(StringType)
  )

  override def rows(session: SparkSession, keys: KeyRange): Seq[Row] =
    Listing.entries(session)(_ => keys).reverse.flatMap(rows)

  /** The newest of them, at most so many. */
  def last(session: SparkSession, most: Long, to: Long): Seq[Row] =
    Listing.entries(session) { view =>
      val until = to.min(view.next - 1)
      KeyRange(until - most + 1, until)
    }.reverse.flatMap(rows)

  private def rows(status: EntryStatus): Seq[Row] = status.entry match {
    case commit: CommitEntry => Seq(row(commit, status))
    case abort: AbortEntry => abort.transactions.map(ended(abort, _))
  }

  private def ended(abort: AbortEntry, transaction: String): Row = {
    val at = Listing.time(abort.timeMs)
    val known = Map[String, Any](
      "entry" -> abort.number,
      "state" -> "ABORTED",
      "transaction_id" -> transaction,
      "ordered_at" -> at,
      "ended_at" -> at
    )
    Row.fromSeq(columns.map { case (column, _) => known.getOrElse(column, null) })
  }

  private def row(entry: CommitEntry, status: EntryStatus): Row = {
    val of = entry.transaction
    Row(
      entry.number,
      state(status),
      of.id,
      of.name.orNull,
      of.labels.comment.orNull,
      of.labels.tags,
      of.user,
      of.application,
      of.isolation,
      Listing.time(of.requestedAtMs),
      Listing.time(entry.timeMs),
      status.endedAtMs.map(Listing.time).orNull,
      entry.tables.flatMap(_.operations).distinct,
      entry.tables.map(_.name),
      entry.names.map(change => s"${change.verb} ${change.key}"),
      Some(batches(entry)).filter(_.nonEmpty).orNull,
      entry.tables.map(_.added.files).sum,
      entry.tables.map(_.added.rows).sum,
      entry.tables.map(_.removed.files).sum,
      entry.undoes.map(_.toString)
    )
  }

  private def state(status: EntryStatus): String =
    if (status.isCompleted) "COMPLETED"
    else if (status.rolledBack.isDefined) "ROLLED_BACK"
    else "INFLIGHT"

  /** The batches of streaming queries that it holds. */
  def batches(entry: CommitEntry): String =
    entry.batches.map(b => b.batch.fold("none")(_.toString) + s" of ${b.query}").mkString(", ")
}
