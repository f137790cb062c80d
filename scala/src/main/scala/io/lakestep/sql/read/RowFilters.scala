package io.lakestep.sql.read

import java.time.LocalDate

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.lakestep.log.RowFilter
import io.lakestep.log.RowFilter.{AllOf, AnyOf, Compare, Everything, Kind, Null, Op}

/**
 * Conditions of Spark as [[RowFilter]]s: comparisons of a column with constants, and what AND, OR
 * and IN make of them. Any other condition may hold for every row.
 */
private[sql] object RowFilters {

  /** @param columnOf the name inside the files of a column of the table; nothing for others */
  def of(conditions: Iterable[Expression], columnOf: Attribute => Option[String]): RowFilter = {
    val parts = conditions.map(of(_, columnOf)).filterNot(_ == Everything).toVector
    if (parts.size == 1) parts.head else AllOf(parts)
  }

  private def of(condition: Expression, columnOf: Attribute => Option[String]): RowFilter = {
    def compare(a: Expression, b: Expression, op: Op): RowFilter = (a, b) match {
      case (column: Attribute, constant: Literal) =>
        columnOf(column).flatMap(constantOf(_, column.dataType, op, constant.value))
          .getOrElse(Everything)
      case _ => Everything
    }
    def in(column: Attribute, values: Iterable[Any]): RowFilter =
      columnOf(column).fold(Everything) { name =>
        val each = values.map(constantOf(name, column.dataType, Op.Equal, _)).toVector
        if (each.size <= MostValues && each.forall(_.isDefined)) AnyOf(each.flatten) else Everything
      }
    condition match {
      case And(a, b) => of(Seq(a, b), columnOf)
      case Or(a, b) =>
        (of(a, columnOf), of(b, columnOf)) match {
          case (Everything, _) | (_, Everything) => Everything
          case (left, right) => AnyOf(Vector(left, right))
        }
      case EqualTo(a: Attribute, b: Literal) => compare(a, b, Op.Equal)
      case EqualTo(a: Literal, b: Attribute) => compare(b, a, Op.Equal)
      case EqualNullSafe(a: Attribute, b: Literal) if b.value != null => compare(a, b, Op.Equal)
      case EqualNullSafe(a: Literal, b: Attribute) if a.value != null => compare(b, a, Op.Equal)
      case LessThan(a: Literal, b) => compare(b, a, Op.Greater)
      case LessThan(a, b) => compare(a, b, Op.Less)
      case LessThanOrEqual(a: Literal, b) => compare(b, a, Op.GreaterOrEqual)
      case LessThanOrEqual(a, b) => compare(a, b, Op.LessOrEqual)
      case GreaterThan(a: Literal, b) => compare(b, a, Op.Less)
      case GreaterThan(a, b) => compare(a, b, Op.Greater)
      case GreaterThanOrEqual(a: Literal, b) => compare(b, a, Op.LessOrEqual)
      case GreaterThanOrEqual(a, b) => compare(a, b, Op.GreaterOrEqual)
      case In(column: Attribute, values) if values.forall(_.isInstanceOf[Literal]) =>
        in(column, values.collect { case literal: Literal => literal.value })
      case InSet(column: Attribute, values) => in(column, values)
      case IsNull(column: Attribute) => columnOf(column).fold(Everything)(Null(_, isNull = true))
      case IsNotNull(column: Attribute) =>
        columnOf(column).fold(Everything)(Null(_, isNull = false))
      case _ => Everything
    }
  }

  private val MostValues = 100

  /** Only where statistics and partition values are exact and ordered as Spark orders. */
  private def constantOf(column: String, dataType: DataType, op: Op, value: Any)
      : Option[RowFilter] = (dataType, value) match {
    case (_, null) => None
    case (ByteType | ShortType | IntegerType | LongType, number: Number) =>
      Some(Compare(column, Kind.Integer, op, number.longValue.toString))
    case (StringType, text: UTF8String) => Some(Compare(column, Kind.Text, op, text.toString))
    case (DateType, day: Int) =>
      Some(Compare(column, Kind.Date, op, LocalDate.ofEpochDay(day.toLong).toString))
    case _ => None
  }
}
