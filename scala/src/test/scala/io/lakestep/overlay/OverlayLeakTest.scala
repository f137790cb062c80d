package io.lakestep.overlay

import java.util.{Map => JMap}

import org.apache.hadoop.fs.{AbstractFileSystem, FileSystem, GlobalStorageStatistics, Path}
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.lakestep.ForgettingOverlays
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.NeedsSpark

/** Many transactions leave nothing behind in the JVM, and settings reach what they should. */
@NeedsSpark
class OverlayLeakTest extends AnyFunSuite with OverlaySession {

  private def cached: Int = {
    val cache = classOf[FileSystem].getDeclaredField("CACHE")
    cache.setAccessible(true)
    val map = cache.get(null).getClass.getDeclaredField("map")
    map.setAccessible(true)
    map.get(cache.get(null)).asInstanceOf[JMap[_, _]].size
  }

  private def statistics: Int = {
    var n = 0
    GlobalStorageStatistics.INSTANCE.iterator.forEachRemaining(_ => n += 1)
    val table = classOf[AbstractFileSystem].getDeclaredField("STATISTICS_TABLE")
    table.setAccessible(true)
    n + table.get(null).asInstanceOf[JMap[_, _]].size
  }

  test("60 transactions leave no file system behind") {
    val table = newTable()
    spark.range(1).write.format("delta").save(table.toString)
    def transaction(i: Long): Unit = {
      val over = overlay(table, 0)
      spark.range(i, i + 1).write.format("delta").mode("append").save(over.toString)
      assert(DeltaLog.forTable(spark, over).update().version == 1)
      DeltaLog.invalidateCache(spark, over)
    }
    spark.conf.set("spark.databricks.delta.writeChecksumFile.enabled", false)
    transaction(0)
    val before = (cached, statistics)
    (1L to 60L).foreach(transaction)
    spark.conf.unset("spark.databricks.delta.writeChecksumFile.enabled")
    assert((cached, statistics) == before)
    assert(staged(table).size == 61)
    assert(rows(table).size == 1)
  }

  test("with the checksums of Delta's default, too") {
    val table = newTable()
    spark.range(1).write.format("delta").save(table.toString)
    def transaction(): Unit = {
      val over = overlay(table, 0)
      spark.range(1).write.format("delta").mode("append").save(over.toString)
      DeltaLog.invalidateCache(spark, over)
    }
    transaction()
    val before = (cached, statistics)
    (1 to 3).foreach(_ => transaction())
    assert((cached, statistics) == before)
  }

  for ((how, forget) <- Seq[(String, Seq[Path] => Unit)](
      "at once" -> (ForgettingOverlays.inOnePass(spark, _)),
      "one by one where Delta's cache is another" ->
        (ForgettingOverlays.oneByOne(spark, _))
    )) test(s"overlays leave Delta's cache $how, and no other table does") {
    val tables = Seq.fill(3)(newTable())
    tables.foreach(t => spark.range(1).write.format("delta").save(t.toString))
    val (over, others) = (tables.map(overlay(_, 0)), tables.map(DeltaLog.forTable(spark, _)))
    val logs = over.map(DeltaLog.forTable(spark, _))
    forget(over.take(2))
    over.zip(logs).zipWithIndex.foreach { case ((o, log), i) =>
      assert((DeltaLog.forTable(spark, o) eq log) == (i == 2))
    }
    tables.zip(others).foreach { case (t, log) => assert(DeltaLog.forTable(spark, t) eq log) }
    forget(over)
  }

  test("options of a read reach the base file system") {
    val table = newTable()
    spark.range(5).write.format("delta").save(table.toString)
    val probed = OverlayPath(
      Chain(0, Vector.empty),
      new Path("probe", null, table.toUri.getPath)
    ).toPath
    val read = spark.read
      .format("delta")
      .option("fs.probe.impl", classOf[ProbeFileSystem].getName)
      .option("fs.probe.token", "from the options")
      .load(probed.toString)
    assert(read.count() == 5)
    assert(rows(read).size == 5)
    assert(ProbeFileSystem.token == "from the options")
  }

  test("Delta's own commits to a base table go through our log store and ask the guard") {
    val table = newTable()
    spark.range(1).write.format("delta").save(table.toString)
    BaseWriteGuard.set(path => throw new IllegalStateException(s"refused ${path.getName}"))
    try
      leavesBase(table) {
        val e = intercept[IllegalStateException] {
          spark.range(1, 2).write.format("delta").mode("append").save(table.toString)
        }
        assert(e.getMessage == s"refused ${io.lakestep.log.LogFileName.commitName(1)}")
        val over = overlay(table, 0)
        spark.range(1, 2).write.format("delta").mode("append").save(over.toString)
        assert(rows(over).size == 2)
      }
    finally BaseWriteGuard.set(BaseWriteGuard.AllowAll)
    spark.range(1, 2).write.format("delta").mode("append").save(table.toString)
    assert(rows(table).size == 2)
  }
}
