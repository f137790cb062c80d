package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.log.{CommitInfo, JsonStates, TableLog}
import io.lakestep.storage.MemoryStore
import io.lakestep.timeline.CommitEntry

final class PinSuite extends AnyFunSuite {

  private def lake(): Lake = {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    lake
  }

  private def append(
      lake: Lake,
      db: Database,
      table: String,
      pin: Long,
      file: String): CommitOutcome = {
    val txn = lake.begin(db)
    lake.stage(txn, table, pin, lake.add(file))
    db.commit(txn, Seq(lake.written(table, pin)))
  }

  test("foreign commits up to the time of REQUESTED belong to the snapshot, ties included") {
    val l = lake()
    l.foreign("A", l.add("same time"))
    val db = l.client()
    val txn = l.begin(db)
    l.clock.advance(1)
    l.foreign("A", l.add("later"))
    assert(db.pin(txn, l.path("A"), -1) == 1)
  }

  test("floor: our commit belongs to the snapshot however late its time is") {
    val l = lake()
    val db = l.client()
    append(l, db, "A", 0, "x")
    val readOnly = l.begin(db, readOnly = true).copy(requestedAtMs = 0L)
    assert(db.pin(readOnly, l.path("A"), -1) == 1)
  }

  test(
    "ceiling: a commit of a later entry, and what follows, does not, however early its time is"
  ) {
    val l = lake()
    val db = l.client()
    val txn = l.begin(db).copy(requestedAtMs = Long.MaxValue)
    append(l, l.client(), "A", 0, "x")
    l.foreign("A", l.add("f"))
    assert(db.pin(txn, l.path("A"), -1) == 0)
  }

  test("ceiling while the later entry is only half published: the snapshot is not torn") {
    val l = lake()
    l.create("B", "b1")
    val reader = l.client()
    val txn = l.begin(reader, readOnly = true).copy(requestedAtMs = Long.MaxValue)
    val crash = new CommitSteps {
      override def published(
          e: CommitEntry,
          t: io.lakestep.timeline.EntryTable,
          p: Int,
          s: Long): Unit =
        throw new Crash
    }
    val writer = l.client(crash)
    val w = l.begin(writer)
    l.stage(w, "A", 0, l.add("x"))
    l.stage(w, "B", 0, l.add("y"))
    intercept[Crash](writer.commit(w, Seq(l.written("A", 0), l.written("B", 0))))
    assert(l.head("A") == 1)
    assert(reader.pin(txn, l.path("A"), -1) == 0 && reader.pin(txn, l.path("B"), -1) == 0)
  }

  test(
    "session floor: never below what the session has seen; refused when that is not in the snapshot"
  ) {
    val l = lake()
    val db = l.client()
    val txn = l.begin(db)
    l.clock.advance(1)
    l.foreign("A", l.add("seen"))
    assert(db.pin(txn, l.path("A"), 1) == 1)
    append(l, l.client(), "A", 1, "x")
    val e = intercept[LakestepException](db.pin(txn, l.path("A"), 2))
    assert(e.getCondition == "LAKESTEP_SNAPSHOT_BEHIND_SESSION")
  }

  test("in-commit timestamps count, not the store's") {
    val l = lake()
    val db = l.client()
    val info = CommitInfo(l.commitInfo("WRITE").body.put("inCommitTimestamp", 9000L))
    l.store.putIfAbsent(l.path("A").slot(1), TableLog.text(Seq(info, l.add("f"))))
    assert(db.pin(l.begin(db), l.path("A"), -1) == 0)
  }

  test("a floor without our mark was overwritten") {
    val l = lake()
    append(l, l.client(), "A", 0, "x")
    l.store.asInstanceOf[MemoryStore].overwrite(
      l.path("A").slot(1),
      TableLog.text(Seq(l.commitInfo("WRITE")))
    )
    val db = l.client()
    val txn = l.begin(db)
    assert(intercept[LakestepException](db.pin(
      txn,
      l.path("A"),
      -1
    )).getCondition == "LAKESTEP_TABLE_OVERWRITTEN")
  }

  test("no table: refused") {
    val l = lake()
    val db = l.client()
    val txn = l.begin(db)
    assert(intercept[LakestepException](db.pin(
      txn,
      l.path("nothing"),
      -1
    )).getCondition == "LAKESTEP_NOT_A_TABLE")
  }

  test("a quiet table costs one listing and one read of its log") {
    val l = lake()
    (1 to 20).foreach(i => l.foreign("A", l.add(s"f$i")))
    val db = l.client()
    append(l, db, "A", 20, "x")
    val txn = l.begin(db)
    val store = l.store.asInstanceOf[MemoryStore]
    store.requests = Vector.empty
    assert(db.pin(txn, l.path("A"), -1) == 21)
    assert(store.requests.count(_.startsWith("list")) == 1, store.requests)
    assert(
      store.requests.count(r => r.startsWith("get") && r.contains("_delta_log")) <= 2,
      store.requests
    )
  }

  test("READ ONLY puts nothing and helps nobody; it takes the shorter prefix") {
    val l = lake()
    val db = l.client(new CommitSteps {
      override def ordered(e: CommitEntry): Unit = throw new Crash
    })
    intercept[Crash](append(l, db, "A", 0, "x"))
    val store = l.store.asInstanceOf[MemoryStore]
    store.requests = Vector.empty
    val reader = l.client()
    assert(l.begin(reader, readOnly = true).snapshot == 0)
    assert(!store.requests.exists(_.startsWith("put")))
    val e = intercept[LakestepException](l.begin(reader, readOnly = true, notBefore = 1))
    assert(e.getCondition == "LAKESTEP_SNAPSHOT_BEHIND_DATABASE")
    assert(l.begin(l.client()).snapshot == 1 && l.live("A")("x"))
  }

  test("an entry that is published after the listing bounds nothing: the pin is in the listing") {
    val l = lake()
    val db = l.client()
    val txn = l.begin(db)
    l.clock.advance(1)
    val log = l.path("A").log
    l.memory.listed = dir =>
      if (dir == log) {
        l.memory.listed = _ => ()
        l.foreign("A", l.add("later"))
        append(l, l.client(), "A", 1, "x")
        ()
      }
    assert(db.pin(txn, l.path("A"), -1) == 0)
  }

  test("a version of the snapshot that was cleaned up meanwhile is gone, and said to be") {
    val l = lake()
    val db = l.client()
    val txn = l.begin(db)
    append(l, l.client(), "A", 0, "x")
    (1 to 3).foreach(i => l.foreign("A", l.add(s"f$i")))
    JsonStates.cleanUp(l.store, l.path("A").uri)
    val e = intercept[LakestepException](db.pin(txn, l.path("A"), -1))
    assert(e.getCondition == "LAKESTEP_SNAPSHOT_GONE")
  }

  test("a snapshot without an entry holds nothing of others that may rest on it") {
    val lake = Lake.inMemory()
    Seq("A", "B", "C", "D").foreach(t => lake.create(t, s"${t.toLowerCase}1"))
    lake.clock.advance(10)
    val (dying, other) = (
      lake.client(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      }),
      lake.client()
    )
    val early = lake.begin(other)
    val txn = lake.begin(dying)
    Seq("A", "B").foreach(t => lake.stage(txn, t, 0, lake.add(s"${t.toLowerCase}2")))
    intercept[Crash](dying.commit(txn, Seq("A", "B").map(lake.written(_, 0))))
    lake.clock.advance(10)
    lake.stage(early, "C", 0, lake.add("c2"))
    assert(other.commit(early, Seq(lake.written("C", 0))).isInstanceOf[CommitOutcome.Committed])
    lake.clock.advance(10)
    lake.foreign("D", lake.add("copy-of-c2"))
    lake.clock.advance(10)
    val reader = lake.begin(other, readOnly = true)
    assert(reader.snapshot == 0 && other.pin(reader, lake.path("C"), -1) == 0)
    assert(other.pin(reader, lake.path("D"), -1) == 0)
    val writer = lake.begin(other)
    assert(writer.snapshot == 2 && other.pin(writer, lake.path("D"), -1) == 1)
  }
}
