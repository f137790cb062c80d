package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.TableRef
import io.lakestep.timeline.{CommitEntry, EntryTable}

/** What a query outside a transaction may read, at each moment of a commit by somebody else. */
final class ConsistentReadSuite extends AnyFunSuite {

  private def heads(lake: Lake): Map[TableRef, Long] =
    Seq("A", "B").map(t => lake.path(t) -> lake.head(t)).toMap

  private def versions(lake: Lake, seen: Map[TableRef, Long]): Seq[Long] = {
    val found = lake.client().consistent(seen)
    Seq("A", "B").map(t => found(lake.path(t)))
  }

  test("tables that no transaction of this timeline has written are read as they were loaded") {
    val s = new TwoTables()
    assert(s.lake.client().consistent(heads(s.lake)) == heads(s.lake))
    s.run(CommitSteps.Silent)
    s.lake.create("C", "c1")
    val seen = heads(s.lake) + (s.lake.path("C") -> 0L)
    assert(s.lake.client().consistent(seen) == seen)
    val old = seen.view.mapValues(_ => 0L).toMap
    assert(s.lake.client(root = "/elsewhere/_lakestep").consistent(old) == old)
  }

  test("a table's first transaction commits while a reader looks for its binding") {
    for (table <- Seq("A", "B")) {
      val s = new TwoTables()
      val seen = heads(s.lake)
      val commit = Once(s.run(CommitSteps.Silent))
      s.lake.memory.interceptGet = { (path, get) =>
        val found = get()
        if (path == s.lake.path(table).binding) commit()
        found
      }
      assert(versions(s.lake, seen).distinct.size == 1, s"looked for the binding of $table")
    }
  }

  test("at every step of a commit both tables are read before it, or both after it") {
    val s = new TwoTables()
    var seen = Vector.empty[Seq[Long]]
    def look(): Unit = if (s.lake.client().timeline.refresh().next > 1)
      seen :+= versions(s.lake, heads(s.lake))
    s.run(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = look()
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        look()
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit = look()
      override def decided(e: CommitEntry, o: io.lakestep.timeline.Outcome): Unit = look()
    })
    assert(seen.toSet == Set(Seq(0L, 0L), Seq(1L, 1L)))
    assert(seen == seen.sortBy(_.head))
  }

  test("a single table is read below a commit that may still be taken back") {
    val s = new TwoTables()
    intercept[Crash](s.run(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") throw new Crash
    }))
    s.lake.foreign("A", s.lake.add("f"))
    val path = s.lake.path("A")
    val files = s.lake.memory.paths
    assert(s.lake.client().consistent(Map(path -> 2L)) == Map(path -> 0L))
    assert(s.lake.memory.paths == files, "a read puts nothing")
    s.lake.client().recover()
    assert(s.lake.client().consistent(Map(path -> 2L)) == Map(path -> 2L))
  }

  test(
    "a version that was loaded before a commit of both is replaced, not joined with the new one"
  ) {
    val s = new TwoTables()
    val before = heads(s.lake)
    s.run(CommitSteps.Silent)
    val mixed = Map(s.lake.path("A") -> before(s.lake.path("A")), s.lake.path("B") -> 1L)
    assert(versions(s.lake, mixed) == Seq(1L, 1L))
  }

  test("a single table that was loaded with a commit that was then undone is read without it") {
    val s = new TwoTables()
    val path = s.lake.path("A")
    var seen = -1L
    val clash = Once { s.lake.foreign("B", s.lake.remove("b1"), s.lake.add("b9")); () }
    s.run(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "B") clash()
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") seen = slot
    })
    assert(seen == 1L)
    val read = s.lake.client().consistent(Map(path -> seen))(path)
    assert(s.lake.states.stateAt(path, read).files.keySet == Set("a1"))
  }

  test("a table on a store without put-if-absent is read beside those of transactions") {
    val s = new TwoTables()
    s.run(CommitSteps.Silent)
    val stores: io.lakestep.storage.ObjectStores = path =>
      if (path.startsWith("gs:")) throw io.lakestep.Errors(
        "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
        "path" -> path,
        "reason" -> "test"
      )
      else s.lake.store
    val seen = heads(s.lake) + (TableRef("gs://bucket/t") -> 3L)
    assert(s.lake.client(stores = stores).consistent(seen) == seen)
  }

  test("foreign commits are read, whatever their clocks say") {
    val s = new TwoTables()
    s.run(CommitSteps.Silent)
    s.lake.clock.advance(1000000)
    s.lake.foreign("A", s.lake.add("later"))
    s.lake.clock.advance(-2000000)
    assert(versions(s.lake, heads(s.lake)) == Seq(2L, 1L))
    val old = Map(s.lake.path("A") -> 0L, s.lake.path("B") -> 1L)
    assert(versions(s.lake, old) == Seq(2L, 1L))
  }

  test("an unfinished transaction on other tables does not keep a reader behind its own commits") {
    val s = new TwoTables()
    s.lake.create("C", "c1")
    val db = s.lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    })
    val txn = s.lake.begin(db)
    s.lake.stage(txn, "C", 0, s.lake.add("c2"))
    intercept[Crash](db.commit(txn, Seq(s.lake.written("C", 0))))
    // Nobody who begins can finish it.
    s.lake.store.delete(s.lake.netActions("C", txn.id))
    s.run(CommitSteps.Silent)
    assert(versions(s.lake, heads(s.lake)) == Seq(1L, 1L))
  }

  test("a query reads a transaction whole while another thread of its process loses numbers") {
    val lake = Lake.inMemory()
    Seq("A", "B", "C", "D").foreach(t => lake.create(t, t.toLowerCase + "1"))
    val options = DatabaseOptions(syncDataFiles = false)
    // Entry 1 stays unfinished.
    val dying = lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    })
    val d = lake.begin(dying)
    lake.stage(d, "D", 0, lake.add("d2"))
    intercept[Crash](dying.commit(d, Seq(lake.written("D", 0))))
    lake.store.delete(lake.netActions("D", d.id))

    val other = lake.client(options = options)
    def append(tables: String*): Unit = {
      val t = lake.begin(other)
      tables.foreach(n => lake.stage(t, n, 0, lake.add(s"$n-${t.id}")))
      val done = other.commit(t, tables.map(n => lake.written(n, 0).copy(stagedTo = 1L)))
      assert(done.isInstanceOf[CommitOutcome.Committed], done)
    }
    val others = Once { append("A", "B"); append("A", "C") }
    // The process of the reader: one of its threads commits over C.
    val db = lake.client(
      new CommitSteps { override def beforeOrder(entry: CommitEntry): Unit = others() },
      options = options
    )
    val mine = lake.begin(db)
    lake.stage(mine, "C", 0, lake.add("mine"))
    val commit = Once {
      val done = db.commit(mine, Seq(lake.written("C", 0).copy(stagedTo = 1L)))
      assert(done.isInstanceOf[CommitOutcome.Committed], done)
    }
    val seen = Seq("A", "B", "C").map(t => lake.path(t) -> lake.head(t)).toMap
    lake.memory.interceptGet = { (path, get) =>
      val found = get()
      if (path.endsWith("00000000000000000001.outcome.json")) commit()
      found
    }
    val read = db.consistent(seen)
    // By its marks: whether each holds entry 3.
    val marks = Seq("A", "C").map { t =>
      t -> (0L to read(lake.path(t))).flatMap(v => lake.log(t).read(v)).flatMap(_.mark).map(_.entry)
    }.toMap
    assert(marks("A").contains(3L) == marks("C").contains(3L))
  }
}
