package io.lakestep.commit

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.timeline.{CommitEntry, Conflict, Rule}
import io.lakestep.log.TableRef

/** From which statement on a transaction is run again after a conflict. */
final class RerunSuite extends AnyFunSuite {

  /** Five statements, each the first on a table of its own; statement 3 meets the conflict. */
  private class Scene {
    val lake: Lake = Lake.inMemory()
    val names: Seq[String] = Seq("A", "B", "C", "D", "E")
    names.foreach(t => lake.create(t, s"${t.toLowerCase}1"))
    lake.clock.advance(10)
    val db: Database = lake.client()
    val txn: BegunTransaction = lake.begin(db)
    val touched: Seq[FirstTouch] = names.zipWithIndex.map { case (t, i) =>
      FirstTouch(lake.path(t), db.pinned(txn, lake.path(t), -1), i)
    }
    lake.clock.advance(10)
    lake.foreign("D", lake.remove("d1"), lake.add("d2"))

    def conflict(path: String): Conflict =
      Conflict.overTable(Rule.SameFile, "D", TableRef(path))

    def rerun(): Rerun =
      db.rerun(txn, touched, conflict(lake.path("D").uri)).getOrElse(fail("nothing to run again"))

    /** Another client's transaction, which may die at the order point. */
    def own(table: String, dies: Boolean = false): Unit = {
      val other = lake.client(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = if (dies) throw new Crash
      })
      val theirs = lake.begin(other)
      val pin = other.pin(theirs, lake.path(table), -1)
      lake.stage(theirs, table, pin, lake.add(s"own${theirs.id}"))
      try other.commit(theirs, Seq(lake.written(table, pin)))
      catch { case _: Crash => }
      ()
    }
  }

  test("statements before the first on the conflicting table stay when nothing has changed there") {
    val s = new Scene
    s.own("E")
    s.lake.clock.advance(5)
    val found = s.rerun()
    assert(found.statement == 3)
    val base = s.db.timeline.known.snapshot
    assert(base.number == 1)
    assert(
      found.txn == s.txn.copy(snapshot = 1, base = base, requestedAtMs = s.lake.clock.nowMs())
    )
    assert(s.db.pin(found.txn, s.lake.path("D"), -1) == 1)
    assert(s.db.pin(found.txn, s.lake.path("E"), -1) == 1)
  }

  test("a table that anybody has changed since its pin is read again, and all that came after") {
    val changes = Seq[Scene => Any](
      s => s.lake.foreign("B", s.lake.add("b2")),
      s => s.own("B"),
      s => s.own("B", dies = true),
      s => { s.own("C"); s.lake.foreign("B", s.lake.add("b2")) }
    )
    for (change <- changes) {
      val s = new Scene
      change(s)
      s.lake.clock.advance(5)
      assert(s.rerun().statement == 1)
    }
  }

  test("a table that was dropped, or made again with as many versions, has changed") {
    for (isMadeAgain <- Seq(true, false)) {
      val s = new Scene
      s.lake.drop("A")
      s.lake.clock.advance(5)
      if (isMadeAgain) s.lake.create("A", "a1")
      assert(s.rerun().statement == 0)
    }
  }

  test("a statement that is run again may do what it did before, on another version") {
    val s = new Scene
    import s.lake
    def stage(txn: BegunTransaction, table: String, pin: Long): WrittenTable = {
      val actions =
        if (table == "D") Seq(lake.remove(s"d${pin + 1}"), lake.add("ours"))
        else Seq(lake.metaData("id-E", properties = Map("owner" -> "me")))
      lake.stage(txn, table, pin, actions: _*)
      lake.written(table, pin).copy(stagedTo = pin + 1)
    }
    val first = Seq("D", "E").map(stage(s.txn, _, 0))
    lake.foreign("E", lake.add("e2"))
    lake.clock.advance(5)
    val conflict = s.db.commit(s.txn, first) match {
      case CommitOutcome.Conflicted(c, None) => c
      case other => fail(other.toString)
    }
    val again = s.db.rerun(s.txn, s.touched, conflict).getOrElse(fail("nothing to run again"))
    first.foreach(t => s.db.dropStaged(s.txn, t.path, Seq(1L)))
    val second = Seq("D", "E").map(t => stage(again.txn, t, s.db.pin(again.txn, lake.path(t), -1)))
    assert(second.map(_.pin) == Seq(1L, 1L))
    assert(s.db.commit(again.txn, second).isInstanceOf[CommitOutcome.Committed])
  }

  test("a conflict over no table of the transaction leaves nothing to run again") {
    val s = new Scene
    for (path <- Seq("", "/elsewhere/D"))
      assert(s.db.rerun(s.txn, s.touched, s.conflict(path)).isEmpty)
  }

  test("what is kept is what a transaction that begins now would read, whatever the clocks say") {
    val seed = System.nanoTime()
    val random = new Random(seed)
    for (_ <- 1 to 200) {
      val s = new Scene
      for (_ <- 1 to random.nextInt(4)) {
        val table = s.names(random.nextInt(s.names.size))
        if (random.nextBoolean()) s.own(table)
        else {
          // Another clock than ours: a commit may seem to come from the future, or the past.
          val skewMs = random.nextInt(41).toLong - 20
          s.lake.clock.advance(skewMs)
          s.lake.foreign(table, s.lake.add(s"f${random.nextInt()}"))
          s.lake.clock.advance(-skewMs)
        }
      }
      val found = s.rerun()
      val other = s.lake.client()
      val fresh = s.lake.begin(other)
      assert(found.statement <= 3, s"seed $seed")
      assert(
        (found.txn.snapshot, found.txn.requestedAtMs) ==
          ((fresh.snapshot, fresh.requestedAtMs)),
        s"seed $seed"
      )
      for (t <- s.touched if t.statement < found.statement)
        assert(other.pin(fresh, t.path, -1) == t.pin.version, s"seed $seed")
    }
  }
}
