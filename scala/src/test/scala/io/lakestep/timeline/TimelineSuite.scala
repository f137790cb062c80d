package io.lakestep.timeline

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Ids, Json, LakestepException}
import io.lakestep.storage.MemoryStore
import io.lakestep.transaction.ManualClock

final class TimelineSuite extends AnyFunSuite {

  private def requested(id: String) =
    Requested(id, Some("näme \"q\""), "me", "app", "SNAPSHOT", 3, 17)

  private val table = EntryTable("log", "id", "/t", "t", Some("hive"), -1, 7, Some(SlotStamp(1, 2)), 2,
    conflictCapable = true, dependsOnReads = false, "hash", Some("m"), None, inCommitTimestamps = true,
    Some(5), Some(RowIds(1, 2)), FileSums(1, 2, 3), FileSums(0, 0, 0))

  private def commit(number: Long, previous: String, id: String = "t1") = CommitEntry(
    number, previous, 10, 1, requested(id), Some("msg"),
    Vector(table, table.copy(metastore = None, baseSlot = None, rowIds = None, inCommitTimestampMs = None)),
    Vector(EntryRead("l", "/r", "r", 1, 2)), Vector(Json.obj().put("drop", "x")), Vector("k"))

  private val conflict =
    Conflict("rule", "t", "/t", Some(3), None, Some("u"), None, Vector("f"), Some("t2"))

  test("every kind of file round-trips") {
    val entries = Seq(commit(1, ""), AbortEntry(2, "h", 3, Vector("t1", "t2"), "why"))
    entries.foreach(e => assert(TimelineCodec.decodeEntry("f", TimelineCodec.encode(e)) == e))
    val outcomes = Seq(Completed(1, "h", 2, Vector(Vector(3, 4), Vector.empty)), Aborting(1, "h", 2, conflict))
    outcomes.foreach(o => assert(TimelineCodec.decodeOutcome("f", TimelineCodec.encode(o)) == o))
    val end = RolledBack(1, "h", 2, Vector(SettledTable("undone", Some(3), Vector("x")), SettledTable("gone", None, Vector.empty)))
    assert(TimelineCodec.decodeRolledBack("f", TimelineCodec.encode(end)) == end)
    val r = requested("t1").copy(name = None)
    assert(TimelineCodec.decodeRequested("f", TimelineCodec.encode(r)) == r)
  }

  private class Fixture {
    val store = new MemoryStore(new ManualClock)
    private var n = 0
    private val ids: Ids = () => { n += 1; f"$n%032x" }
    def open(): Timeline = new Timeline(store, "/db", ids, 3)
    def file(name: String): String = s"/db/timeline/$name"
    def fill(timeline: Timeline): Unit = {
      timeline.id
      (1 to 3).foreach(i => timeline.putEntry(commit(i.toLong, timeline.refresh().lastHash, s"t$i")))
      val view = timeline.refresh()
      timeline.decide(Completed(1, view.status(1).get.hash, 5, Vector(Vector(8), Vector(9))))
      ()
    }
  }

  private def corrupt(body: => Any): String = {
    val e = intercept[LakestepException] { body; () }
    assert(e.getCondition == "LAKESTEP_TIMELINE_CORRUPT" && e.getSqlState == "XX001")
    e.getMessageParameters.get("file")
  }

  test("a timeline is made once, and read by others with the same id") {
    val f = new Fixture
    assert(f.open().existingId.isEmpty)
    val id = f.open().id
    assert(f.open().id == id && f.open().existingId.contains(id))
  }

  test("unknown required features are refused") {
    val f = new Fixture
    f.store.putIfAbsent("/db/format.json", """{"timeline":"x","format":1,"requiredFeatures":["future"]}""".getBytes)
    assert(intercept[LakestepException](f.open().id).getCondition == "LAKESTEP_TIMELINE_FEATURE_UNKNOWN")
  }

  test("views: finished prefix, next number, unfinished entries, last marks") {
    val f = new Fixture
    val timeline = f.open()
    f.fill(timeline)
    val view = timeline.refresh()
    assert(view.finished == 1 && view.next == 4 && view.unfinished.map(_.number) == Vector(2, 3))
    assert(view.lastMark("log", 1).contains((1L, 9L)) && view.lastMark("log", 0).isEmpty)
    assert(view.byTransaction("t3") == 3)
    val h3 = view.status(3).get.hash
    timeline.decide(Aborting(3, h3, 5, conflict))
    assert(timeline.refresh().finished == 1)
    timeline.endRollback(RolledBack(3, h3, 6, Vector.empty))
    timeline.decide(Completed(2, view.status(2).get.hash, 5, Vector.empty))
    assert(timeline.refresh() == f.open().refresh() && timeline.known.finished == 3)
  }

  test("an outcome is put once; who comes second gets the first") {
    val f = new Fixture
    val timeline = f.open()
    f.fill(timeline)
    val hash = timeline.refresh().status(2).get.hash
    val first = timeline.decide(Completed(2, hash, 1, Vector.empty))
    assert(timeline.decide(Aborting(2, hash, 2, conflict)) == first)
  }

  test("finished entries are not read again") {
    val f = new Fixture
    val timeline = f.open()
    f.fill(timeline)
    timeline.refresh()
    f.store.requests = Vector.empty
    timeline.refresh()
    assert(f.store.requests.size == 1)
  }

  test("a half-written entry, a broken chain, a hole and a foreign outcome are named") {
    val name = f"${2}%020d.json"
    val half = new Fixture
    half.fill(half.open())
    half.store.overwrite(half.file(name), half.store.get(half.file(name)).get.dropRight(20))
    assert(corrupt(half.open().refresh()) == half.file(name))
    val chain = new Fixture
    chain.fill(chain.open())
    chain.store.overwrite(chain.file(name), TimelineCodec.encode(commit(2, "wrong")))
    assert(corrupt(chain.open().refresh()) == chain.file(name))
    val hole = new Fixture
    hole.fill(hole.open())
    hole.store.delete(hole.file(name))
    assert(corrupt(hole.open().refresh()) == hole.file(name))
    val outcome = new Fixture
    outcome.fill(outcome.open())
    val file = outcome.file(f"${2}%020d.outcome.json")
    outcome.store.putIfAbsent(file, TimelineCodec.encode(Completed(2, "wrong", 1, Vector.empty)))
    assert(corrupt(outcome.open().refresh()) == file)
  }
}
