package io.lakestep.overlay

import java.nio.file.{Files, Path => JPath}
import java.nio.file.attribute.FileTime
import java.util.concurrent.TimeUnit

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.Row
import org.apache.spark.sql.delta.DeltaLog
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{LakestepException, NeedsSpark}
import io.lakestep.log.LogFileName

/** What an overlay shows of a base log, and what it hides. */
@NeedsSpark
class OverlayViewTest extends AnyFunSuite with OverlaySession {

  private def append(table: Path, id: Long): Unit =
    spark.range(id, id + 1).write.format("delta").mode("append").save(table.toString)

  private def ids(path: Path): Set[Long] = rows(path).map(_.getLong(0))

  private def checkpoint(table: Path): Unit = {
    val log = DeltaLog.forTable(spark, table)
    log.checkpoint(log.update(), None)
  }

  private def withSetting[A](key: String, value: String)(body: => A): A = {
    spark.conf.set(key, value)
    try body
    finally spark.conf.unset(key)
  }

  private val forms = Seq(
    ("classic", "classic", None),
    ("multi-part", "classic", Some("2")),
    ("v2 with JSON", "v2", None),
    ("v2 with Parquet", "v2", Some("2"))
  )

  for ((form, policy, partSize) <- forms)
    test(
      s"foreign commits and $form checkpoints above the pin are invisible, those below are used"
    ) {
      val table = newTable()
      sql(
        s"CREATE TABLE ${named(table)} (id BIGINT) USING delta TBLPROPERTIES " +
          s"('delta.checkpointInterval'='4', 'delta.checkpointPolicy'='$policy')"
      )
      def run(): Unit = (0L until 9L).foreach(append(table, _))
      withSetting(
        "spark.databricks.delta.checkpointV2.topLevelFileFormat",
        if (form.endsWith("Parquet")) "parquet" else "json"
      ) {
        partSize.fold(run()) { size =>
          withSetting("spark.databricks.delta.checkpoint.partSize", size)(run())
        }
      }
      DeltaLog.clearCache()
      assert(head(table) == 9)
      leavesBase(table) {
        for (pin <- Seq(2L, 4L, 6L)) withClue(s"pin $pin: ") {
          val over = overlay(table, pin)
          val log = new Path(over, "_delta_log")
          val fs = over.getFileSystem(spark.sessionState.newHadoopConf())
          val shown = fs.listStatus(log).map(_.getPath.getName)
          val versions = shown.filter(_.head.isDigit).map(_.takeWhile(_.isDigit).toLong)
          assert(versions.max == pin)
          assert(!shown.contains("_lakestep"))
          assert(!fs.exists(new Path(log, "_last_checkpoint")), "it names version 8")
          assert(!fs.exists(new Path(log, LogFileName.commitName(pin + 1))))
          assert(!fs.exists(new Path(log, f"${pin + 1}%020d.crc")))

          assert(ids(over) == (0L until pin).toSet)
          val snapshot = DeltaLog.forTable(spark, over).update()
          assert(snapshot.version == pin)
          assert(snapshot.logSegment.checkpointProvider.version == (if (pin < 4) -1 else 4))
          append(over, 100)
          assert(ids(over) == (0L until pin).toSet + 100L)
        }
        val over = overlay(table, 9)
        val fs = over.getFileSystem(spark.sessionState.newHadoopConf())
        val hint = new Path(over, "_delta_log/_last_checkpoint")
        assert(fs.exists(hint))
        val in = fs.open(hint)
        try assert(new String(in.readAllBytes()).contains("\"version\":8"))
        finally in.close()
        assert(ids(over) == (0L until 9L).toSet)
      }
    }

  test("foreign commits that land while a transaction is open stay invisible to it") {
    val table = newTable()
    append(table, 0)
    val over = overlay(table, 0)
    append(over, 10)
    (1L to 12L).foreach(append(table, _))
    append(over, 11)
    DeltaLog.forTable(spark, over).update()
    assert(ids(over) == Set(0L, 10L, 11L))
    assert(ids(table) == (0L to 12L).toSet)
  }

  test("files compacted from the log are shown up to the pin only") {
    val table = newTable()
    (0L to 3L).foreach(append(table, _))
    val log = JPath.of(new Path(table, "_delta_log").toUri.getPath)
    def compact(from: Long, to: Long): Unit =
      Files.write(log.resolve(f"$from%020d.$to%020d.compacted.json"), Array.emptyByteArray)
    compact(0, 1)
    compact(1, 3)
    val over = overlay(table, 2)
    val fs = over.getFileSystem(spark.sessionState.newHadoopConf())
    val shown = fs.listStatus(new Path(over, "_delta_log")).map(_.getPath.getName)
    assert(
      shown.filter(_.contains("compacted")).toSeq == Seq(f"${0}%020d.${1}%020d.compacted.json")
    )
  }

  test("a chain without segments shows a version for ever and refuses every change") {
    val table = newTable()
    (0L to 2L).foreach(append(table, _))
    leavesBase(table) {
      val fixed = OverlayPath(Chain(1, Vector.empty), table).toPath
      assert(ids(fixed) == Set(0L, 1L))
      val statements = Seq(
        s"INSERT INTO ${named(fixed)} VALUES (5)",
        s"DELETE FROM ${named(fixed)} WHERE id = 0",
        s"ALTER TABLE ${named(fixed)} ADD COLUMN x INT"
      )
      for (statement <- statements) withClue(statement) {
        val thrown = intercept[Exception](sql(statement))
        val causes = Iterator.iterate[Throwable](thrown)(_.getCause).takeWhile(_ != null).toVector
        assert(
          causes.exists {
            case e: LakestepException => e.getCondition == "LAKESTEP_OVERLAY_READ_ONLY"
            case e => String.valueOf(e.getMessage).contains("LAKESTEP_OVERLAY_READ_ONLY")
          },
          thrown
        )
      }
      assert(staged(table).isEmpty)
    }
  }

  test("log clean-up through an overlay removes nothing from the base") {
    def create() = {
      val table = newTable()
      sql(
        s"CREATE TABLE ${named(table)} (id BIGINT) USING delta TBLPROPERTIES " +
          "('delta.checkpointInterval'='4', 'delta.logRetentionDuration'='interval 7 days')"
      )
      (0L until 9L).foreach(append(table, _))
      val old = FileTime.fromMillis(System.currentTimeMillis() - TimeUnit.DAYS.toMillis(60))
      val log = JPath.of(new Path(table, "_delta_log").toUri.getPath)
      log.toFile.listFiles.filter(_.isFile).foreach(f => Files.setLastModifiedTime(f.toPath, old))
      table
    }
    val twin = create()
    checkpoint(twin)
    assert(!logFiles(twin).contains(LogFileName.commitName(0)), "on a plain table it does remove")

    val table = create()
    leavesBase(table) {
      val over = overlay(table, head(table))
      checkpoint(over)
      append(over, 100)
      checkpoint(over)
      DeltaLog.clearCache()
      assert(ids(over) == (0L until 9L).toSet + 100L)
      assert(staged(table).values.flatten.toSeq == Seq(LogFileName.commitName(10)))
    }
  }

  test("paths and partition values keep their special characters") {
    val values = Seq("a b", "%", "%20", "a/b", "a:b", "é日本", "=", "#", "?", "+", "&;@!$'()*~")
    def write(path: Path, ids: Seq[(Long, String)]): Unit =
      spark
        .createDataFrame(ids)
        .toDF("id", "part")
        .write
        .format("delta")
        .partitionBy("part")
        .mode("append")
        .save(path.toString)
    for (name <- Seq("a b%20c%+#?&=;@ 日本é", "%25%2F")) withClue(name) {
      val table = new Path("file", null, folder.resolve(name).toString)
      write(table, values.zipWithIndex.map { case (v, i) => (i.toLong, v) })
      leavesBase(table) {
        val over = overlay(table, head(table))
        write(over, values.zipWithIndex.map { case (v, i) => (100L + i, v) })
        val expected = values.zipWithIndex.flatMap { case (v, i) =>
          Seq(Row(i.toLong, v), Row(100L + i, v))
        }.toSet
        assert(rows(over) == expected)
        import org.apache.spark.sql.functions.col
        io.delta.tables.DeltaTable.forPath(spark, over.toString).delete(col("id") < 100)
        DeltaLog.clearCache()
        assert(rows(over) == expected.filter(_.getLong(0) >= 100))
        assert(
          DeltaLog.forTable(spark, over).update().allFiles.collect().forall { file =>
            !file.path.contains("lakestep") && !file.path.startsWith("/")
          }
        )
      }
    }
  }
}
