package io.lakestep.log

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json
import io.lakestep.log.RowFilter._

/** Whether a file may hold rows that were read, by its partition values and statistics. */
final class RowFilterSuite extends AnyFunSuite {

  private def file(partition: Map[String, String] = Map.empty, stats: String = ""): AddFile = {
    val body = Json.obj().put("path", "f").put("size", 1).put("dataChange", true)
    val values = body.putObject("partitionValues")
    partition.foreach { case (k, v) => values.put(k, v) }
    if (stats.nonEmpty) body.put("stats", stats)
    AddFile(body)
  }

  private def integers(low: Long, high: Long, nulls: Long = 0): AddFile = file(stats =
    s"""{"numRecords":9,"minValues":{"c":$low},"maxValues":{"c":$high},"nullCount":{"c":$nulls}}"""
  )

  private def compare(op: Op, value: String, kind: Kind = Kind.Integer) =
    Compare("c", kind, op, value)

  test("every comparison agrees with the values that lie in the range") {
    for {
      op <- Op.all
      value <- -2 to 12
      (low, high) <- Seq((0, 9), (5, 5), (-1, 3))
    } {
      val holds: Int => Boolean = op match {
        case Op.Equal => _ == value
        case Op.Less => _ < value
        case Op.LessOrEqual => _ <= value
        case Op.Greater => _ > value
        case Op.GreaterOrEqual => _ >= value
      }
      val filter = compare(op, value.toString)
      assert(filter.mayMatch(integers(low.toLong, high.toLong)) == (low to high).exists(holds))
    }
  }

  test("numbers are compared as numbers, texts as bytes of UTF-8, dates as dates") {
    assert(!compare(Op.Less, "9").mayMatch(integers(10, 20)))
    def text(low: String, high: String) =
      file(stats = s"""{"minValues":{"c":"$low"},"maxValues":{"c":"$high"}}""")
    assert(!compare(Op.Equal, "9", Kind.Text).mayMatch(text("10", "20")))
    // U+FF5E stands before U+1F600 in UTF-8, and after its surrogates in UTF-16.
    assert(compare(Op.Equal, "\uff5e", Kind.Text).mayMatch(text("a", "\ud83d\ude00")))
    assert(!compare(Op.Greater, "2026-02-01", Kind.Date).mayMatch(text("2026-01-01", "2026-02-01")))
    assert(compare(Op.Less, "+10000-01-01", Kind.Date).mayMatch(text("2026-01-01", "2026-02-01")))
  }

  test("a partition has one value, and null is in no comparison") {
    assert(compare(Op.Equal, "5").mayMatch(file(Map("c" -> "5"))))
    assert(!compare(Op.Equal, "5").mayMatch(file(Map("c" -> "6"))))
    for (none <- Seq(null, "")) {
      assert(!compare(Op.Equal, "5").mayMatch(file(Map("c" -> none))))
      assert(Null("c", isNull = true).mayMatch(file(Map("c" -> none))))
      assert(!Null("c", isNull = false).mayMatch(file(Map("c" -> none))))
    }
    assert(!Null("c", isNull = true).mayMatch(file(Map("c" -> "5"))))
  }

  test("counts of nulls decide only where they are exact") {
    assert(!Null("c", isNull = true).mayMatch(integers(1, 2)))
    assert(!Null("c", isNull = false).mayMatch(integers(1, 2, nulls = 9)))
    assert(!compare(Op.Equal, "1").mayMatch(integers(1, 2, nulls = 9)))
    val wide = file(stats = """{"numRecords":9,"nullCount":{"c":0},"tightBounds":false}""")
    assert(Null("c", isNull = true).mayMatch(wide) && Null("c", isNull = false).mayMatch(wide))
  }

  test("what the file does not say may be so") {
    for (unknown <- Seq(
        file(),
        file(stats = "{"),
        file(stats = "{}"),
        file(stats = """{"minValues":{"c":{"d":1}},"maxValues":{"c":null}}"""),
        file(stats = """{"minValues":{"c":"x"},"maxValues":{"c":"y"}}""")
      ))
      assert(compare(Op.Equal, "5").mayMatch(unknown) && Null("c", isNull = true).mayMatch(unknown))
    assert(compare(Op.Equal, "5").mayMatch(file(stats = """{"minValues":{"c":1}}""")))
    assert(!compare(Op.Equal, "0").mayMatch(file(stats = """{"minValues":{"c":1}}""")))
  }

  test("a filter is read back as it was, and one that is not known is none") {
    val filter = AllOf(Vector(
      AnyOf(Vector(compare(Op.Equal, "1"), Null("ü", isNull = false))),
      compare(Op.Greater, "x", Kind.Text)
    ))
    assert(RowFilter.decode(RowFilter.encode(filter)).contains(filter))
    for (unknown <- Seq(
        """{"none":[]}""",
        """{"all":[{"column":"c"}]}""",
        """{"column":"c","kind":"integer","op":"~","value":"1"}"""
      ))
      assert(RowFilter.decode(Json.parse(unknown)).isEmpty)
  }

  test("a removed file matters only if it was read, where the files that were read are known") {
    val body = Json.obj().put("path", "a%20b").put("dataChange", true)
    val removed = RemoveFile(body)
    assert(ReadScan(Everything, Some(Set("a b"))).mayHold(removed))
    assert(!ReadScan(Everything, Some(Set("c"))).mayHold(removed))
    assert(ReadScan(Everything, None).mayHold(removed))
    assert(ReadScan(Everything, Some(Set("c"))).mayHold(file()))
  }

  test("scans of one table add up, and too many are the whole table") {
    def scan(value: Int) = ReadSet(ReadScan(compare(Op.Equal, value.toString), Some(Set.empty)))
    assert(!scan(1).and(scan(2)).mayHold(integers(3, 3)))
    assert(scan(1).and(scan(2)).mayHold(integers(2, 2)))
    assert((0 to ReadSet.MostScans).map(scan).reduce(_ and _) == ReadSet.WholeTable)
    assert(ReadSet.WholeTable.and(scan(1)) == ReadSet.WholeTable)
  }
}
