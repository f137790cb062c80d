package io.lakestep.overlay

import java.io.FileNotFoundException
import java.nio.file.{FileAlreadyExistsException, Files, Path => JPath}
import java.util.concurrent.{CyclicBarrier, Executors, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import io.delta.storage.LogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.SparkConf
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LakestepException}
import io.lakestep.log.{CommitInfo, CommitMark, LogFileName, MarkKind, TableLog}

/** Both log stores by themselves: what Delta asks of `io.delta.storage.LogStore`. */
class OverlayLogStoreTest extends AnyFunSuite {

  private val conf = new Configuration
  OverlaySettings.install(new SparkConf(false), conf)

  private def newTable(): Path = {
    val folder = Files.createTempDirectory("overlay-store")
    val log = Files.createDirectory(folder.resolve("_delta_log"))
    (0L to 2L).foreach(v => Files.writeString(log.resolve(LogFileName.commitName(v)), s"base $v\n"))
    new Path(folder.toUri)
  }

  private def commit(table: Path, version: Long) =
    new Path(table, "_delta_log/" + LogFileName.commitName(version))

  /** A line of a log, as Delta writes it. */
  private def line(text: String): String = s"""{"commitInfo":{"operation":"$text"}}"""

  private def write(store: LogStore, path: Path, overwrite: Boolean, lines: String*): Unit =
    store.write(path, lines.iterator.asJava, overwrite, conf)

  private def read(store: LogStore, path: Path): Seq[String] = {
    val lines = store.read(path, conf)
    try lines.asScala.toVector
    finally lines.close()
  }

  /** How many of 8 threads that start together create the file. */
  private def winners(store: LogStore, path: Path): Int = {
    val (won, lost) = (new AtomicInteger, new AtomicInteger)
    val start = new CyclicBarrier(8)
    val pool = Executors.newFixedThreadPool(8)
    (1 to 8).foreach { i =>
      pool.execute { () =>
        start.await()
        try {
          write(store, path, overwrite = false, line(s"writer $i"))
          won.incrementAndGet()
        } catch { case _: FileAlreadyExistsException => lost.incrementAndGet() }
        ()
      }
    }
    pool.shutdown()
    assert(pool.awaitTermination(1, TimeUnit.MINUTES))
    assert(won.get + lost.get == 8)
    won.get
  }

  test("a staged commit is created once, in the last segment, and read back") {
    val table = newTable()
    val over = OverlayPath(Chain(1, Vector("branch", "t1")), table).toPath
    val store = new OverlayLogStore(conf)
    assert(winners(store, commit(over, 2)) == 1)
    assert(read(store, commit(over, 2)).head.contains("writer"))
    val physical = StagingFolder.commit(table, "t1", 2)
    assert(Files.exists(JPath.of(physical.toUri.getPath)))
    assert(store.resolvePathOnPhysicalStorage(commit(over, 2), conf) == physical)
    assert(store.resolvePathOnPhysicalStorage(new Path(over, "x y"), conf) == new Path(
      table,
      "x y"
    ))
    assert(!store.isPartialWriteVisible(commit(over, 2), conf))
    assert(read(store, commit(table, 2)) == Seq("base 2"), "the base's version 2 is another")
    assert(
      store.listFrom(commit(over, 1), conf).asScala.map(_.getPath).toSeq ==
        Seq(commit(over, 1), commit(over, 2))
    )
  }

  test("a listing from a name on is that of Hadoop, of the base as of the overlay") {
    val folder = Files.createTempDirectory("listed ä:1%+")
    val log = Files.createDirectory(folder.resolve("_delta_log"))
    def name(version: Long) = f"$version%020d"
    val files = (0L to 12L).flatMap(v => Seq(s"${name(v)}.json", s"${name(v)}.crc")) :+
      s"${name(10)}.checkpoint.parquet"
    files.foreach(f => Files.writeString(log.resolve(f), f))
    Files.createSymbolicLink(log.resolve(s"${name(13)}.json"), log.resolve(s"${name(12)}.json"))
    Files.createDirectories(log.resolve("_sidecars"))
    Files.writeString(log.resolve(s".${name(0)}.json.crc"), "of Hadoop")
    val table = new Path(folder.toUri)
    val fs = table.getFileSystem(conf)
    val base = new Path(table, "_delta_log")
    val hadoop = fs.listStatus(base).filter(_.isFile).sortBy(_.getPath.getName).toSeq
    def seen(s: FileStatus) = (s.getPath, s.getLen, s.getModificationTime, s.isFile)
    for (from <- Seq(name(0), s"${name(10)}.", s"${name(12)}.json", s"${name(14)}.")) {
      val listed = new BaseLogStore(conf).listFrom(new Path(base, from), conf).asScala.toSeq
      assert(listed.filter(_.isFile).map(seen) ==
        hadoop.filter(_.getPath.getName >= from).map(seen))
    }
    assert(LogListing(fs, base, s"${name(14)}.").isEmpty)
    val over = OverlayPath(Chain(11, Vector("t1")), table).toPath
    val store = new OverlayLogStore(conf)
    write(store, commit(over, 12), overwrite = false, line("staged"))
    def shown(from: String) =
      store.listFrom(new Path(over, s"_delta_log/$from"), conf).asScala.toSeq
    assert(shown(s"${name(10)}.").map(_.getPath.getName) == files.sorted.filter { f =>
      f >= s"${name(10)}." && f < name(12)
    } :+ s"${name(12)}.json")
    assert(shown(s"${name(12)}.").map(seen) ==
      Seq(seen(over.getFileSystem(conf).getFileStatus(commit(over, 12)))))
    assert(shown(s"${name(13)}.").isEmpty)
    val gone = new Path(new Path(folder.resolve("gone").toUri), "_delta_log/0")
    intercept[FileNotFoundException](new BaseLogStore(conf).listFrom(gone, conf))
  }

  test("a version of the base or of an earlier segment exists already") {
    val table = newTable()
    val store = new OverlayLogStore(conf)
    write(store, commit(OverlayPath(Chain(1, Vector("b")), table).toPath, 2), false, line("branch"))
    val over = OverlayPath(Chain(1, Vector("b", "t1")), table).toPath
    for (version <- Seq(0L, 1L, 2L))
      intercept[FileAlreadyExistsException](write(store, commit(over, version), false, line("x")))
    write(store, commit(over, 3), overwrite = false, line("x"))
    assert(read(store, commit(over, 2)) == Seq(line("branch")))
  }

  test("hints are taken and forgotten; a commit is never replaced") {
    val table = newTable()
    val store = new OverlayLogStore(conf)
    val over = OverlayPath(Chain(2, Vector("t1")), table).toPath
    write(store, new Path(over, "_delta_log/_last_checkpoint"), overwrite = true, "x")
    write(store, commit(over, 3), overwrite = false, line("x"))
    val e = intercept[LakestepException](write(store, commit(over, 3), overwrite = true, "y"))
    assert(e.getCondition == "LAKESTEP_OVERLAY_CHANGE_REFUSED")
    val fixed = OverlayPath(Chain(2, Vector.empty), table).toPath
    val f = intercept[LakestepException](write(store, commit(fixed, 3), overwrite = false, "y"))
    assert(f.getCondition == "LAKESTEP_OVERLAY_READ_ONLY")
    assert(read(store, commit(over, 3)) == Seq(line("x")))
    val log = JPath.of(new Path(table, "_delta_log").toUri.getPath)
    assert(!Files.exists(log.resolve("_last_checkpoint")))
  }

  test("a commit to a base table is created once, and not at all where the guard refuses") {
    val table = newTable()
    val store = new BaseLogStore(conf)
    assert(winners(store, commit(table, 3)) == 1)
    val log = JPath.of(new Path(table, "_delta_log").toUri.getPath)
    assert(log.toFile.list.forall(n => !n.contains("tmp")))
    BaseWriteGuard.set(path => throw new IllegalStateException(path.getName))
    try {
      val e = intercept[IllegalStateException](write(store, commit(table, 4), false, "x"))
      assert(e.getMessage == LogFileName.commitName(4))
      assert(!Files.exists(log.resolve(LogFileName.commitName(4))))
      write(store, new Path(table, "_delta_log/_last_checkpoint"), overwrite = true, "hint")
    } finally BaseWriteGuard.set(BaseWriteGuard.AllowAll)
    assert(read(store, new Path(table, "_delta_log/_last_checkpoint")) == Seq("hint"))
    val gone = new Path(newTable(), "gone")
    intercept[java.io.FileNotFoundException](write(store, commit(gone, 0), false, "x"))
  }

  test("a commit that meets a fence from after its statement began is told so") {
    val (table, store) = (newTable(), new BaseLogStore(conf))
    val mark = CommitMark("f" * 32, 1, "t1", 0, 0, 1, MarkKind.Reserve)
    val fence = CommitInfo(Json.obj().set[ObjectNode](CommitMark.Field, mark.encode))
    write(store, commit(table, 3), false, "{}")
    intercept[FileAlreadyExistsException](write(store, commit(table, 3), false, "x"))
    val log = JPath.of(new Path(table, "_delta_log").toUri.getPath)
    val foreign = CommitInfo(Json.obj().put("operation", "WRITE"))
    Files.write(log.resolve(LogFileName.commitName(3)), TableLog.text(Seq(foreign)))
    Files.write(log.resolve(LogFileName.commitName(4)), TableLog.text(Seq(fence)))
    for (version <- Seq(3L, 4L)) {
      val e = intercept[LakestepException](write(store, commit(table, version), false, "x"))
      assert(e.getCondition == "LAKESTEP_TABLE_RESERVED")
    }
    write(store, commit(table, 5), false, "x")
  }

  test("settings of the user stay, and a log store for every path is refused") {
    val (spark, hadoop) = (new SparkConf(false), new Configuration(false))
    spark.set("spark.delta.logStore.file.impl", "mine").set("delta.logStore.lakestep.impl", "mine")
    hadoop.set("fs.lakestep.impl", "mine")
    OverlaySettings.install(spark, hadoop)
    assert(spark.get("spark.delta.logStore.file.impl") == "mine")
    assert(!spark.contains("spark.delta.logStore.lakestep.impl"))
    assert(hadoop.get("fs.lakestep.impl") == "mine")
    assert(hadoop.getBoolean("fs.lakestep.impl.disable.cache", false))
    assert(BaseLogStore.others(spark) == Map("file" -> "mine"))

    val fresh = new SparkConf(false)
    OverlaySettings.install(fresh, new Configuration(false))
    OverlaySettings.install(fresh, new Configuration(false))
    assert(BaseLogStore.others(fresh).isEmpty)

    val whole = new SparkConf(false).set("spark.delta.logStore.class", "mine")
    val e = intercept[LakestepException](OverlaySettings.install(whole, new Configuration(false)))
    assert(e.getCondition == "LAKESTEP_LOG_STORE_CLASS_CONFLICT")
    assert(whole.getAll.length == 1)
  }
}
