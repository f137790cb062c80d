package io.lakestep.log

import java.nio.charset.StandardCharsets.UTF_8
import java.time.LocalDate
import java.util.Arrays

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json

/** What a commit says of a data file that it adds or removes. */
trait FileFacts {

  /** Relative to the table or absolute, without escapes. */
  def plainPath: String

  def isRemoved: Boolean

  /** By physical column name; nothing for null. */
  def partitionValues: Map[String, Option[String]]

  /** As Delta writes them, when there are any and they are JSON. */
  def statistics: Option[ObjectNode]
}

/**
 * Which rows of a table somebody read, as far as partition values and statistics of a file can
 * tell. It may say more rows than were read, never fewer: what it has no word for is left out.
 *
 * It stands in timeline entries (PROTOCOL.md, "Read sets"), so that every helper judges alike.
 */
sealed trait RowFilter {

  /** Whether the file may hold such a row; true when that cannot be excluded. */
  def mayMatch(file: FileFacts): Boolean
}

object RowFilter {

  final case class AllOf(parts: Vector[RowFilter]) extends RowFilter {
    override def mayMatch(file: FileFacts): Boolean = parts.forall(_.mayMatch(file))
  }

  final case class AnyOf(parts: Vector[RowFilter]) extends RowFilter {
    override def mayMatch(file: FileFacts): Boolean = parts.exists(_.mayMatch(file))
  }

  /**
   * A column is null, or is not.
   *
   * @param column name inside the files: the physical one, where columns are mapped
   */
  final case class Null(column: String, isNull: Boolean) extends RowFilter {
    override def mayMatch(file: FileFacts): Boolean = Values.of(file, column) match {
      case Values.Same(value) => value.isEmpty == isNull
      case Values.Range(_, _, nulls) => if (isNull) nulls != Nulls.None else nulls != Nulls.All
    }
  }

  /** A column compared with a constant; null is in no such relation. */
  final case class Compare(column: String, kind: Kind, op: Op, value: String) extends RowFilter {
    override def mayMatch(file: FileFacts): Boolean = Values.of(file, column) match {
      case Values.Same(None) => false
      case Values.Same(Some(same)) => isPossible(Some(same), Some(same))
      case Values.Range(_, _, Nulls.All) => false
      case Values.Range(low, high, _) => isPossible(low, high)
    }

    /** Whether a value from `low` to `high` can be in the relation; nothing is an open end. */
    private def isPossible(low: Option[String], high: Option[String]): Boolean = {
      def against(end: Option[String])(holds: Int => Boolean): Boolean =
        end.flatMap(kind.compare(_, value)).forall(holds)
      op match {
        case Op.Equal => against(low)(_ <= 0) && against(high)(_ >= 0)
        case Op.Less => against(low)(_ < 0)
        case Op.LessOrEqual => against(low)(_ <= 0)
        case Op.Greater => against(high)(_ > 0)
        case Op.GreaterOrEqual => against(high)(_ >= 0)
      }
    }
  }

  /** Every row. */
  val Everything: RowFilter = AllOf(Vector.empty)

  sealed abstract class Op(val text: String)
  object Op {
    case object Equal extends Op("=")
    case object Less extends Op("<")
    case object LessOrEqual extends Op("<=")
    case object Greater extends Op(">")
    case object GreaterOrEqual extends Op(">=")
    val all: Seq[Op] = Seq(Equal, Less, LessOrEqual, Greater, GreaterOrEqual)
  }

  /** How values are ordered; their texts are those of partition values and statistics. */
  sealed abstract class Kind(val text: String) {

    /** Nothing when a text is no value of this kind. */
    def compare(a: String, b: String): Option[Int]
  }

  object Kind {
    case object Integer extends Kind("integer") {
      override def compare(a: String, b: String): Option[Int] =
        Try(BigInt(a).compare(BigInt(b))).toOption
    }
    case object Text extends Kind("text") {
      override def compare(a: String, b: String): Option[Int] =
        Some(Arrays.compareUnsigned(a.getBytes(UTF_8), b.getBytes(UTF_8)))
    }
    case object Date extends Kind("date") {
      override def compare(a: String, b: String): Option[Int] =
        Try(LocalDate.parse(a).compareTo(LocalDate.parse(b))).toOption
    }
    val all: Seq[Kind] = Seq(Integer, Text, Date)
  }

  private sealed trait Nulls
  private object Nulls {
    case object None extends Nulls
    case object All extends Nulls
    case object Unknown extends Nulls
  }

  /** What a file says of the values of one column. */
  private sealed trait Values
  private object Values {
    final case class Same(value: Option[String]) extends Values
    final case class Range(low: Option[String], high: Option[String], nulls: Nulls) extends Values

    def of(file: FileFacts, column: String): Values =
      file.partitionValues.get(column) match {
        // An empty text is how some clients write null.
        case Some(value) => Same(value.filter(_.nonEmpty))
        case None =>
          val stats = file.statistics
          def end(field: String) =
            stats.flatMap(s => Option(s.path(field).get(column))).filter(_.isValueNode)
              .filterNot(_.isNull).map(_.asText)
          Range(end("minValues"), end("maxValues"), nulls(stats, column))
      }

    /** Counts of nulls are exact only while no deletion vector has made the bounds wide. */
    private def nulls(stats: Option[ObjectNode], column: String): Nulls = {
      val counts = for {
        s <- stats
        if s.path("tightBounds").asBoolean(true)
        count <- Option(s.path("nullCount").get(column)).filter(_.isIntegralNumber)
        rows <- Option(s.get("numRecords")).filter(_.isIntegralNumber)
      } yield (count.asLong, rows.asLong)
      counts match {
        case Some((0, _)) => Nulls.None
        case Some((count, rows)) if count == rows => Nulls.All
        case _ => Nulls.Unknown
      }
    }
  }

  def encode(filter: RowFilter): ObjectNode = filter match {
    case AllOf(parts) => list("all", parts)
    case AnyOf(parts) => list("any", parts)
    case Null(column, isNull) => Json.obj().put("column", column).put("null", isNull)
    case Compare(column, kind, op, value) =>
      Json.obj().put("column", column).put("kind", kind.text).put("op", op.text).put("value", value)
  }

  private def list(field: String, parts: Vector[RowFilter]): ObjectNode = {
    val node = Json.obj()
    val array = node.putArray(field)
    parts.foreach(part => array.add(encode(part)))
    node
  }

  /** Nothing for what is no filter, or one that this version does not know. */
  def decode(node: JsonNode): Option[RowFilter] = {
    def parts(field: String): Option[Vector[RowFilter]] = {
      val decoded = node.get(field).elements.asScala.map(decode).toVector
      Option.when(decoded.forall(_.isDefined))(decoded.flatten)
    }
    def text(field: String) = Option(node.get(field)).filter(_.isTextual).map(_.asText)
    if (node.path("all").isArray) parts("all").map(AllOf(_))
    else if (node.path("any").isArray) parts("any").map(AnyOf(_))
    else if (node.path("null").isBoolean)
      text("column").map(Null(_, node.get("null").asBoolean))
    else
      for {
        column <- text("column")
        kind <- text("kind").flatMap(t => Kind.all.find(_.text == t))
        op <- text("op").flatMap(t => Op.all.find(_.text == t))
        value <- text("value")
      } yield Compare(column, kind, op, value)
  }
}

/**
 * One scan of a table.
 *
 * @param files the files that it read, unescaped, when they are few enough to be listed: another
 *   one that somebody removes held nothing of what was read, unless it came later
 */
final case class ReadScan(filter: RowFilter, files: Option[Set[String]]) {

  def mayHold(file: FileFacts): Boolean = files match {
    case Some(read) if file.isRemoved => read(file.plainPath)
    case _ => filter.mayMatch(file)
  }

  /** Where what was read is once somebody has put rows into other files, and changed none. */
  def after(rewritten: Iterable[FileFacts]): ReadScan = files match {
    case Some(read) if rewritten.exists(f => f.isRemoved && read(f.plainPath)) =>
      val now = read ++ rewritten.filter(f => !f.isRemoved && filter.mayMatch(f)).map(_.plainPath)
      copy(files = Option.when(now.size <= ReadSet.MostFiles)(now))
    case _ => this
  }
}

/**
 * What a transaction has read of one table, and so depends on under SERIALIZABLE.
 *
 * @param scans nothing for the whole table
 */
final case class ReadSet(scans: Option[Vector[ReadScan]]) {

  /** Whether a file that others add or remove may hold a row that was read, or would have been. */
  def mayHold(file: FileFacts): Boolean = scans.forall(_.exists(_.mayHold(file)))

  /** See `ReadScan.after`. */
  def after(rewritten: Iterable[FileFacts]): ReadSet =
    copy(scans = scans.map(_.map(_.after(rewritten))))

  def and(other: ReadSet): ReadSet = (scans, other.scans) match {
    case (Some(mine), Some(theirs)) if (mine ++ theirs).distinct.size <= ReadSet.MostScans =>
      ReadSet(Some((mine ++ theirs).distinct))
    case _ => ReadSet.WholeTable
  }
}

object ReadSet {

  /** More scans than this of one table are recorded as the whole table. */
  val MostScans = 64

  /** A scan of more files than this does not name them. */
  val MostFiles = 256

  val WholeTable: ReadSet = ReadSet(None)

  def apply(scan: ReadScan): ReadSet = ReadSet(Some(Vector(scan)))
}
