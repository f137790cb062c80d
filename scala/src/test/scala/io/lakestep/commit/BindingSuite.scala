package io.lakestep.commit

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.storage.LocalStore

/** One log with two paths is one table; a copy of a log is none. */
final class BindingSuite extends AnyFunSuite {

  private class Scene {
    val folder: Path = Files.createTempDirectory("binding").toRealPath()
    val clock = new ManualClock
    clock.advance(System.currentTimeMillis() + 1000000L)
    val lake = new Lake(new LocalStore(durable = false), clock, folder.toString)
    lake.create("A", "a1")
    val db: Database = lake.client()

    def append(table: String, file: String): CommitOutcome = {
      val txn = lake.begin(db)
      val pin = db.pin(txn, lake.path(table), -1)
      lake.stage(txn, table, pin, lake.add(file))
      db.commit(txn, Seq(lake.written(table, pin)))
    }

    def link(table: String): Unit = {
      Files.createSymbolicLink(folder.resolve(table), folder.resolve("A"))
      ()
    }

    /** As `cp -r`, or as `cp -a`, which keeps the times. */
    def copy(table: String, keepTimes: Boolean): Unit = {
      Files.walk(folder.resolve("A")).forEach { file =>
        val to = folder.resolve(table).resolve(folder.resolve("A").relativize(file))
        if (Files.isDirectory(file)) Files.createDirectories(to) else Files.copy(file, to)
        val time = Files.getLastModifiedTime(file).toMillis - (if (keepTimes) 0L else 5000L)
        Files.setLastModifiedTime(to, java.nio.file.attribute.FileTime.fromMillis(time))
        ()
      }
    }

    def condition(body: => Any): String = intercept[LakestepException] { body; () }.getCondition
  }

  test("one table under two names in one transaction is refused, and nothing is ordered") {
    val s = new Scene
    s.link("alias")
    val txn = s.lake.begin(s.db)
    Seq("A", "alias").foreach { t =>
      assert(s.db.pin(txn, s.lake.path(t), -1) == 0)
      if (t == "A") s.lake.stage(txn, t, 0, s.lake.add("x"))
    }
    val both = Seq("A", "alias").map(s.lake.written(_, 0).copy(stagedTo = 1))
    assert(s.condition(s.db.commit(txn, both)) == "LAKESTEP_TABLE_TWICE")
    assert(s.db.timeline.refresh().next == 1)
  }

  test("one table under another name in each transaction is one table") {
    val s = new Scene
    s.append("A", "x")
    s.link("alias")
    s.append("alias", "y") match {
      case CommitOutcome.Committed(entry, _, _, _, _, _) =>
        assert(entry.tables.head.log == s.lake.entry(1).tables.head.log)
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == Set("a1", "x", "y"))
  }

  /** Whether the alias can be read while A changes after each of the first listings of its log. */
  private def isAliasOf(changes: Int)(change: (Lake, Int) => Any): Boolean = {
    val s = new Scene
    s.append("A", "x")
    (1 to 8).foreach(i => s.lake.foreign("A", s.lake.add(s"before$i")))
    s.link("alias")
    val listings = new java.util.concurrent.atomic.AtomicInteger
    val log = s.lake.path("A").log
    val store = new LocalStore(durable = false)
    val busy = new io.lakestep.storage.ObjectStore {
      override def putIfAbsent(path: String, bytes: Array[Byte]) = store.putIfAbsent(path, bytes)
      override def get(path: String) = store.get(path)
      override def exists(path: String) = store.exists(path)
      override def folders(dir: String) = store.folders(dir)
      override def delete(path: String): Unit = store.delete(path)
      override def deleteFolder(dir: String): Unit = store.deleteFolder(dir)
      override def sync(path: String): Boolean = store.sync(path)
      override def force(path: String): Unit = store.force(path)
      override def list(dir: String, from: String) = {
        val found = store.list(dir, from)
        val count = if (dir == log) listings.getAndIncrement() else changes
        if (count < changes) { change(s.lake, count); () }
        found
      }
    }
    val other = new Lake(busy, s.clock, s.folder.toString)
    val db = other.client()
    val txn = other.begin(db, readOnly = true)
    db.pin(txn, other.path("alias"), -1) >= 1
  }

  test("an alias of a table that is being written is no copy") {
    assert(isAliasOf(changes = 3)((lake, _) => lake.foreign("A", lake.add("f"))))
  }

  test("an alias of a table whose log is being cleaned up is no copy") {
    assert(isAliasOf(changes = 6) { (lake, count) =>
      lake.store.delete(lake.path("A").slot(count.toLong))
    })
  }

  test("a copied folder is refused for reading and for writing, also when it kept its times") {
    val s = new Scene
    s.append("A", "x")
    s.copy("B", keepTimes = false)
    assert(s.condition(s.append("B", "y")) == "LAKESTEP_TABLE_IS_A_COPY")
    s.copy("C", keepTimes = true)
    val txn = s.lake.begin(s.db)
    s.lake.stage(txn, "C", 1, s.lake.add("y"))
    assert(s.condition(s.db.commit(txn, Seq(s.lake.written("C", 1)))) == "LAKESTEP_TABLE_IS_A_COPY")
    s.append("A", "z")
    assert(s.condition(s.lake.client().pin(
      s.lake.begin(s.db),
      s.lake.path("C"),
      -1
    )) == "LAKESTEP_TABLE_IS_A_COPY")
    assert(s.lake.live("A") == Set("a1", "x", "z"))
  }

  test("a folder that was moved stays the table that it was") {
    val s = new Scene
    s.append("A", "x")
    Files.move(s.folder.resolve("A"), s.folder.resolve("moved"))
    assert(s.append("moved", "y").isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("moved") == Set("a1", "x", "y"))
  }

  test("a damaged binding is named") {
    val s = new Scene
    s.lake.store.putIfAbsent(s.lake.path("A").binding, "{}".getBytes)
    assert(s.condition(s.append("A", "x")) == "LAKESTEP_TIMELINE_CORRUPT")
  }
}
