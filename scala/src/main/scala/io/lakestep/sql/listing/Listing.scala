package io.lakestep.sql.listing

import java.sql.Timestamp
import java.time.Instant

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.sources.{
  And, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
}
import org.apache.spark.sql.types.{DataType, StructField, StructType}

import io.lakestep.timeline.{EntryStatus, Timeline, TimelineView}
import io.lakestep.transaction.Databases

/** Rows about the database, read on the driver when a query is planned. */
private[sql] trait Listing {

  /** As a query calls it. */
  def name: String

  def columns: Seq[(String, DataType)]

  /** The column of whole numbers by which rows are found without reading all of them. */
  def key: Option[String] = None

  /** The column that says when an entry ended, by which older ones need not be read. */
  def endedAt: Option[String] = None

  /** All rows whose key is in the range, and perhaps others. */
  def rows(session: SparkSession, keys: KeyRange): Seq[Row]

  final def schema: StructType =
    StructType(columns.map { case (column, dataType) => StructField(column, dataType) })
}

private[sql] object Listing {
  def time(ms: Long): Timestamp = new Timestamp(ms)

  /** Entries of the timeline as it is now; none where there is no timeline. */
  def entries(session: SparkSession)(keys: TimelineView => KeyRange): Vector[EntryStatus] = {
    val timeline = Databases.of(session).timeline
    if (timeline.existingId.isEmpty) Vector.empty else keys(timeline.refresh()).entries(timeline)
  }
}

/**
 * Which rows are asked for. Both ends are included.
 *
 * @param endedFromMs none of an entry that ended before
 */
private[sql] final case class KeyRange(
    from: Long,
    to: Long,
    endedFromMs: Option[Long] = None) {

  /** Without what a condition on the column excludes. */
  def where(column: String, condition: Filter): KeyRange = condition match {
    case EqualTo(`column`, n: Number) => and(n.longValue, n.longValue)
    case GreaterThanOrEqual(`column`, n: Number) => and(n.longValue, Long.MaxValue)
    case GreaterThan(`column`, n: Number) if n.longValue < Long.MaxValue =>
      and(n.longValue + 1, Long.MaxValue)
    case LessThanOrEqual(`column`, n: Number) => and(Long.MinValue, n.longValue)
    case LessThan(`column`, n: Number) if n.longValue > Long.MinValue =>
      and(Long.MinValue, n.longValue - 1)
    case In(`column`, values) if values.nonEmpty =>
      val numbers = values.collect { case n: Number => n.longValue }
      if (numbers.length == values.length) and(numbers.min, numbers.max) else this
    case And(one, other) => where(column, one).where(column, other)
    case _ => this
  }

  /** Within other bounds, too. */
  def and(least: Long, most: Long): KeyRange = copy(from = from.max(least), to = to.min(most))

  /** Without the entries that a condition on when they ended excludes. */
  def ended(column: String, condition: Filter): KeyRange = condition match {
    case EqualTo(`column`, KeyRange.Time(ms)) => since(ms)
    case GreaterThanOrEqual(`column`, KeyRange.Time(ms)) => since(ms)
    case GreaterThan(`column`, KeyRange.Time(ms)) => since(ms)
    case And(one, other) => ended(column, one).ended(column, other)
    case _ => this
  }

  private def since(ms: Long) = copy(endedFromMs = Some(endedFromMs.fold(ms)(_.max(ms))))

  /** The entries; what has ended earlier is known by the time of the version. */
  def entries(timeline: Timeline): Vector[EntryStatus] = {
    val first = endedFromMs.fold(from)(ms => from.max(timeline.snapshotBefore(ms - 1).number + 1))
    timeline.entries(first, to)
  }
}

private[sql] object KeyRange {
  val All: KeyRange = KeyRange(Long.MinValue, Long.MaxValue)

  /** Of a constant that Spark has for a timestamp; not later than that. */
  private object Time {
    def unapply(value: Any): Option[Long] = value match {
      case time: Timestamp => Some(time.getTime)
      case time: Instant => Some(time.toEpochMilli)
      case _ => None
    }
  }
}
