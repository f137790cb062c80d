package io.lakestep.sql.listing

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.types.{ArrayType, DataType, LongType, StringType, TimestampType}

import io.lakestep.timeline.{CommitEntry, Completed, EntryStatus}

/** What committed transactions did to tables, by entry: a row for each table of each, in order. */
private[sql] final case class ChangesListing(range: KeyRange) extends Listing {

  override def name: String = "lakestep_changes"

  override def key: Option[String] = Some("entry")

  override def endedAt: Option[String] = Some("committed_at")

  override def columns: Seq[(String, DataType)] = Seq(
    "entry" -> LongType,
    "transaction_id" -> StringType,
    "committed_at" -> TimestampType,
    "table" -> StringType,
    "path" -> StringType,
    "table_id" -> StringType,
    "read_version" -> LongType,
    "versions" -> ArrayType(LongType),
    "operations" -> ArrayType(StringType),
    "added_files" -> LongType,
    "added_rows" -> LongType,
    "added_bytes" -> LongType,
    "removed_files" -> LongType,
    "removed_bytes" -> LongType
  )

  override def rows(session: SparkSession, keys: KeyRange): Seq[Row] =
    Listing.entries(session)(_ => keys.and(range.from, range.to)).flatMap(rows)

  private def rows(status: EntryStatus): Seq[Row] = (status.entry, status.outcome) match {
    case (entry: CommitEntry, Some(completed: Completed)) =>
      entry.tables.zip(completed.slots).map { case (table, slots) =>
        Row(
          entry.number,
          entry.transaction.id,
          Listing.time(completed.timeMs),
          table.name,
          table.path.uri,
          table.tableId,
          Some(table.pin).filter(_ >= 0).map(Long.box).orNull,
          slots,
          table.operations,
          table.added.files,
          table.added.rows,
          table.added.sizeBytes,
          table.removed.files,
          table.removed.sizeBytes
        )
      }
    case _ => Nil
  }
}
