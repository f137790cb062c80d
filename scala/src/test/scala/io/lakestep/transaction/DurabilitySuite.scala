package io.lakestep.transaction

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.delta.TablePath
import io.lakestep.timeline.{CommitEntry, EntryTable}

/** What is forced to the device before others are told to count on it. */
final class DurabilitySuite extends AnyFunSuite {

  private class Scene {
    val lake: Lake = Lake.inMemory()
    Seq("A", "B").foreach(t => lake.create(t, s"${t.toLowerCase}1"))

    def client(observer: CommitObserver = CommitObserver.Silent): Database =
      lake.client(observer, options = DatabaseOptions())

    def run(db: Database): CommitOutcome = {
      val txn = lake.begin(db)
      lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("a1", Some("dv")), lake.add("a2"))
      lake.stage(txn, "B", 0, lake.add("b2"))
      Seq("A" -> "a2", "B" -> "b2").foreach { case (t, f) => lake.file(t, f) }
      db.commit(txn, Seq("A", "B").map(lake.written(_, 0)))
    }

    def requests: Vector[String] = lake.memory.requests

    /** The place of a request among all. */
    def at(request: String): Int = {
      assert(requests.count(_ == request) == 1, s"$request in\n${requests.mkString("\n")}")
      requests.indexOf(request)
    }
    def slot(table: String): String = TablePath.slot(lake.path(table), 1)
    val entry: String = s"${lake.root}/timeline/00000000000000000001.json"
    val outcome: String = s"${lake.root}/timeline/00000000000000000001.outcome.json"
  }

  test(
    "the files that a transaction made are durable before its order point; older ones are let be"
  ) {
    val s = new Scene
    assert(s.run(s.client()).isInstanceOf[CommitOutcome.Committed])
    val files = Seq(s.lake.path("A") + "/a2", s.lake.path("B") + "/b2")
    files.foreach(f => assert(s.at(s"sync $f") < s.at(s"put ${s.entry}")))
    assert(!s.requests.contains(s"sync ${s.lake.path("A")}/a1"))
    assert(!s.requests.exists(r => r.startsWith("sync") && r.endsWith(".json")))
  }

  test("a helper makes durable what a dead client put, before it builds on that") {
    val s = new Scene
    intercept[Crash](s.run(s.client(new CommitObserver {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") throw new Crash
    })))
    s.lake.memory.requests = Vector.empty
    assert(s.client().recover().failed.isEmpty)
    assert(s.at(s"sync ${s.entry}") < s.at(s"put ${s.slot("B")}"))
    assert(s.at(s"sync ${s.slot("A")}") < s.at(s"put ${s.outcome}"))
    assert(!s.requests.contains(s"sync ${s.slot("B")}"))
  }

  test("a data file that is gone stops COMMIT before anything is ordered") {
    val s = new Scene
    s.lake.memory.failSync = path =>
      if (path.endsWith("/b2")) {
        s.lake.store.delete(path)
        throw new java.io.IOException("no such file")
      }
    val e = intercept[LakestepException](s.run(s.client()))
    assert(e.getCondition == "LAKESTEP_STAGED_FILE_LOST" && !s.lake.store.exists(s.entry))
  }
}
