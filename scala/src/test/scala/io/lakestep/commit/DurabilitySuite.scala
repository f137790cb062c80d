package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.log.TableRef
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{CommitEntry, EntryTable}

/** What is forced to the device before others are told to count on it. */
final class DurabilitySuite extends AnyFunSuite {

  private class Scene {
    val lake: Lake = Lake.inMemory()
    Seq("A", "B").foreach(t => lake.create(t, s"${t.toLowerCase}1"))

    def client(observer: CommitSteps = CommitSteps.Silent): Database =
      lake.client(observer, options = DatabaseOptions())

    var id = ""
    var files: Seq[(String, String)] = Seq("A" -> "a2", "B" -> "b2")

    def run(db: Database): CommitOutcome = {
      val txn = lake.begin(db)
      id = txn.id
      lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("a1", Some("dv")), lake.add("a2"))
      lake.stage(txn, "B", 0, lake.add("b2"))
      files.foreach { case (t, f) => lake.file(t, f) }
      db.commit(txn, Seq("A", "B").map(lake.written(_, 0)))
    }

    def requests: Vector[String] = lake.memory.requests

    /** The place of a request among all. */
    def at(request: String): Int = {
      assert(requests.count(_ == request) == 1, s"$request in\n${requests.mkString("\n")}")
      requests.indexOf(request)
    }
    def slot(table: String): String = lake.path(table).slot(1)
    val entry: String = s"${lake.root}/timeline/00000000000000000001.json"
    val outcome: String = s"${lake.root}/timeline/00000000000000000001.outcome.json"
  }

  test(
    "the files that a transaction made are durable before its order point; older ones are let be"
  ) {
    val s = new Scene
    assert(s.run(s.client()).isInstanceOf[CommitOutcome.Committed])
    val files = Seq(s.lake.path("A").dataFile("a2"), s.lake.path("B").dataFile("b2"))
    files.foreach(f => assert(s.at(s"sync $f") < s.at(s"put ${s.entry}")))
    assert(!s.requests.contains(s"sync ${s.lake.path("A")}/a1"))
    // What this client has put itself is durable by that; what it builds on is that of others.
    val theirs = Set("A", "B").map(s.lake.path)
      .flatMap(p => Set(TableRef(p.uri).binding, TableRef(p.uri).slot(0)))
    val synced = s.requests.filter(r => r.startsWith("sync") && r.endsWith(".json")).map(_.drop(5))
    assert(synced.toSet == theirs)
    assert(s.at(s"sync ${s.lake.path("A").slot(0)}") < s.at(s"put ${s.entry}"))
  }

  test("the folders that hold the names of new partitions are durable before the order point") {
    val s = new Scene
    s.files = Seq("A" -> "a2", "B" -> "b2", "B" -> "p=1/q=2/b3")
    val db = s.client()
    val txn = s.lake.begin(db)
    s.lake.stage(txn, "B", 0, s.lake.add("b2"), s.lake.add("p=1/q=2/b3"))
    s.files.foreach { case (t, f) => s.lake.file(t, f) }
    assert(db.commit(txn, Seq(s.lake.written("B", 0))).isInstanceOf[CommitOutcome.Committed])
    val table = s.lake.path("B")
    for (folder <- Seq(s"$table/p=1", table.uri))
      assert(s.at(s"sync $folder") < s.at(s"put ${s.entry}"))
    assert(!s.requests.contains(s"sync $table/p=1/q=2"))
  }

  test("a helper makes durable what a dead client put, before it builds on that") {
    val s = new Scene
    intercept[Crash](s.run(s.client(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") throw new Crash
    })))
    s.lake.memory.requests = Vector.empty
    assert(s.client().recover().failed.isEmpty)
    assert(s.at(s"sync ${s.entry}") < s.at(s"put ${s.slot("B")}"))
    assert(s.at(s"sync ${s.slot("A")}") < s.at(s"put ${s.outcome}"))
    assert(!s.requests.contains(s"sync ${s.slot("B")}"))
  }

  test("a file whose put had no answer is durable before it counts") {
    for ((isIt, next) <- Seq[(String => Boolean, Scene => String)](
        (_.contains("/commit-"), s => s"put ${s.entry}"),
        (_.endsWith("/timeline/00000000000000000001.json"), s => s"put ${s.slot("A")}"),
        (_.endsWith(".outcome.json"), s => s"delete ${s.lake.path("A").staging(s.id)}")
      )) {
      val s = new Scene
      var unclear = Vector.empty[String]
      s.lake.memory.interceptPut = (path, put) =>
        if (isIt(path)) {
          put()
          unclear = unclear :+ path
          PutOutcome.Unknown(new java.io.IOException("no answer"))
        } else put()
      assert(s.run(s.client()).isInstanceOf[CommitOutcome.Committed])
      assert(unclear.nonEmpty)
      unclear.foreach(file => assert(s.at(s"sync $file") < s.at(next(s))))
    }
  }

  test("whoever builds on a binding that another client put makes it durable, once") {
    val s = new Scene
    assert(s.run(s.client()).isInstanceOf[CommitOutcome.Committed])
    s.lake.memory.requests = Vector.empty
    val db = s.client()
    val binding = s.lake.path("A").binding
    for ((file, pin) <- Seq("a3" -> 1L, "a4" -> 2L)) {
      val txn = s.lake.begin(db)
      s.lake.stage(txn, "A", pin, s.lake.add(file))
      s.lake.file("A", file)
      assert(db.commit(txn, Seq(s.lake.written("A", pin))).isInstanceOf[CommitOutcome.Committed])
    }
    assert(s.at(s"sync $binding") < s.at(s"put ${s.lake.root}/timeline/00000000000000000002.json"))
  }

  test("a helper makes durable what a dead client settled, before it ends the entry") {
    val s = new Scene
    intercept[Crash](s.run(s.client(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") s.lake.foreign("B", s.lake.metaData("B", "other"))
      override def beforeRolledBack(e: CommitEntry): Unit = throw new Crash
    })))
    s.lake.memory.requests = Vector.empty
    assert(s.client().recover().failed.isEmpty)
    val end = s.at(s"put ${s.entry.replace(".json", ".rolled_back.json")}")
    assert(s.at(s"sync ${s.outcome}") < end)
    for ((table, slot) <- Seq("A" -> 2L, "B" -> 2L))
      assert(s.at(s"sync ${s.lake.path(table).slot(slot)}") < end)
  }

  test("a foreign commit below ours is durable before the order point, and our own not again") {
    val s = new Scene
    assert(s.run(s.client()).isInstanceOf[CommitOutcome.Committed])
    s.lake.memory.requests = Vector.empty
    val db = s.client()
    val txn = s.lake.begin(db)
    s.lake.stage(txn, "A", 1, s.lake.add("a3"))
    s.lake.file("A", "a3")
    s.lake.foreign("A", s.lake.add("theirs"))
    assert(db.commit(txn, Seq(s.lake.written("A", 1))).isInstanceOf[CommitOutcome.Committed])
    val second = s"put ${s.lake.root}/timeline/00000000000000000002.json"
    assert(s.at(s"sync ${s.lake.path("A").slot(2)}") < s.at(second))
    assert(!s.requests.contains(s"sync ${s.lake.path("A").slot(1)}"))
  }

  test("a file that was made by one part and rewritten by a later one is durable, too") {
    val s = new Scene
    val txn = s.lake.begin(s.client())
    val v = s.lake.staged(txn, "A") + 1L
    s.lake.stage(txn, "A", 0, s.lake.add("a2"))
    s.lake.stage(txn, "A", 0, s.lake.remove("a2"), s.lake.add("a2", Some("dv")))
    s.lake.file("A", "a2")
    val written = s.lake.written("A", 0).copy(oneCommit = false, stagedTo = v + 1)
    assert(s.client().commit(txn, Seq(written)).isInstanceOf[CommitOutcome.Committed])
    assert(s.at(s"sync ${s.lake.path("A")}/a2") < s.at(s"put ${s.entry}"))
  }

  test("whoever finds an outcome makes it durable before the staged files go") {
    val s = new Scene
    intercept[Crash](s.run(s.client(new CommitSteps {
      override def beforeCleanUp(transaction: String): Unit = throw new Crash
    })))
    for (work <- Seq[Database => Any](_.recover(), _.collect(-1000L))) {
      s.lake.memory.requests = Vector.empty
      work(s.client())
    }
    assert(
      s.at(s"sync ${s.outcome}") < s.at(s"delete ${s.lake.path("A").staging(s.id)}")
    )
  }

  test("an owner that finds its entry ended by others makes their outcome durable, to be told so") {
    val s = new Scene
    val rolledBack = s.entry.replace(".json", ".rolled_back.json")
    // Its tables were closed before it published anything.
    assert(s.run(s.client(new CommitSteps {
      override def ordered(e: CommitEntry): Unit = {
        s.lake.foreign("A", s.lake.metaData("A", "other"))
        intercept[Crash](s.client(new CommitSteps {
          override def beforeRolledBack(e: CommitEntry): Unit = throw new Crash
        }).recover())
        s.lake.memory.requests = Vector.empty
      }
    })).isInstanceOf[CommitOutcome.Conflicted])
    assert(s.at(s"sync ${s.outcome}") < s.at(s"put $rolledBack"))
    // It could not go on, and it had been completed.
    val other = new Scene
    assert(other.run(other.client(new CommitSteps {
      override def ordered(e: CommitEntry): Unit = {
        assert(other.client().recover().failed.isEmpty)
        other.lake.memory.requests = Vector.empty
        other.lake.memory.interceptPut =
          (path, _) => throw new IllegalStateException(s"no put of $path")
      }
    })).isInstanceOf[CommitOutcome.Committed])
    other.at(s"sync ${other.outcome}")
  }

  test("an ABORT entry whose put had no answer is durable before it counts") {
    val s = new Scene
    val txn = s.lake.begin(s.client())
    s.lake.memory.interceptPut = (path, put) => {
      val put1 = put()
      if (path == s.entry) PutOutcome.Unknown(new java.io.IOException("no answer")) else put1
    }
    assert(s.client().abort(Seq(txn.id), "test") == Vector(txn.id))
    val requested = s"delete ${s.lake.root}/transactions/${txn.id}.json"
    assert(s.at(s"sync ${s.entry}") < s.at(requested))
  }

  test("a device that fails after the order point: unknown, and the next client finishes it") {
    val s = new Scene
    s.lake.memory.interceptPut = (path, put) => {
      put()
      if (path == s.entry) PutOutcome.Unknown(new java.io.IOException("no answer"))
      else PutOutcome.Created
    }
    s.lake.memory.failSync = path =>
      if (path == s.entry) throw new java.io.IOException("Input/output error")
    assert(s.run(s.client()).isInstanceOf[CommitOutcome.Unknown])
    s.lake.memory.interceptPut = (_, put) => put()
    s.lake.memory.failSync = _ => ()
    assert(s.client().recover().failed.isEmpty)
    assert(s.lake.live("A") == Set("a1@udv", "a2") && s.lake.live("B") == Set("b1", "b2"))
  }

  test("a data file that is gone stops COMMIT before anything is ordered") {
    val s = new Scene
    s.files = Seq("A" -> "a2")
    val e = intercept[LakestepException](s.run(s.client()))
    assert(e.getCondition == "LAKESTEP_STAGED_FILE_LOST" && !s.lake.store.exists(s.entry))
  }
}
