package io.lakestep.timeline

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Ids, Json, LakestepException, Versions}
import io.lakestep.commit.ManualClock
import io.lakestep.log.{ReadScan, ReadSet, RowFilter, TableRef}
import io.lakestep.storage.MemoryStore

final class TimelineSuite extends AnyFunSuite {

  private def requested(id: String) =
    Requested(
      id,
      Some("näme \"q\""),
      "me",
      "app",
      "SNAPSHOT",
      3,
      17,
      new Labels(Some("why \"é\""), Map("b" -> "2", "a" -> "1"))
    )

  private val table = EntryTable(
    "log",
    "id",
    TableRef("/t"),
    "t",
    Some("hive"),
    -1,
    7,
    Some(SlotStamp(1, 2)),
    2,
    conflictCapable = true,
    closed = true,
    reserve = Some(Json.obj().put("minReaderVersion", 1).put("minWriterVersion", 2)),
    reads = Some(ReadSet(Some(Vector(
      ReadScan(
        RowFilter.AllOf(Vector(
          RowFilter.Compare("c", RowFilter.Kind.Date, RowFilter.Op.LessOrEqual, "2026-01-31"),
          RowFilter.AnyOf(Vector(RowFilter.Null("d", isNull = true), RowFilter.Everything))
        )),
        Some(Set("a b", "ü"))
      ),
      ReadScan(RowFilter.Everything, None)
    )))),
    actionsHash = "hash",
    metaDataHash = Some("m"),
    protocolHash = None,
    inCommitTimestamps = true,
    inCommitTimestampMs = Some(5),
    rowIds = Some(RowIds(1, 2, asStaged = true)),
    added = FileSums(1, 2, 3),
    removed = FileSums(0, 0, 0)
  )

  private val named = NamedObject(
    NamedObject.Table,
    Some(TableRef("/x")),
    Json.obj().put("type", "EXTERNAL")
  )

  private def commit(number: Long, previous: String, id: String = "t1") = CommitEntry(
    number,
    previous,
    10,
    1,
    requested(id),
    Vector(
      table,
      table.copy(
        metastore = None,
        baseSlot = None,
        closed = false,
        reserve = None,
        rowIds = None,
        inCommitTimestampMs = None
      )
    ),
    Vector(EntryRead("l", TableRef("/r"), "r", 1, 2, ReadSet.WholeTable)),
    Vector(NameChange(NameKey("m", "s", Some("x")), Some(named), None)),
    Vector(Purge(NameKey("m", "s", Some("y")), TableRef("/y"), 7)),
    Vector(BatchKey("q", Some(7), Some("s")), BatchKey("r", None))
  )

  private val conflict =
    Conflict(Rule.Other("rule"), "t", "/t", Some(3), None, Some("u"), None, Vector("f"), Some("t2"))

  test("every kind of file round-trips") {
    val entries = Seq(commit(1, ""), AbortEntry(2, "h", 3, Vector("t1", "t2"), "why"))
    entries.foreach(e => assert(TimelineCodec.decodeEntry("f", TimelineCodec.encode(e)) == e))
    val outcomes =
      Seq(Completed(1, "h", 2, Vector(Vector(3, 4), Vector.empty)), Aborting(1, "h", 2, conflict))
    outcomes.foreach(o => assert(TimelineCodec.decodeOutcome("f", TimelineCodec.encode(o)) == o))
    val end = RolledBack(
      1,
      "h",
      2,
      Vector(
        RolledBackTable("undone", Some(3), Vector("x")),
        RolledBackTable("gone", None, Vector.empty)
      )
    )
    assert(TimelineCodec.decodeRolledBack("f", TimelineCodec.encode(end)) == end)
    val r = requested("t1").copy(name = None)
    assert(TimelineCodec.decodeRequested("f", TimelineCodec.encode(r)) == r)
  }

  private class Fixture {
    val store = new MemoryStore(new ManualClock)
    private var n = 0
    private val ids: Ids = () => { n += 1; f"$n%032x" }
    def open(interval: Int = 64): Timeline = new Timeline(store, "/db", ids, 3, interval)
    def file(name: String): String = s"/db/timeline/$name"
    def fill(timeline: Timeline): Unit = {
      timeline.id
      (1 to 3).foreach(i =>
        timeline.putEntry(commit(i.toLong, timeline.refresh().lastHash, s"t$i"))
      )
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

  test("no timeline is made inside a table, where VACUUM would delete it") {
    def beside(table: String): Timeline = {
      val store = new MemoryStore(new ManualClock)
      store.putIfAbsent(s"$table/_delta_log/00000000000000000000.json", Array[Byte](1))
      new Timeline(store, "file:/lake/t/of/mine", () => "0" * 32, 3, 64)
    }
    for (table <- Seq("file:/lake/t", "file:/lake/t/of/mine", "file:")) {
      val refused = intercept[LakestepException](beside(table).checkPlace())
      assert(refused.getCondition == "LAKESTEP_ROOT_IN_TABLE")
    }
    beside("file:/lake/t/of/mine/inner").checkPlace()
    val known = beside("file:/lake/t")
    assert(known.id.nonEmpty)
    known.checkPlace()
  }

  test("a format that requires what is not known, or does not say what it requires, is refused") {
    for ((required, condition) <- Seq(
        ""","requiredFeatures":["future"]""" -> "LAKESTEP_TIMELINE_FEATURE_UNKNOWN",
        "" -> "LAKESTEP_TIMELINE_CORRUPT"
      )) {
      val f = new Fixture
      f.store.putIfAbsent("/db/format.json", s"""{"timeline":"x","format":1$required}""".getBytes)
      assert(intercept[LakestepException](f.open().id).getCondition == condition)
    }
  }

  test(
    "an entry that asks for what is not known is refused, also by a client that knows its fields"
  ) {
    val f = new Fixture
    val bytes = new String(TimelineCodec.encode(commit(1, "")), "UTF-8")
    val required = "[\"reserve\",\"names\",\"purges\",\"newTables\",\"parts\",\"batches\"]"
    assert(bytes.contains(s"\"requiredFeatures\":$required"))
    f.open().id
    f.store.putIfAbsent(
      f.file(f"${1}%020d.json"),
      bytes.replace(required, "[\"reserve\",\"future\"]").getBytes("UTF-8")
    )
    val refused = intercept[LakestepException](f.open().refresh())
    assert(refused.getCondition == "LAKESTEP_TIMELINE_FEATURE_UNKNOWN")
    val told = refused.getMessageParameters
    assert(told.get("features") == "future" && told.get("version") == Versions.lakestep)
    assert(told.get("wanted") == s"version ${Versions.lakestep} or a newer one")
  }

  test("where an entry is finished, one before it is that had to be finished before it was put") {
    for (file <- Seq("1.outcome.json", "2.json")) {
      val f = new Fixture
      val (writer, reader) = (f.open(), f.open())
      writer.id
      writer.putEntry(commit(1, writer.refresh().lastHash, "t1"))
      assert(reader.refresh().unfinished.map(_.number) == Vector(1))
      def finish(number: Long) =
        writer.decide(Completed(number, writer.known.status(number).get.hash, 5, Vector.empty))
      var isLeft = true
      f.store.interceptGet = (path, get) => {
        val before = get()
        if (isLeft && path.endsWith(s"0$file")) {
          isLeft = false
          finish(1)
          writer.putEntry(commit(2, writer.known.lastHash, "t2"))
          finish(2)
          if (file == "2.json") get() else before
        } else before
      }
      val view = reader.refresh()
      assert(!isLeft && view.recent.dropWhile(_.isFinished).forall(!_.isFinished))
      assert(reader.refresh().finished == 2)
    }
  }

  test("views: finished prefix, next number, unfinished entries, last marks") {
    val f = new Fixture
    val timeline = f.open()
    f.fill(timeline)
    val view = timeline.refresh()
    assert(view.finished == 1 && view.next == 4 && view.unfinished.map(_.number) == Vector(2, 3))
    assert(view.snapshot.lastMark("log").contains(LastMark(1, 9)))
    assert(view.byTransaction(Set(
      "t3",
      "t4"
    )).view.mapValues(_.entry.number).toMap == Map("t3" -> 3))
    val h3 = view.status(3).get.hash
    timeline.decide(Aborting(3, h3, 5, conflict))
    assert(timeline.refresh().finished == 1)
    timeline.endRollback(RolledBack(3, h3, 6, Vector.empty))
    timeline.decide(Completed(2, view.status(2).get.hash, 5, Vector.empty))
    assert(timeline.refresh() == f.open().refresh() && timeline.known.finished == 3)
  }

  test("views of any age are merged into one that knows what each knew") {
    val seed = System.nanoTime
    val random = new scala.util.Random(seed)
    val size = 12
    val entries = (1 to size).map { i =>
      if (i % 5 == 0) AbortEntry(i.toLong, "", 0L, Vector(s"x$i"), "why")
      else commit(i.toLong, "", s"t$i")
    }

    /** What somebody may know of the first entries; ends are known in any order. */
    def view(interval: Int)(ends: Int => Boolean, length: Int): TimelineView =
      entries.take(length).foldLeft(TimelineView.from(TimelineSnapshot.empty, interval)) {
        (view, e) =>
          val isCommit = e.isInstanceOf[CommitEntry]
          val end = Option.when(isCommit && ends(e.number.toInt))(Completed(
            e.number,
            "",
            0L,
            Vector(Vector(e.number), Vector(e.number))
          ))
          view.append(EntryStatus(e, "", end, None))
      }
    (1 to 500).foreach { _ =>
      val (a, b) =
        (entries.map(_ => random.nextInt(3) > 0), entries.map(_ => random.nextInt(3) > 0))
      val (n, m) = (random.nextInt(size + 1), random.nextInt(size + 1))
      for (interval <- Seq(1, 3, 64)) {
        val known = view(interval) _
        val (one, other) = (known(i => a(i - 1), n), known(i => b(i - 1), m))
        val both = known(i => (i <= n && a(i - 1)) || (i <= m && b(i - 1)), n.max(m))
        for (merged <- Seq(one.merge(other), other.merge(one))) {
          def gist(v: TimelineView) = (v.snapshot, v.milestone, v.next, v.after(v.finished))
          assert(gist(merged) == gist(both), s"seed $seed, interval $interval")
          assert(interval < size || merged == both, s"seed $seed")
          assert(merged.recent.size <= 2 * interval + merged.next - 1 - merged.finished)
        }
      }
    }
  }

  /** A timeline of finished entries, its checkpoints put with this interval. */
  private def finished(f: Fixture, entries: Int, interval: Int): Timeline = {
    val timeline = f.open(interval)
    timeline.id
    timeline.refresh()
    (1 to entries).foreach { i =>
      timeline.putRequested(requested(s"t$i").copy(snapshot = i - 1L))
      timeline.putEntry(commit(i.toLong, timeline.known.lastHash, s"t$i"))
      val slots = Vector(i.toLong + 7)
      timeline.decide(Completed(i.toLong, timeline.known.lastHash, 5, Vector(slots, slots)))
      timeline.checkpoint()
    }
    timeline
  }

  private def checkpointsOf(f: Fixture) = f.store.list("/db/checkpoints", "").map(_.name)

  private def name(number: Int) = f"$number%020d.json"

  test("a checkpoint is put for every so many entries; the last two stay") {
    val f = new Fixture
    finished(f, 10, interval = 3)
    assert(checkpointsOf(f) == Vector(name(6), name(9)))
  }

  test("who comes new reads the newest checkpoint, its entry, and what follows") {
    val f = new Fixture
    val warm = finished(f, 10, interval = 3)
    f.store.requests = Vector.empty
    val cold = f.open(3)
    val view = cold.refresh()
    assert(f.store.requests == Vector(
      "list /db/checkpoints",
      s"get /db/checkpoints/${name(9)}",
      s"get ${f.file(name(9))}",
      "list /db/timeline",
      s"get ${f.file(name(10))}",
      s"get ${f.file(f"${10}%020d.outcome.json")}"
    ))
    assert(view.snapshot == warm.known.snapshot && view.lastHash == warm.known.lastHash)
    assert(view.snapshot == f.open().refresh().snapshot && view.next == 11)
  }

  test("memory holds the recent entries alone") {
    val timeline = finished(new Fixture, 50, interval = 4)
    assert(
      timeline.known.recent.size <= 8 && timeline.known.first == 51 - timeline.known.recent.size
    )
  }

  test(
    "a checkpoint that is corrupt, half-written, of the future or not of this timeline is passed over"
  ) {
    def changed(change: String => String): (Fixture, Timeline) = {
      val f = new Fixture
      val warm = finished(f, 7, interval = 3)
      val file = s"/db/checkpoints/${name(6)}"
      val bytes = new String(f.store.get(file).get)
      val other = change(bytes)
      assert(other != bytes)
      f.store.overwrite(file, other.getBytes)
      (f, warm)
    }
    def sealedAgain(change: com.fasterxml.jackson.databind.node.ObjectNode => Any)(text: String) = {
      val node = Json.parse(text)
      node.remove("sum")
      change(node)
      Json.text(node.put("sum", Json.blake3(Json.text(node))))
    }
    for (change <- Seq[String => String](
        _.replace("\"markSlot\":13", "\"markSlot\":12"),
        _.dropRight(20),
        sealedAgain(_.putArray("requiredFeatures").add("future")),
        sealedAgain(_.put("hash", "0" * 64)),
        sealedAgain(_.put("number", 5))
      )) {
      val (f, warm) = changed(change)
      assert(f.open(3).refresh().snapshot == warm.known.snapshot)
    }
  }

  test("a folder of checkpoints that cannot be listed hurts nobody") {
    val f = new Fixture
    f.store.listed = dir => if (dir.endsWith("/checkpoints")) throw new java.io.IOException("no")
    assert(finished(f, 7, interval = 3).known.finished == 7)
    assert(f.open(3).refresh().finished == 7)
  }

  test("checkpoints of a root that was made anew are passed over, and stay") {
    val (old, f) = (new Fixture, new Fixture)
    finished(old, 20, interval = 3)
    for (n <- checkpointsOf(old) :+ s"${"9" * 20}.json") {
      val file = s"/db/checkpoints/$n"
      f.store.putIfAbsent(file, old.store.get(file).getOrElse("{}".getBytes))
    }
    finished(f, 8, interval = 3)
    assert(checkpointsOf(f).take(2) == Vector(name(3), name(6)))
    f.store.requests = Vector.empty
    assert(f.open(3).refresh().finished == 8)
    assert(!f.store.requests.contains(s"get ${f.file(name(5))}"))
  }

  test("a checkpoint that cannot be put hurts nobody") {
    val f = new Fixture
    f.store.interceptPut = (path, put) =>
      if (path.contains("/checkpoints/")) throw new java.io.IOException("full") else put()
    val timeline = finished(f, 7, interval = 3)
    assert(timeline.known.finished == 7 && checkpointsOf(f).isEmpty)
  }

  test("a hole after the checkpoint is named") {
    val f = new Fixture
    finished(f, 8, interval = 3)
    f.store.delete(f.file(name(7)))
    assert(corrupt(f.open(3).refresh()) == f.file(name(7)))
  }

  test("an old transaction's entry is read back to, no further than where it began") {
    val f = new Fixture
    finished(f, 20, interval = 3)
    f.store.deleteFolder("/db/history")
    f.store.delete("/db/transactions/t5.json")
    f.store.delete(f.file(name(2)))
    val timeline = f.open(3)
    timeline.refresh()
    def entry(id: String): Option[Long] = timeline.entriesOf(Set(id)).get(id).map(_.entry.number)
    timeline.putRequested(requested("open").copy(snapshot = 20))
    timeline.putRequested(requested("long").copy(snapshot = 10))
    assert(entry("open").isEmpty && entry("long").isEmpty)
    assert(entry("t20").contains(20L) && entry("t12").contains(12L) && entry("t5").contains(5L))
    assert(timeline.entriesOf(Set("t12")).values.forall(_.isFinished))
    f.store.overwrite("/db/transactions/t12.json", Array.emptyByteArray)
    assert(entry("t12").contains(12L))
    assert(corrupt(timeline.entriesOf(Set("unheard of"))) == f.file(name(2)))
  }

  test("an old entry that was changed is named when it is read") {
    val f = new Fixture
    finished(f, 20, interval = 3)
    f.store.deleteFolder("/db/history")
    f.store.overwrite(f.file(name(8)), TimelineCodec.encode(commit(8, "else", "t8")))
    val timeline = f.open(3)
    timeline.refresh()
    assert(corrupt(timeline.entriesOf(Set("t6"))) == f.file(name(8)))
  }

  test("packs hold every entry with its end, and one that is missing or damaged is passed over") {
    val f = new Fixture
    finished(f, 20, interval = 3)
    val packs = f.store.list("/db/history/entries", "").map(_.name)
    assert(packs == (3 to 18 by 3).map(name).toVector)
    def read() = {
      val timeline = f.open(3)
      timeline.refresh()
      f.store.requests = Vector.empty
      timeline.entries(1, 20)
    }
    val whole = read()
    val first = whole.size - 2
    assert(whole.map(_.entry.number) == (1L to 20L) && whole.forall(_.isFinished))
    assert(f.store.requests.count(_.startsWith("get /db/history/entries")) == 6)
    assert(f.store.requests.size <= 6 + 2 * (20 - first))
    // Three whose files are gone, and two packs that are no use.
    Seq(1, 2, 3).foreach(n => f.store.delete(f.file(name(n))))
    f.store.delete(s"/db/history/entries/${name(9)}")
    val bytes = f.store.get(s"/db/history/entries/${name(12)}").get
    val text = new String(bytes)
    for (bad <- Seq(
        text.take(text.length / 2),
        text.replace("t11", "t12"),
        new String(f.store.get(s"/db/history/entries/${name(15)}").get)
      )) {
      f.store.overwrite(s"/db/history/entries/${name(12)}", bad.getBytes)
      assert(read() == whole)
    }
  }

  test("the database as it was: by version and by time, from packs and snapshots") {
    val f = new Fixture
    val timeline = f.open(2)
    timeline.id
    timeline.refresh()
    // Clocks that go back.
    def endedAt(n: Int) = 1000L + 10 * n - (if (n % 7 == 0) 35 else 0)
    val all = (1 to 300).scanLeft(TimelineSnapshot.empty) { (_, i) =>
      timeline.putEntry(commit(i.toLong, timeline.known.lastHash, s"t$i"))
      val slots = Vector(i.toLong + 7)
      timeline.decide(Completed(
        i.toLong,
        timeline.known.lastHash,
        endedAt(i),
        Vector(slots, slots)
      ))
      timeline.checkpoint()
      timeline.known.snapshot
    }
    assert(all.map(_.timeMs) == all.map(_.timeMs).sorted)
    assert(f.store.list("/db/history/snapshots", "").map(_.name) == Vector(name(128), name(256)))
    def cold() = {
      val other = f.open(2)
      other.refresh()
      f.store.requests = Vector.empty
      other
    }
    for (n <- Seq(1, 2, 127, 128, 129, 255, 256, 257, 298, 300))
      assert(cold().snapshotAt(n.toLong) == all(n), n)
    for (time <- Seq(0L, 1009L, 1010L, 2200L, 2205L, 2279L, 2280L, 3560L, 3565L, 3999L, 9999L)) {
      val expected = all.filter(_.timeMs.exists(_ <= time)).last
      assert(cold().snapshotBefore(time) == expected, time)
    }
    assert(cold().snapshotBefore(-1) == TimelineSnapshot.empty)
    // Without what is only there to be quick, and with checkpoints of an earlier version.
    def of(n: Long) = {
      cold().snapshotAt(n)
      f.store.requests.size
    }
    val quick = of(127)
    f.store.deleteFolder("/db/history")
    assert(cold().snapshotAt(127) == all(127) && of(127) > quick)
    f.store.deleteFolder("/db/checkpoints")
    f.store.putIfAbsent(
      s"/db/checkpoints/${name(298)}",
      SnapshotCodec.encode(all(298).copy(timeMs = None))
    )
    val later = cold()
    assert(later.known.snapshot.timeMs.isEmpty)
    assert(later.snapshotAt(299) == all(299) && later.snapshotAt(300) == all(300))
    assert(later.snapshotBefore(9999) == all(300))
  }

  test("numbers that are none are corruption, not zero") {
    val bytes = new String(TimelineCodec.encode(Completed(1, "h", 2, Vector(Vector(3, 4)))))
    for (bad <- Seq("[[\"x\",4]]", "[3,4]", "[[3.5,4]]", "[[99999999999999999999,4]]"))
      assert(
        corrupt(TimelineCodec.decodeOutcome("f", bytes.replace("[[3,4]]", bad).getBytes)) == "f",
        bad
      )
    val entry =
      new String(TimelineCodec.encode(commit(1, ""))).replace("\"parts\":2", "\"parts\":3000000000")
    assert(corrupt(TimelineCodec.decodeEntry("f", entry.getBytes)) == "f")
  }

  test("an outcome is put once; who comes second gets the first") {
    val f = new Fixture
    val timeline = f.open()
    f.fill(timeline)
    val hash = timeline.refresh().status(2).get.hash
    val first = timeline.decide(Completed(2, hash, 1, Vector.empty))
    assert(timeline.decide(Aborting(2, hash, 2, conflict)) == first)
  }

  test("only the next number, and the end of entries that had none, are read again") {
    val f = new Fixture
    val timeline = f.open()
    f.fill(timeline)
    timeline.refresh()
    f.store.requests = Vector.empty
    timeline.refresh()
    def name(number: Long, end: String) = s"get ${f.file(f"$number%020d$end.json")}"
    assert(f.store.requests == Vector(name(4, ""), name(2, ".outcome"), name(3, ".outcome")))
  }

  test("what this client has put is not read") {
    val f = new Fixture
    val timeline = f.open()
    timeline.refresh()
    timeline.putEntry(commit(1, "", "t1"))
    timeline.decide(Completed(1, timeline.known.lastHash, 5, Vector(Vector(8), Vector(9))))
    assert(timeline.known.finished == 1 && timeline.known == f.open().refresh())
    f.store.requests = Vector.empty
    assert(timeline.refresh().next == 2)
    assert(f.store.requests == Vector(s"get ${f.file(f"${2}%020d.json")}"))
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
