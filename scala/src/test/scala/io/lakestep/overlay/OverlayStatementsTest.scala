package io.lakestep.overlay

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.Row
import org.scalatest.funsuite.AnyFunSuite

class OverlayStatementsTest extends AnyFunSuite with OverlaySession {

  private def create(properties: String = ""): Path = {
    val table = newTable()
    sql(
      s"CREATE TABLE ${named(table)} (id BIGINT, part STRING, v BIGINT) USING delta " +
        s"PARTITIONED BY (part) $properties"
    )
    sql(s"INSERT INTO ${named(table)} SELECT id, concat('p', id % 2), 0 FROM range(10)")
    table
  }

  private def base(n: Int): Set[Row] = (0 until n).map(i => Row(i.toLong, s"p${i % 2}", 0L)).toSet

  test("append, then update, then read: the transaction sees both, the base neither") {
    val table = create()
    leavesBase(table) {
      val over = overlay(table, head(table))
      sql(s"INSERT INTO ${named(over)} VALUES (10, 'p0', 0)")
      sql(s"UPDATE ${named(over)} SET v = 1 WHERE id >= 9")
      assert(
        rows(over) == base(9) ++ Set(Row(9L, "p1", 1L), Row(10L, "p0", 1L))
      )
      assert(staged(table).values.flatten.toSet ==
        Set("00000000000000000002.json", "00000000000000000003.json"))
    }
  }
}
