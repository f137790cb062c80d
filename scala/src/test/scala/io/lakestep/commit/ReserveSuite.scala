package io.lakestep.commit

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{Action, ForeignWriters, JsonStates, MarkKind, MetaData, Protocol, ReadSet}
import io.lakestep.timeline.{CommitEntry, EntryTable, Outcome, Rule}

/** `lakestep.foreignWriters = reserve`: nothing that a foreign reader has seen is taken back. */
final class ReserveSuite extends AnyFunSuite {

  private val Reserve = "reserve"
  private val Named = Vector("appendOnly", "rowTracking")

  /** A and B of these modes, and a transaction that rewrites a1 and b1. */
  private class Scene(
      modes: Map[String, String] = Map("A" -> Reserve, "B" -> Reserve),
      features: Seq[String] = Vector.empty,
      val lake: Lake = Lake.inMemory()) {
    val names: Vector[String] = modes.keys.toVector.sorted
    for (table <- names) {
      val properties = Map(ForeignWriters.Property -> modes(table))
      val open = lake.protocol(features: _*)
      val protocol =
        if (modes(table) == ForeignWriters.Forbid) ForeignWriters.fenced(open) else open
      lake.create(table, protocol, properties, Seq(file(table, 1), s"other-$table"))
    }
    val before: Map[String, Protocol] = names.map(t => t -> protocol(t)).toMap

    def file(table: String, number: Int): String = s"${table.toLowerCase}$number"

    def protocol(table: String): Protocol =
      lake.states.stateAt(lake.path(table), lake.head(table)).protocol

    def isFenced(table: String): Boolean = ForeignWriters.isFenced(protocol(table))

    def run(
        observer: CommitSteps = CommitSteps.Silent,
        safeguards: Safeguards = Safeguards.all): CommitOutcome = {
      val db = lake.client(observer, safeguards = safeguards)
      val txn = lake.begin(db)
      for (t <- names) lake.stage(txn, t, 0, lake.remove(file(t, 1)), lake.add(file(t, 2)))
      db.commit(txn, names.map(lake.written(_, 0).copy(stagedTo = 1L)))
    }

    /** What any other writer does: it refuses a feature that it does not know. */
    def foreign(table: String, actions: Action*): Boolean =
      !isFenced(table) && lake.foreign(table, actions: _*) > 0

    def kinds(table: String): Vector[MarkKind] = lake.marks(table).map(_.kind)

    def isDone: Boolean = names.forall(t => lake.live(t) == Set(file(t, 2), s"other-$t"))
    def isUntouched: Boolean = names.forall(t => lake.live(t) == Set(file(t, 1), s"other-$t"))

    def checkNothingUndone(): Unit =
      names.foreach { t =>
        assert(!kinds(t).contains(MarkKind.Undo), kinds(t))
        assert(protocol(t).sameAs(before(t)), protocol(t).body)
      }
  }

  /** Does something, or crashes, at the n-th step from the order point on. */
  private class AtStep(n: Int, work: => Unit) extends CommitSteps {
    private var steps = 0
    var told = Vector.empty[String]
    private def step(name: String): Unit = synchronized {
      steps += 1
      told = told :+ name
      if (steps == n) work
    }
    override def ordered(e: CommitEntry): Unit = step("ordered")
    override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
      step(s"before ${t.name} $part")
    override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
      step(s"published ${t.name} $part")
    override def beforeDecision(e: CommitEntry, o: Outcome): Unit = step("deciding")
    override def decided(e: CommitEntry, o: Outcome): Unit = step("decided")
    override def beforeSettle(e: CommitEntry, t: EntryTable, slot: Long): Unit =
      step(s"settling ${t.name}")
    override def settled(e: CommitEntry, t: EntryTable, slot: Long): Unit =
      step(s"settled ${t.name}")
    def isOver: Boolean = steps < n
  }

  /** Runs `check` for the first step, the second, and so on until there is none. */
  private def atEachStep(check: Int => AtStep): Int =
    Iterator.from(1).map(n => n -> check(n)).find(_._2.isOver).map(_._1 - 1).getOrElse(fail())

  for (features <- Seq(Vector.empty, Named))
    test(s"all fences are in before anything is published, and gone with it ($features)") {
      val s = new Scene(features = features)
      val seen = mutable.Buffer.empty[Boolean]
      val outcome = s.run(new CommitSteps {
        override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
          if (part > 0) seen.synchronized {
            seen += e.tables.forall { t =>
              s.isFenced(t.name) || s.kinds(t.name).contains(MarkKind.Publish)
            }
            ()
          }
      })
      assert(outcome.isInstanceOf[CommitOutcome.Committed] && s.isDone)
      assert(seen.size == 2 && seen.forall(identity))
      s.names.foreach { t =>
        assert(s.kinds(t) == Vector(MarkKind.Reserve, MarkKind.Publish))
        val fence = s.lake.log(t).read(1).getOrElse(fail())
        assert(fence.files.isEmpty && !fence.actions.exists(_.isInstanceOf[MetaData]))
      }
      s.checkNothingUndone()
    }

  test("a foreign writer that tries at any step never makes anything be undone") {
    val outcomes = mutable.Set.empty[(Boolean, Boolean)]
    for (table <- Seq("A", "B")) {
      val steps = atEachStep { n =>
        val s = new Scene()
        var wrote = false
        val at = new AtStep(n, { wrote = s.foreign(table, s.lake.remove(s.file(table, 1))) })
        val committed = s.run(at).isInstanceOf[CommitOutcome.Committed]
        // What a foreign writer does after the publish is a change of what was committed.
        val mayConflict = wrote && !at.told.take(n).contains(s"published $table 1")
        assert(committed == !mayConflict, at.told)
        s.checkNothingUndone()
        outcomes += ((committed, wrote))
        at
      }
      assert(steps >= 11, steps)
    }
    assert(outcomes == Set((true, false), (true, true), (false, true)))
  }

  test("without all fences before the first publish something is undone") {
    val undone = mutable.Set.empty[MarkKind]
    atEachStep { n =>
      val s = new Scene()
      val at = new AtStep(n, { s.foreign("B", s.lake.remove("b1")); () })
      s.run(at, Safeguards(reservesFirst = false))
      undone ++= s.kinds("A")
      at
    }
    assert(undone(MarkKind.Undo))
  }

  test("a client that dies at any step, with or without a foreign conflict: another one ends it") {
    for (conflicts <- Seq(false, true); cleansUp <- Seq(false, true)) {
      val ends = mutable.Set.empty[Boolean]
      atEachStep { n =>
        val s = new Scene(features = Named)
        val at = new AtStep(n, throw new Crash)
        try {
          s.run(at)
          ()
        } catch { case _: Crash => () }
        if (conflicts) s.foreign("B", s.lake.remove("b1"))
        if (cleansUp) s.names.foreach(t => JsonStates.cleanUp(s.lake.store, s.lake.path(t).uri))
        val report = s.lake.client().recover()
        assert(report.failed.isEmpty, at.told)
        val conflicted = conflicts && s.lake.live("B") == Set("other-B")
        assert(s.isDone || s.isUntouched || conflicted, at.told)
        assert(s.lake.live("A") == Set("a2", "other-A") || !s.lake.live("B")("b2"), at.told)
        s.checkNothingUndone()
        ends += s.isDone
        at
      }
      assert(ends(true) && (!conflicts || ends(false)))
    }
  }

  test("two helpers at once, and the owner that goes on: one fence, one end") {
    atEachStep { n =>
      val s = new Scene()
      val at = new AtStep(n, { s.lake.client().recover(); () })
      assert(s.run(at).isInstanceOf[CommitOutcome.Committed] && s.isDone)
      s.names.foreach(t => assert(s.kinds(t) == Vector(MarkKind.Reserve, MarkKind.Publish)))
      at
    }
  }

  test("the price: a put and a listing more for each table") {
    def requests(mode: String): Map[String, Int] = {
      val s = new Scene(Map("A" -> mode, "B" -> mode))
      s.run()
      s.lake.memory.requests.map(_.takeWhile(_ != ' ')).groupBy(identity).view.mapValues(_.size)
        .toMap
    }
    val (allow, reserve) = (requests(ForeignWriters.Allow), requests(Reserve))
    val more = reserve.map { case (kind, n) => kind -> (n - allow.getOrElse(kind, 0)) }
    assert(more.filter(_._2 != 0) == Map("put" -> 2, "list" -> 2))
  }

  test("without two tables that can conflict there is no fence") {
    val closed = new Scene(Map("A" -> Reserve, "B" -> ForeignWriters.Forbid))
    assert(closed.run().isInstanceOf[CommitOutcome.Committed])
    assert(closed.names.forall(closed.kinds(_) == Vector(MarkKind.Publish)))
    val open = new Scene(Map("A" -> ForeignWriters.Allow, "B" -> ForeignWriters.Allow))
    assert(open.run().isInstanceOf[CommitOutcome.Committed])
    assert(open.names.forall(open.kinds(_) == Vector(MarkKind.Publish)))
  }

  for (guarded <- Seq(Reserve, ForeignWriters.Forbid))
    test(
      s"one table that anyone writes is published before those of mode $guarded: nothing is undone"
    ) {
      val modes = Map("A" -> guarded, "B" -> ForeignWriters.Allow, "C" -> guarded)
      atEachStep { n =>
        val s = new Scene(modes)
        val at = new AtStep(n, { s.foreign("B", s.lake.remove("b1")); () })
        s.run(at)
        s.checkNothingUndone()
        at
      }
    }

  test("what a fence does to the protocol is no conflict for other transactions") {
    val s = new Scene()
    val db = s.lake.client()
    val txn = s.lake.begin(db)
    s.lake.stage(txn, "A", 0, s.lake.remove("other-A"), s.lake.add("mine"))
    assert(s.run().isInstanceOf[CommitOutcome.Committed])
    val written = s.lake.written("A", 0).copy(stagedTo = 1L)
    assert(db.commit(txn, Seq(written)).isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("A") == Set("a2", "mine"))
    assert(s.protocol("A").sameAs(s.before("A")))
  }

  test("a change of the protocol by the transaction itself stays one") {
    val s = new Scene()
    val db = s.lake.client()
    val (txn, other) = (s.lake.begin(db), s.lake.begin(db))
    s.lake.stage(txn, "A", 0, s.lake.protocol("appendOnly", "invariants", "rowTracking"))
    s.lake.stage(txn, "B", 0, s.lake.remove("b1"))
    s.lake.stage(other, "A", 0, s.lake.add("mine"))
    def written(table: String) = s.lake.written(table, 0).copy(stagedTo = 1L)
    assert(db.commit(txn, Seq(written("A"), written("B"))).isInstanceOf[CommitOutcome.Committed])
    assert(s.kinds("A") == Vector(MarkKind.Reserve, MarkKind.Publish) && !s.isFenced("A"))
    assert(s.protocol("A").writerFeatures.exists(_("rowTracking")))
    db.commit(other, Seq(written("A"))) match {
      case CommitOutcome.Conflicted(c, _) => assert(c.rule == Rule.ProtocolChanged)
      case o => fail(o.toString)
    }
  }

  test("a snapshot from before is pinned below the fence") {
    val s = new Scene()
    val db = s.lake.client()
    val old = s.lake.begin(db)
    assert(s.run().isInstanceOf[CommitOutcome.Committed])
    s.lake.clock.advance(1000)
    assert(db.pinned(old, s.lake.path("A"), notBelow = -1L).version == 0)
    assert(db.pinned(s.lake.begin(db), s.lake.path("A"), notBelow = -1L).version == 2)
  }

  test(
    "a log that is cleaned up under its fence is no conflict, whatever the transaction depends on"
  ) {
    val s = new Scene()
    val cleanUp = Once {
      s.names.foreach(t => JsonStates.cleanUp(s.lake.store, s.lake.path(t).uri))
    }
    val db = s.lake.client(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (part == 1) cleanUp()
    })
    val txn = s.lake.begin(db, IsolationLevel.Serializable)
    for (t <- s.names)
      s.lake.stage(txn, t, 0, s.lake.remove(s.file(t, 1)), s.lake.add(s.file(t, 2)))
    val tables = s.names.map(s.lake.written(_, 0).copy(reads = Some(ReadSet.WholeTable)))
    assert(db.commit(txn, tables).isInstanceOf[CommitOutcome.Committed])
    assert(s.isDone)
    s.checkNothingUndone()
  }
}
