package io.lakestep.overlay

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.Row
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.NeedsSpark
import io.lakestep.log.LogFileName

/** Delta's own statements on an overlay do what they do on a plain table, and leave the base be. */
@NeedsSpark
class OverlayStatementsTest extends AnyFunSuite with OverlaySession {

  private val richest =
    "delta.enableDeletionVectors=true, delta.enableRowTracking=true, " +
      "delta.enableInCommitTimestamps=true, delta.enableChangeDataFeed=true, " +
      "delta.columnMapping.mode=name"

  private def create(properties: String = ""): Path = {
    val table = newTable()
    val described = properties.split(", ").filter(_.nonEmpty).map { p =>
      s"'${p.takeWhile(_ != '=')}'='${p.dropWhile(_ != '=').drop(1)}'"
    }
    sql(
      s"CREATE TABLE ${named(table)} (id BIGINT, part STRING, v BIGINT) USING delta " +
        "PARTITIONED BY (part)" +
        (if (described.isEmpty) "" else described.mkString(" TBLPROPERTIES (", ", ", ")"))
    )
    sql(s"INSERT INTO ${named(table)} SELECT id, concat('p', id % 2), 0 FROM range(10)")
    table
  }

  /** In this order, each on top of the ones before. */
  private val statements: Seq[(String, Path => Any)] = Seq(
    "append" -> (t => sql(s"INSERT INTO ${named(t)} VALUES (10, 'p0', 0), (11, 'p2', 0)")),
    "UPDATE" -> (t => sql(s"UPDATE ${named(t)} SET v = v + 1 WHERE id >= 8")),
    "DELETE" -> (t => sql(s"DELETE FROM ${named(t)} WHERE id IN (0, 10)")),
    "MERGE" -> { t =>
      sql(
        s"MERGE INTO ${named(t)} t USING (SELECT id, id % 2 AS part FROM range(1, 14)) s " +
          "ON t.id = s.id WHEN MATCHED AND t.id < 3 THEN DELETE " +
          "WHEN MATCHED THEN UPDATE SET v = 7 " +
          "WHEN NOT MATCHED THEN INSERT (id, part, v) VALUES (s.id, concat('q', s.part), 9)"
      )
    },
    "ALTER TABLE ADD COLUMN" -> (t => sql(s"ALTER TABLE ${named(t)} ADD COLUMN w STRING")),
    "append with the new column" -> { t =>
      spark
        .sql("SELECT 20L AS id, 'p0' AS part, 1L AS v, 'new' AS w")
        .write
        .format("delta")
        .mode("append")
        .save(t.toString)
    },
    "OPTIMIZE" -> (t => sql(s"OPTIMIZE ${named(t)}")),
    "replaceWhere" -> { t =>
      spark
        .sql("SELECT 21L AS id, 'p0' AS part, 1L AS v, 'r' AS w")
        .write
        .format("delta")
        .mode("overwrite")
        .option("replaceWhere", "part = 'p0'")
        .save(t.toString)
    },
    "SET TBLPROPERTIES" -> (t => sql(s"ALTER TABLE ${named(t)} SET TBLPROPERTIES ('a'='b')")),
    "overwrite" -> { t =>
      spark
        .sql("SELECT id, 'p5' AS part, id AS v, 'o' AS w FROM range(5)")
        .write
        .format("delta")
        .mode("overwrite")
        .save(t.toString)
    },
    "DELETE after overwrite" -> (t => sql(s"DELETE FROM ${named(t)} WHERE id = 2"))
  )

  for ((feature, properties) <- Seq("plain" -> "", "with every feature" -> richest))
    test(s"every statement on an overlay does what it does on a table that is $feature") {
      val table = create(properties)
      val twin = create(properties)
      val pin = head(table)
      val over = overlay(table, pin)
      // As a session sets it while it stages; the plain table shows that the default does as well.
      spark.conf.set("spark.databricks.delta.writeChecksumFile.enabled", properties.isEmpty)
      leavesBase(table) {
        for ((name, run) <- statements) withClue(s"$name: ") {
          run(over)
          run(twin)
          assert(rows(over) == rows(twin))
        }
        assert(head(over) == head(twin))
        val here = DeltaLog.forTable(spark, over).update()
        val there = DeltaLog.forTable(spark, twin).update()
        assert(
          here.schema.map(f => (f.name, f.dataType, f.nullable)) ==
            there.schema.map(f => (f.name, f.dataType, f.nullable))
        )
        def settings(s: Snapshot) =
          s.metadata.configuration.filterNot(_._1.startsWith("delta.rowTracking.material"))
        assert(settings(here) == settings(there))
        assert(here.protocol == there.protocol)
        assert(head(over) >= 10, "a checkpoint fell due")
        assert(
          staged(table).values.toVector ==
            Vector((pin + 1 to head(over)).map(LogFileName.commitName).toVector),
          "nothing but commits is staged"
        )

        def history(t: Path) = sql(s"DESCRIBE HISTORY ${named(t)}")
          .selectExpr("version", "operation")
          .collect()
          .toVector
        assert(history(over) == history(twin))
        for (version <- Seq(pin, pin + 4)) withClue(s"version $version: ") {
          def at(t: Path) = rows(sql(s"SELECT * FROM ${named(t)} VERSION AS OF $version"))
          assert(at(over) == at(twin))
        }

        DeltaLog.clearCache()
        assert(rows(over) == rows(twin), "by a session that opens the overlay anew")

        sql(s"RESTORE TABLE ${named(over)} TO VERSION AS OF 3")
        sql(s"RESTORE TABLE ${named(twin)} TO VERSION AS OF 3")
        assert(rows(over) == rows(twin))
        sql(s"INSERT INTO ${named(over)} (id, part, v) VALUES (30, 'p9', 0)")
        sql(s"INSERT INTO ${named(twin)} (id, part, v) VALUES (30, 'p9', 0)")
        assert(rows(over) == rows(twin))
        if (properties.nonEmpty) {
          def changes(t: Path) = rows(
            spark.read
              .format("delta")
              .option("readChangeFeed", "true")
              .option("startingVersion", pin + 1)
              .option("endingVersion", pin + 4)
              .load(t.toString)
              .selectExpr("id", "part", "v", "_change_type", "_commit_version")
          )
          assert(changes(over) == changes(twin))
        }
      }
      spark.conf.unset("spark.databricks.delta.writeChecksumFile.enabled")
    }

  test("a failing statement stages nothing") {
    val table = create()
    leavesBase(table) {
      val over = overlay(table, head(table))
      intercept[Exception](sql(s"INSERT INTO ${named(over)} SELECT raise_error('x'), 'p', 1"))
      assert(staged(table).isEmpty)
      assert(rows(over) == rows(table))
    }
  }

  test("two transactions on one table do not see each other") {
    val table = create()
    val pin = head(table)
    val (one, two) = (overlay(table, pin), overlay(table, pin))
    leavesBase(table) {
      sql(s"INSERT INTO ${named(one)} VALUES (100, 'p0', 0)")
      sql(s"DELETE FROM ${named(two)}")
      assert(rows(one) == rows(table) + Row(100L, "p0", 0L))
      assert(rows(two).isEmpty)
    }
  }

  test("a later segment continues an earlier one") {
    val table = create()
    val pin = head(table)
    leavesBase(table) {
      val branch = newSegment()
      val first = overlay(table, pin, branch)
      sql(s"INSERT INTO ${named(first)} VALUES (100, 'p0', 0)")
      val second = OverlayPath(Chain(pin, Vector(branch, newSegment())), table).toPath
      assert(rows(second) == rows(first))
      sql(s"UPDATE ${named(second)} SET v = 1 WHERE id = 100")
      assert(rows(second) == rows(table) + Row(100L, "p0", 1L))
      assert(rows(first) == rows(table) + Row(100L, "p0", 0L))
    }
  }

  test("a table that does not exist yet is seen by its transaction alone") {
    val table = newTable()
    val over = overlay(table, -1)
    spark.range(3).write.format("delta").save(over.toString)
    sql(s"INSERT INTO ${named(over)} VALUES (3)")
    assert(rows(over).map(_.getLong(0)) == Set(0L, 1L, 2L, 3L))
    assert(logFiles(table).keySet == Set(""), "only our own folder is in the log")
    assert(!DeltaLog.forTable(spark, table).tableExists)
    val other = overlay(table, -1)
    val fs = other.getFileSystem(spark.sessionState.newHadoopConf())
    assert(!fs.exists(new Path(other, "_delta_log")))
    assert(!fs.listStatus(other).exists(_.getPath.getName == "_delta_log"))
  }
}
