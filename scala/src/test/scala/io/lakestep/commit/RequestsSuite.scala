package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{ReadSet, TableLog}
import io.lakestep.timeline.{CommitEntry, Rule}

/** How often a transaction asks the store: the formulas of docs/protocol/requests.md. */
final class RequestsSuite extends AnyFunSuite {

  /** Tables that are bound, each changed by one transaction before. */
  private class Scene(tables: Int, checkpointInterval: Int = 64) {
    val lake: Lake = Lake.inMemory()
    val names: Vector[String] = Vector.tabulate(tables)(i => s"T$i")
    names.foreach(lake.create(_, "first"))
    val options: DatabaseOptions =
      DatabaseOptions(syncDataFiles = false, checkpointInterval = checkpointInterval)
    val db: Database = lake.client(options = options)

    def stage(
        txn: BegunTransaction,
        tables: Seq[String] = names): Seq[WrittenTable] = tables.map { table =>
      val pin = db.pin(txn, lake.path(table), -1)
      lake.stage(txn, table, pin, lake.add(s"of-${txn.id}"))
      lake.written(table, pin)
    }

    def run(tables: Seq[String] = names): CommitOutcome = {
      val txn = lake.begin(db)
      db.commit(txn, stage(txn, tables))
    }

    // The first reading of the timeline lists it, also where there is nothing yet.
    if (tables > 0) run()

    def asked(work: => Any): Map[String, Int] = {
      lake.memory.requests = Vector.empty
      work
      lake.memory.requests.groupMapReduce(_.takeWhile(_ != ' '))(_ => 1)(_ + _)
    }
  }

  private val sizes = Seq(1, 2, 3, 8)

  test("BEGIN asks for the next entry and puts one file; READ ONLY puts none") {
    val s = new Scene(1)
    assert(s.asked(s.lake.begin(s.db)) == Map("get" -> 1, "put" -> 1))
    assert(s.asked(s.lake.begin(s.db, readOnly = true)) == Map("get" -> 1))
  }

  test("BEGIN asks for the next number, if that is taken for 16 more, and for each outcome") {
    val s = new Scene(1)
    val other = s.lake.client()
    for (n <- 1 to 3) {
      val txn = s.lake.begin(other)
      val pin = other.pin(txn, s.lake.path("T0"), -1)
      s.lake.stage(txn, "T0", pin, s.lake.add(s"other$n"))
      other.commit(txn, Seq(s.lake.written("T0", pin)))
    }
    assert(s.asked(s.lake.begin(s.db)) == Map("get" -> (1 + 16 + 3), "put" -> 1))
  }

  test("the first touch of a table lists its log and looks whether the timeline went on") {
    val s = new Scene(1)
    val txn = s.lake.begin(s.db)
    val expected = Map("list" -> 1, "get" -> 3)
    assert(s.asked(s.db.pin(txn, s.lake.path("T0"), -1)) == expected)
  }

  for (n <- sizes) test(s"COMMIT of $n tables") {
    val s = new Scene(n)
    val txn = s.lake.begin(s.db)
    val written = s.stage(txn)
    val asked = s.asked(assert(s.db.commit(txn, written).isInstanceOf[CommitOutcome.Committed]))
    assert(asked == Map(
      "put" -> (2 * n + 2),
      "list" -> 3 * n,
      "get" -> (2 * n + 1),
      "delete" -> (n + 1)
    ))
  }

  test("COMMIT reads each staged commit that its caller does not know") {
    val s = new Scene(1)
    val txn = s.lake.begin(s.db)
    val pin = s.db.pin(txn, s.lake.path("T0"), -1)
    for (statement <- 1 to 3) s.lake.stage(txn, "T0", pin, s.lake.add(s"statement$statement"))
    val written = Seq(s.lake.written("T0", pin).copy(stagedTo = pin + 3))
    val log = new TableLog(s.lake.memory, s.lake.path("T0"))
    val known = (pin + 1 to pin + 2)
      .flatMap(version => log.readStaged(txn.id, version)).map(c => c.version -> c.actions).toMap
    val one = written.map(_.copy(staged = known))
    assert(s.asked(s.db.commit(txn, one))("get") == 1 + 2)
  }

  test(
    "a COMMIT that is to put a checkpoint looks for it and a pack, puts them, and deletes the oldest"
  ) {
    val s = new Scene(1, checkpointInterval = 2)
    def commit() = {
      val txn = s.lake.begin(s.db)
      val written = s.stage(txn)
      s.asked(s.db.commit(txn, written))
    }
    (1 to 4).foreach(_ => s.run())
    val (due, without) = (commit(), commit())
    val more = due.map { case (verb, n) => verb -> (n - without.getOrElse(verb, 0)) }
    assert(more.filter(_._2 != 0) == Map("exists" -> 2, "put" -> 2, "list" -> 1, "delete" -> 1))
  }

  test("a client that is new reads the newest checkpoint and what follows it") {
    val s = new Scene(1, checkpointInterval = 2)
    (1 to 4).foreach(_ => s.run())
    val other = s.lake.client(options = s.options)
    assert(s.asked(s.lake.begin(other, readOnly = true)) == Map("list" -> 2, "get" -> 5))
  }

  test("what BEGIN AS OF version n and two tables there ask for has a bound, whatever n is") {
    val interval = 2
    val s = new Scene(2, checkpointInterval = interval)
    val entries = 520
    (2 to entries).foreach { _ =>
      s.lake.clock.advance(10)
      s.run()
    }
    def asked(n: Int) = {
      val reader = s.lake.client(options = s.options)
      s.asked {
        val request = BeginRequest(None, "me", "suite", IsolationLevel.Snapshot, true, 0)
        val txn = reader.begin(request.copy(asOf = Some(AsOf.Version(n.toLong))))
        assert(txn.snapshot == n)
        s.names.foreach(t => assert(reader.pinned(txn, s.lake.path(t), -1).version == n))
      }
    }
    // A state is kept after so many entries; from there on it is the same way to each of them.
    val every = interval * 64
    for (after <- Seq(1, every / 2, every - 1)) {
      val costs = (after to entries - every by every).map(asked)
      // But for the kept states before it, of which up to 16 are looked at at once.
      val others = costs.zipWithIndex.map { case (cost, n) => cost + ("get" -> (cost("get") - n)) }
      assert(others.distinct.size == 1, costs)
      assert(costs.last("get") <= after / interval + 17, costs)
    }
  }

  test("the first touch in an overtaken transaction of a table that was not written for long") {
    val interval = 2
    val s = new Scene(2, checkpointInterval = interval)
    def write(times: Int, tables: String*): Unit = (1 to times).foreach { _ =>
      s.lake.clock.advance(10)
      s.run(tables)
    }
    write(3, "T0", "T1")
    for (quiet <- Seq(interval * 3, interval * 64, interval * 64 * 4)) {
      val version = s.lake.head("T1")
      val slow = s.lake.client(options = s.options)
      val txn = s.lake.begin(slow)
      write(quiet, "T0")
      write(8 * interval, "T0", "T1")
      slow.begin(BeginRequest(None, "me", "suite", IsolationLevel.Snapshot, true, 0))
      val cost = s.asked(assert(slow.pinned(txn, s.lake.path("T1"), -1).version == version))("get")
      val packs = quiet / interval
      // Near packs, or of those 64 and then kept states, and the packs after one.
      assert(cost <= (if (packs < 4) 30 else 64 + 64 + 40), s"$packs packs: $cost")
    }
  }

  /** What COMMIT of T0 asks from its first lost number on, when others meanwhile do this. */
  private def afterLosing(
      isolation: IsolationLevel = IsolationLevel.Snapshot,
      reads: Seq[String] = Nil)(meanwhile: Scene => Unit): Map[String, Int] = {
    val (outcome, asked) = losing(isolation, reads)(meanwhile)
    assert(outcome.isInstanceOf[CommitOutcome.Committed])
    asked
  }

  private def losing(isolation: IsolationLevel, reads: Seq[String])(
      meanwhile: Scene => Unit): (CommitOutcome, Map[String, Int]) = {
    val s = new Scene(3)
    var isLost = false
    val db = s.lake.client(
      new CommitSteps {
        override def beforeOrder(entry: CommitEntry): Unit = if (!isLost) {
          isLost = true
          meanwhile(s)
          s.lake.memory.requests = Vector.empty
        }
      },
      options = s.options.copy(pause = _ => (), afterwards = _ => ())
    )
    val txn = s.lake.begin(db, isolation = isolation)
    val pin = db.pin(txn, s.lake.path("T0"), -1)
    val read = reads.map { name =>
      val table = db.pinned(txn, s.lake.path(name), -1)
      ReadTable(s.lake.path(name), name, table.version, ReadSet.WholeTable, Some(table))
    }
    s.lake.stage(txn, "T0", pin, s.lake.add("mine"))
    var outcome = Option.empty[CommitOutcome]
    val asked =
      s.asked { outcome = Some(db.commit(txn, Seq(s.lake.written("T0", pin)), read)) }
    outcome.get -> asked
  }

  /** What a second try asks, and what comes after the entry. */
  private val lost = Map("get" -> (4 + 4), "list" -> (2 + 1), "put" -> (2 + 2))

  test("a lost number costs two readings of the next four, and one more put") {
    assert(afterLosing()(_.run(Seq("T1"))) == lost)
    assert(afterLosing(IsolationLevel.Serializable, Seq("T2"))(_.run(Seq("T1"))) == lost)
  }

  test(
    "who lost a number lists logs again where the others wrote, or were read, or it is long ago"
  ) {
    def again(asked: Map[String, Int]) = asked("list") > lost("list")
    assert(again(afterLosing()(_.run(Seq("T0")))))
    assert(again(afterLosing()(s => { s.run(Seq("T1")); s.lake.clock.advance(1000) })))
    def serializable(others: Seq[String]) =
      afterLosing(IsolationLevel.Serializable, Seq("T2"))(_.run(others))
    assert(again(serializable(Seq("T1", "T0"))))
    // What is only read was changed.
    losing(IsolationLevel.Serializable, Seq("T2"))(_.run(Seq("T2")))._1 match {
      case CommitOutcome.Conflicted(conflict, _) => assert(conflict.rule == Rule.ReadChanged)
      case other => fail(other.toString)
    }
    // Of an entry that has read what we write, which 5b finishes first.
    assert(again(afterLosing() { s =>
      val txn = s.lake.begin(s.db, isolation = IsolationLevel.Serializable)
      val table = s.db.pinned(txn, s.lake.path("T0"), -1)
      val read =
        ReadTable(s.lake.path("T0"), "T0", table.version, ReadSet.WholeTable, Some(table))
      val outcome = s.db.commit(txn, s.stage(txn, Seq("T1")), Seq(read))
      assert(outcome.isInstanceOf[CommitOutcome.Committed])
    }))
  }

  test("COMMIT reads each commit that others made after the pin once to check it, and no other") {
    val s = new Scene(2)
    val txn = s.lake.begin(s.db)
    val written = s.stage(txn)
    val before = 5
    for (foreign <- 1 to 3) s.lake.foreign("T0", s.lake.add(s"foreign$foreign"))
    assert(s.asked(s.db.commit(txn, written))("get") == before + 3)
  }

  test("COMMIT that validates again reads only the commits that are new") {
    val s = new Scene(1)
    val steps = new CommitSteps {
      private val lose = Once {
        s.run()
        s.lake.memory.requests = Vector.empty
      }
      override def beforeOrder(entry: CommitEntry): Unit = lose()
    }
    val db = s.lake.client(steps, options = s.options)
    val txn = s.lake.begin(db)
    val pin = db.pin(txn, s.lake.path("T0"), -1)
    s.lake.stage(txn, "T0", pin, s.lake.add("mine"))
    val written = Seq(s.lake.written("T0", pin))
    for (n <- 1 to 3) s.lake.foreign("T0", s.lake.add(s"foreign$n"))
    assert(db.commit(txn, written).isInstanceOf[CommitOutcome.Committed])
    def reads(version: Long) =
      s.lake.memory.requests.count(_ == s"get ${s.lake.path("T0").slot(version)}")
    assert((pin + 1 to pin + 4).map(reads) == Seq(0, 0, 0, 1))
  }

  for (n <- 0 +: sizes) test(s"ROLLBACK of $n tables reads what is staged and deletes its files") {
    val s = new Scene(n)
    val txn = s.lake.begin(s.db)
    val written = s.stage(txn)
    val staged = written.map(t => t.path -> t.stagedTo)
    val expected = Map("get" -> n, "delete" -> (2 * n + 1)).filter(_._2 > 0)
    assert(s.asked(s.db.discard(txn, written.map(_.path), staged)) == expected)
  }
}
