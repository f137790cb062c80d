package io.lakestep.sql.listing

import java.sql.Timestamp

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.sources.{
  And, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
}
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/** Rows about the database, read on the driver when a query is planned. */
private[sql] trait Listing {

  /** As a query calls it. */
  def name: String

  def columns: Seq[(String, DataType)]

  /** The column of whole numbers by which rows are found without reading all of them. */
  def key: Option[String] = None

  /** All rows whose key is in the range, and perhaps others. */
  def rows(session: SparkSession, keys: KeyRange): Seq[Row]

  final def schema: StructType =
    StructType(columns.map { case (column, dataType) => StructField(column, dataType) })
}

private[sql] object Listing {
  def time(ms: Long): Timestamp = new Timestamp(ms)
}

/** Both ends included. */
private[sql] final case class KeyRange(from: Long, to: Long) {

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

  private def and(least: Long, most: Long) = KeyRange(from.max(least), to.min(most))
}

private[sql] object KeyRange {
  val All: KeyRange = KeyRange(Long.MinValue, Long.MaxValue)
}
