package io.lakestep.commit

import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LakestepException}
import io.lakestep.log.{
  AddFile, CommitInfo, CommitMark, DomainMetadata, JsonStates, LogCommit, MarkKind, MetaData,
  Protocol, ReadScan, ReadSet, RemoveFile, RowFilter, TableLog, TableRef
}
import io.lakestep.storage.{LocalStore, MemoryStore, PutOutcome}
import io.lakestep.timeline.{CommitEntry, EntryTable, Outcome, Rule}

final class CommitSuite extends AnyFunSuite {

  /** Two tables; a transaction rewrites a1 in A and appends to B, or rewrites b1 as well. */
  private class Scene(val lake: Lake = Lake.inMemory(), rewriteB: Boolean = false) {
    if (lake.head("A") < 0) { lake.create("A", "a1", "a2"); lake.create("B", "b1") }
    lake.clock.advance(10)
    val before: (Set[String], Set[String]) = (lake.live("A"), lake.live("B"))

    def run(db: Database, meanwhile: => Unit = ()): CommitOutcome = {
      val txn = lake.begin(db)
      val (a, b) = (db.pin(txn, lake.path("A"), -1), db.pin(txn, lake.path("B"), -1))
      lake.stage(txn, "A", a, lake.remove("a1"), lake.add("a3"))
      if (rewriteB) lake.stage(txn, "B", b, lake.remove("b1"), lake.add("b2"))
      else lake.stage(txn, "B", b, lake.add("b2"))
      lake.clock.advance(10)
      meanwhile
      db.commit(txn, Seq(lake.written("A", a), lake.written("B", b)))
    }

    def isDone: Boolean =
      Set("a2", "a3").subsetOf(lake.live("A")) && !lake.live("A")("a1") && lake.live("B")("b2")
    def isUndone: Boolean = lake.live("A")("a1") && !lake.live("A")("a3") && !lake.live("B")("b2")
    def ownCommits(table: String): Vector[CommitMark] =
      (0L to lake.head(table)).toVector.flatMap(v => lake.log(table).read(v)).flatMap(_.mark)
  }

  private def scene(rewriteB: Boolean = false) = new Scene(rewriteB = rewriteB)

  private def onOrdered(body: => Unit): CommitSteps = {
    val run = Once(body)
    new CommitSteps { override def ordered(entry: CommitEntry): Unit = run() }
  }

  /** After the entry's publish in the named table. */
  private def onPublished(table: String)(body: => Unit): CommitSteps = {
    val run = Once(body)
    new CommitSteps {
      override def published(entry: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == table) run()
    }
  }

  test("two tables: both change, and the published commits carry the mark") {
    val s = scene()
    val db = s.lake.client()
    s.run(db) match {
      case CommitOutcome.Committed(entry, slots, _, _, _, _) =>
        assert(entry.number == 1 && slots == Vector(Vector(1L), Vector(1L)))
        assert(entry.tables.map(_.conflictCapable) == Vector(true, false))
      case other => fail(other.toString)
    }
    assert(s.isDone)
    val commit = s.lake.log("A").read(1).getOrElse(fail())
    assert(commit.actions.head.isInstanceOf[CommitInfo])
    assert(commit.mark.exists(m => m.entry == 1 && m.table == 0 && m.kind == MarkKind.Publish))
    assert(commit.actions.collectFirst { case r: RemoveFile =>
      r.body.get("deletionTimestamp").asLong
    }
      .contains(s.lake.clock.nowMs()))
    val state = s.lake.states.stateAt(s.lake.path("A"), 1)
    assert(state.txnVersion(CommitMark.appId(db.timeline.id, "id-A")).contains(5L))
    assert(s.lake.begin(s.lake.client()).snapshot == 1)
  }

  test("the good path puts one entry, one commit a table and one outcome") {
    val s = scene()
    val store = s.lake.store.asInstanceOf[MemoryStore]
    val db = s.lake.client(options = DatabaseOptions(syncDataFiles = false))
    s.run(db, { store.requests = Vector.empty })
    val puts =
      store.requests.filter(_.startsWith("put ")).filterNot(_.contains("_delta_log/_lakestep/"))
    assert(puts.size == 4, puts.mkString("\n"))
  }

  test("nothing staged: nothing to commit, and no entry") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val db = lake.client()
    val txn = lake.begin(db)
    assert(db.commit(txn, Seq(lake.written("A", 0))) == CommitOutcome.NothingToCommit)
    assert(db.timeline.refresh().next == 1)
    assert(db.describe(txn.id).isInstanceOf[TransactionStatus.Open])
    db.discard(txn, Seq(lake.path("A")))
    assert(db.describe(txn.id) == TransactionStatus.NotFound)
  }

  test("discard removes staged commits and the REQUESTED file, and no data file") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val db = lake.client()
    val txn = lake.begin(db)
    assert(db.describe(txn.id).isInstanceOf[TransactionStatus.Open])
    lake.stage(txn, "A", 0, lake.add("a2"))
    lake.file("A", "a2")
    db.discard(txn, Seq(lake.path("A")))
    db.discard(txn, Seq(lake.path("A")))
    assert(!lake.store.asInstanceOf[MemoryStore].paths.exists(_.contains(txn.id)))
    assert(lake.store.exists(lake.path("A").dataFile("a2")))
  }

  test("discard removes the data files that staged commits have made, and no others") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val db = lake.client()
    val txn = lake.begin(db)
    for ((operation, file) <- Seq("WRITE" -> "a2", "RESTORE" -> "a3")) {
      lake.stage(txn, "A", 0, lake.commitInfo(operation), lake.add(file))
      lake.file("A", file)
    }
    for (_ <- 1 to 2) db.discard(txn, Seq(lake.path("A")), Seq(1L, 2L).map(lake.path("A") -> _))
    val left = Seq("a1", "a2", "a3").filter(f => lake.store.exists(lake.path("A").dataFile(f)))
    assert(left == Seq("a1", "a3"))
    assert(lake.staged(txn, "A") == 0)
  }

  test("a foreign append before the order point is stepped over") {
    val s = scene()
    val outcome = s.run(s.lake.client(), { s.lake.foreign("A", s.lake.add("f")); () })
    assert(outcome.isInstanceOf[CommitOutcome.Committed] && s.isDone && s.lake.live("A")("f"))
    assert(s.lake.head("A") == 2)
  }

  test("a foreign conflict before the order point: conflict, no entry, nothing changed") {
    val s = scene()
    val db = s.lake.client()
    s.run(db, { s.lake.foreign("A", s.lake.remove("a1")); () }) match {
      case CommitOutcome.Conflicted(c, None) =>
        assert(c.rule == Rule.SameFile && c.table == "A" && c.version.contains(1L))
        assert(c.files == Vector("a1") && c.user.contains("someone"))
      case other => fail(other.toString)
    }
    assert(db.timeline.refresh().next == 1 && s.lake.head("B") == 0)
  }

  test("a foreign conflict after the order point: every table is closed, nothing is undone") {
    val s = scene()
    val db = s.lake.client(onOrdered { s.lake.foreign("A", s.lake.remove("a1")); () })
    assert(s.run(db).asInstanceOf[CommitOutcome.Conflicted].entry.contains(1L))
    assert(s.ownCommits("A").map(_.kind) == Vector(MarkKind.Close))
    assert(s.ownCommits("B").map(_.kind) == Vector(MarkKind.Close))
    assert(db.recover().finished.isEmpty && db.timeline.refresh().finished == 1)
  }

  test("a foreign conflict in the second table while publishing: the first is undone") {
    val s = scene(rewriteB = true)
    val db = s.lake.client(onPublished("A") { s.lake.foreign("B", s.lake.remove("b1")); () })
    assert(s.run(db).isInstanceOf[CommitOutcome.Conflicted])
    assert(s.ownCommits("A").map(_.kind) == Vector(MarkKind.Publish, MarkKind.Undo))
    assert(s.ownCommits("B").map(_.kind) == Vector(MarkKind.Close))
    assert(s.lake.live("A") == s.before._1)
    val undo = s.lake.log("A").read(s.lake.head("A")).getOrElse(fail())
    val restored = undo.actions.collectFirst { case a: AddFile => a }.getOrElse(fail())
    assert(restored.numRecords.contains(10L))
  }

  test("a foreign commit that built upon what is undone: kept whole and listed as residue") {
    val s = scene(rewriteB = true)
    val db = s.lake.client(onPublished("A") {
      s.lake.foreign("A", s.lake.remove("a3"), s.lake.add("f"))
      s.lake.foreign("B", s.lake.remove("b1"))
      ()
    })
    s.run(db) match {
      case CommitOutcome.LeftResidue(conflict, 1, residue) =>
        assert(conflict.rule == Rule.SameFile && residue == Vector(
          "A: a1",
          "A: a3",
          "A: f"
        ))
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == Set("a2", "f"))
    db.describe(s.lake.firstTransaction) match {
      case TransactionStatus.RolledBack(_, conflict, residue) =>
        assert(conflict.rule == Rule.SameFile && residue.exists(_.contains("f")))
      case other => fail(other.toString)
    }
    assert(s.lake.begin(db).snapshot == 1)
  }

  test("what others built upon is known however they spell its path") {
    for ((ours, theirs) <- Seq("p=x%20y/f1" -> "p=x y/f1", "p=x y/f1" -> "p=x%20y/f1")) {
      val s = scene(rewriteB = true)
      val db = s.lake.client(onPublished("A") {
        s.lake.foreign("A", s.lake.remove(theirs), s.lake.add("built"))
        s.lake.foreign("B", s.lake.remove("b1"))
        ()
      })
      val txn = s.lake.begin(db)
      s.lake.stage(txn, "A", 0, s.lake.remove("a1"), s.lake.add(ours))
      s.lake.stage(txn, "B", 0, s.lake.remove("b1"))
      val outcome = db.commit(txn, Seq("A", "B").map(s.lake.written(_, 0)))
      assert(outcome.isInstanceOf[CommitOutcome.LeftResidue])
      // With a1 its rows would be there twice.
      assert(!s.lake.live("A")("a1"))
    }
  }

  test("a foreign OPTIMIZE of what is undone is reversed") {
    val s = scene(rewriteB = true)
    val db = s.lake.client(onPublished("A") {
      s.lake.foreign(
        "A",
        s.lake.remove("a3", dataChange = false),
        s.lake.remove("a2", dataChange = false),
        s.lake.add("packed", dataChange = false)
      )
      s.lake.foreign("B", s.lake.remove("b1"))
      ()
    })
    assert(s.run(db).isInstanceOf[CommitOutcome.Conflicted])
    assert(s.lake.live("A") == s.before._1)
  }

  /** Trino's removes tell neither size nor partition. */
  private def bareRemove(name: String): RemoveFile =
    RemoveFile(Json.obj().put("path", name).put("deletionTimestamp", 1).put("dataChange", false))

  test("a foreign OPTIMIZE is reversed as the files were, also where its removes tell little") {
    val s = scene(rewriteB = true)
    val db = s.lake.client(onPublished("A") {
      s.lake.file("A", "f")
      s.lake.foreign("A", s.lake.add("f"))
      s.lake.foreign(
        "A",
        Seq("a3", "a2", "f").map(bareRemove) :+ s.lake.add("packed", dataChange = false): _*
      )
      s.lake.foreign("B", s.lake.remove("b1"))
      ()
    })
    assert(s.run(db).isInstanceOf[CommitOutcome.Conflicted])
    assert(s.lake.live("A") == s.before._1 + "f")
    val state = s.lake.states.stateAt(s.lake.path("A"), s.lake.head("A"))
    val found = state.files.values.map(f => (f.add.sizeBytes, f.add.numRecords)).toSet
    assert(found == Set((100L, Some(10L))))
  }

  test("a foreign OPTIMIZE of a file that nothing describes is not reversed") {
    val s = scene(rewriteB = true)
    val db = s.lake.client(onPublished("A") {
      s.lake.file("A", "unknown")
      s.lake.foreign(
        "A",
        Seq("a3", "unknown").map(bareRemove) :+ s.lake.add("packed", dataChange = false): _*
      )
      s.lake.foreign("B", s.lake.remove("b1"))
      ()
    })
    assert(s.run(db).isInstanceOf[CommitOutcome.LeftResidue])
    assert(s.lake.live("A") == Set("a2", "packed"))
    db.describe(s.lake.firstTransaction) match {
      case TransactionStatus.RolledBack(_, _, residue) =>
        assert(residue.exists(_.contains("packed")))
      case other => fail(other.toString)
    }
  }

  test("at most one conflict-capable table: a conflict there undoes nothing") {
    val s = scene()
    val db = s.lake.client(new CommitSteps {
      private val run = Once { s.lake.foreign("A", s.lake.remove("a1")); () }
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit = run()
    })
    assert(s.run(db).isInstanceOf[CommitOutcome.Conflicted])
    assert((s.ownCommits("A") ++ s.ownCommits("B")).forall(_.kind == MarkKind.Close))
  }

  /** Crashes at the n-th step that is told. */
  private class CrashAt(n: Int) extends CommitSteps {
    private var calls = 0
    var crashed = false
    private def step(): Unit = {
      calls += 1
      if (calls == n) { crashed = true; throw new Crash }
    }
    override def beforeRequested(transaction: String): Unit = step()
    override def requested(transaction: String): Unit = step()
    override def bound(tablePath: TableRef): Unit = step()
    override def flattened(transaction: String, tablePath: TableRef): Unit = step()
    override def timelineRead(transaction: String, next: Long): Unit = step()
    override def helped(transaction: String): Unit = step()
    override def validated(transaction: String): Unit = step()
    override def beforeOrder(entry: CommitEntry): Unit = step()
    override def ordered(entry: CommitEntry): Unit = step()
    override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit = step()
    override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit = step()
    override def beforeDecision(entry: CommitEntry, outcome: Outcome): Unit = step()
    override def decided(entry: CommitEntry, outcome: Outcome): Unit = step()
    override def beforeSettle(entry: CommitEntry, table: EntryTable, slot: Long): Unit = step()
    override def settled(entry: CommitEntry, table: EntryTable, slot: Long): Unit = step()
    override def beforeRolledBack(entry: CommitEntry): Unit = step()
    override def rolledBack(entry: CommitEntry, end: io.lakestep.timeline.RolledBack): Unit = step()
    override def beforeCleanUp(transaction: String): Unit = step()
  }

  private def crashEverywhere(foreignConflict: Boolean)(check: (Scene, Database) => Unit): Int =
    Iterator.from(1).map { n =>
      val s = scene(rewriteB = foreignConflict)
      val crash = new CrashAt(n)
      var pending = foreignConflict
      val observer = new Delegating(crash) {
        override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit = {
          if (pending && t.name == "A") {
            pending = false; s.lake.foreign("B", s.lake.remove("b1"))
          }
          super.published(e, t, part, slot)
        }
      }
      try { s.run(s.lake.client(observer)); () }
      catch { case _: Crash => () }
      check(s, s.lake.client())
      crash.crashed
    }.takeWhile(identity).size

  /** Passes every step on. */
  private class Delegating(to: CommitSteps) extends CommitSteps {
    override def beforeRequested(transaction: String): Unit = to.beforeRequested(transaction)
    override def requested(transaction: String): Unit = to.requested(transaction)
    override def bound(tablePath: TableRef): Unit = to.bound(tablePath)
    override def flattened(t: String, p: TableRef): Unit = to.flattened(t, p)
    override def timelineRead(t: String, next: Long): Unit = to.timelineRead(t, next)
    override def helped(t: String): Unit = to.helped(t)
    override def validated(t: String): Unit = to.validated(t)
    override def beforeOrder(e: CommitEntry): Unit = to.beforeOrder(e)
    override def ordered(e: CommitEntry): Unit = to.ordered(e)
    override def beforePublish(e: CommitEntry, t: EntryTable, p: Int, s: Long): Unit =
      to.beforePublish(e, t, p, s)
    override def published(e: CommitEntry, t: EntryTable, p: Int, s: Long): Unit =
      to.published(e, t, p, s)
    override def beforeDecision(e: CommitEntry, o: Outcome): Unit = to.beforeDecision(e, o)
    override def decided(e: CommitEntry, o: Outcome): Unit = to.decided(e, o)
    override def beforeSettle(e: CommitEntry, t: EntryTable, s: Long): Unit =
      to.beforeSettle(e, t, s)
    override def settled(e: CommitEntry, t: EntryTable, s: Long): Unit = to.settled(e, t, s)
    override def beforeRolledBack(e: CommitEntry): Unit = to.beforeRolledBack(e)
    override def rolledBack(e: CommitEntry, end: io.lakestep.timeline.RolledBack): Unit =
      to.rolledBack(e, end)
    override def beforeCleanUp(t: String): Unit = to.beforeCleanUp(t)
  }

  test("a crash at every step of a good commit: one helper brings all tables to one end") {
    val steps = crashEverywhere(foreignConflict = false) { (s, helper) =>
      helper.recover()
      val ordered = helper.timeline.refresh().next > 1
      assert(if (ordered) s.isDone else s.isUndone)
      assert(s.ownCommits("A").size == s.ownCommits("B").size && s.ownCommits("A").size <= 1)
      assert(helper.recover() == RecoveryReport(Vector.empty, Vector.empty))
    }
    assert(steps >= 18)
  }

  test("a crash at every step of a rollback: one helper settles every table once") {
    val steps = crashEverywhere(foreignConflict = true) { (s, helper) =>
      helper.recover()
      val view = helper.timeline.refresh()
      assert(view.finished == view.next - 1)
      // Before the foreign commit the helper itself publishes everything.
      if (s.lake.live("B")("b1") || view.next == 1) assert(s.isUndone)
      else if (!s.lake.live("B")("b2")) assert(s.lake.live("A") == s.before._1)
      else assert(s.isDone)
      assert(s.ownCommits("A").count(_.kind != MarkKind.Publish) <= 1)
    }
    assert(steps >= 22)
  }

  test("two helpers at once, one held before each of its steps, agree") {
    val steps = Iterator.from(1).map { n =>
      val s = scene()
      try { s.run(s.lake.client(onOrdered(throw new Crash))); () }
      catch { case _: Crash => () }
      var calls = 0
      var held = false
      val slow = new CommitSteps {
        private def step(): Unit = {
          calls += 1
          if (calls == n) { held = true; s.lake.client().recover(); () }
        }
        override def beforePublish(e: CommitEntry, t: EntryTable, p: Int, slot: Long): Unit = step()
        override def published(e: CommitEntry, t: EntryTable, p: Int, slot: Long): Unit = step()
        override def beforeDecision(e: CommitEntry, o: Outcome): Unit = step()
        override def decided(e: CommitEntry, o: Outcome): Unit = step()
      }
      assert(s.lake.client(slow).recover().failed.isEmpty)
      assert(s.isDone && s.ownCommits("A").size == 1 && s.ownCommits("B").size == 1)
      held
    }.takeWhile(identity).size
    assert(steps >= 6)
  }

  test(
    "a helper that slept before its publish wakes after the rollback: its commit does not last"
  ) {
    val s = scene(rewriteB = true)
    // The owner orders and dies; a helper is about to publish B while somebody else rolls back.
    try { s.run(s.lake.client(onOrdered(throw new Crash))); () }
    catch { case _: Crash => () }
    val run = Once {
      s.lake.foreign("B", s.lake.remove("b1"))
      s.lake.client().recover()
      ()
    }
    val sleepy = s.lake.client(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, p: Int, slot: Long): Unit =
        if (t.name == "B") run()
    })
    assert(sleepy.recover().failed.isEmpty)
    assert(s.lake.live("A") == s.before._1 && !s.lake.live("B")("b2"))
    assert(s.ownCommits("B").map(_.kind) == Vector(MarkKind.Close))
  }

  test("a helper with a stricter rule and the owner obey one decision") {
    val s = scene(rewriteB = true)
    val strict = new ConflictRules {
      override def version: Int = 99
      override def check(ours: OurChanges, theirs: LogCommit): Option[Finding] =
        Some(Finding(Rule.Other("strict"), Vector.empty))
    }
    val owner = s.lake.client(onPublished("A") {
      s.lake.foreign("B", s.lake.add("f"))
      s.lake.client(options = DatabaseOptions(syncDataFiles = false, rules = strict)).recover()
      ()
    })
    s.run(owner) match {
      case CommitOutcome.Conflicted(c, Some(1L)) => assert(c.rule == Rule.Other("strict"))
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == s.before._1 && s.lake.live("B") == s.before._2 + "f")
  }

  test("an ABORT entry stops a zombie before its order point") {
    val s = scene()
    val killer = s.lake.client()
    val zombie = s.lake.client(new CommitSteps {
      override def flattened(transaction: String, tablePath: TableRef): Unit = {
        killer.abort(Seq(transaction), "silent")
        ()
      }
    })
    s.run(zombie) match {
      case CommitOutcome.Conflicted(c, None) => assert(c.rule == Rule.Aborted)
      case other => fail(other.toString)
    }
    assert(s.isUndone && killer.timeline.refresh().next == 2)
  }

  test("an ABORT entry that comes between validation and order point is met in the next attempt") {
    val s = scene()
    val killer = s.lake.client()
    val zombie = s.lake.client(new CommitSteps {
      private val ran = new java.util.concurrent.atomic.AtomicBoolean
      override def validated(transaction: String): Unit =
        if (!ran.getAndSet(true)) { killer.abort(Seq(transaction), "silent"); () }
    })
    assert(
      s.run(zombie).asInstanceOf[CommitOutcome.Conflicted].conflict.rule == Rule.Aborted
    )
  }

  test("a transaction that has its entry cannot be aborted") {
    val s = scene()
    val killer = s.lake.client()
    var ended = Vector("?")
    val db = s.lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit =
        ended = killer.abort(Seq(entry.transaction.id), "silent")
    })
    assert(s.run(db).isInstanceOf[CommitOutcome.Committed] && ended.isEmpty)
  }

  private def ambiguous(effects: Iterator[Boolean], s: Scene): Unit = {
    val store = s.lake.store.asInstanceOf[MemoryStore]
    store.interceptPut = (path, put) =>
      if (path.endsWith("timeline/00000000000000000001.json") && effects.hasNext) {
        if (effects.next()) put()
        PutOutcome.Unknown(new java.io.IOException("answer lost"))
      } else put()
  }

  test("order point without an answer, entry there: committed") {
    val s = scene()
    ambiguous(Iterator(true), s)
    assert(s.run(s.lake.client()).isInstanceOf[CommitOutcome.Committed] && s.isDone)
  }

  test("order point without an answer, entry absent: the same entry is put again") {
    val s = scene()
    ambiguous(Iterator(false, false), s)
    assert(s.run(s.lake.client()).isInstanceOf[CommitOutcome.Committed] && s.isDone)
  }

  test("order point that stays absent: unknown, and nothing is deleted") {
    val s = scene()
    ambiguous(Iterator.continually(false), s)
    assert(s.run(s.lake.client()).isInstanceOf[CommitOutcome.Unknown])
    assert(s.lake.store.asInstanceOf[MemoryStore].paths.exists(_.contains("/commit-")))
  }

  test("publish and outcome without an answer: done once") {
    for (effect <- Seq(true, false);
      target <- Seq("A/_delta_log/00000000000000000001.json", "outcome.json")) {
      val s = scene()
      var left = 1
      s.lake.store.asInstanceOf[MemoryStore].interceptPut = (path, put) =>
        if (path.endsWith(target) && left > 0) {
          left -= 1
          if (effect) put()
          PutOutcome.Unknown(new java.io.IOException("answer lost"))
        } else put()
      assert(s.run(s.lake.client()).isInstanceOf[CommitOutcome.Committed])
      assert(s.ownCommits("A").size == 1 && s.isDone)
    }
  }

  test("log cleaned up under a late helper: it publishes at the head when nothing conflicts") {
    val s = scene()
    try { s.run(s.lake.client(onOrdered(throw new Crash))); () }
    catch { case _: Crash => () }
    (1 to 3).foreach(i => s.lake.foreign("A", s.lake.add(s"f$i")))
    JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
    assert(s.lake.client().recover().failed.isEmpty)
    assert(s.isDone && s.lake.head("A") == 4)
  }

  test("log cleaned up after the publish: the mark in the state says so") {
    val s = scene()
    try { s.run(s.lake.client(onPublished("A")(throw new Crash))); () }
    catch { case _: Crash => () }
    (1 to 3).foreach(i => s.lake.foreign("A", s.lake.add(s"f$i")))
    JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
    val db = s.lake.client()
    assert(db.recover().failed.isEmpty)
    assert(s.isDone && s.lake.head("A") == 4)
    val txn = s.lake.begin(db)
    assert(txn.snapshot == 1 && db.pin(txn, s.lake.path("A"), -1) == 4)
  }

  test("log cleaned up, and a file that is removed is gone: rolled back") {
    val s = scene()
    try { s.run(s.lake.client(onOrdered(throw new Crash))); () }
    catch { case _: Crash => () }
    s.lake.foreign("A", s.lake.remove("a1"))
    s.lake.foreign("A", s.lake.add("f"))
    JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
    s.lake.client().recover().finished match {
      case Vector((_, Finished.RolledBack(c, residue))) =>
        assert(c.rule == Rule.LogCleanedUp && residue.isEmpty)
      case other => fail(other.toString)
    }
    assert(!s.lake.live("B")("b2"))
  }

  test("a delayed put that lands in a deleted slot does not count") {
    val s = scene()
    val run = Once {
      (1 to 3).foreach(i => s.lake.foreign("A", s.lake.add(s"f$i")))
      JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
      ()
    }
    val db = s.lake.client(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, p: Int, slot: Long): Unit =
        if (t.name == "A") run()
    })
    assert(s.run(db).isInstanceOf[CommitOutcome.Committed])
    assert(s.isDone && s.lake.head("A") == 4)
  }

  test("the table's folder is deleted after the order point: rolled back, the table is gone") {
    val s = scene()
    val db = s.lake.client(onOrdered {
      s.lake.store.list(s.lake.path("A").log, "0")
        .foreach(f => s.lake.store.delete(s.lake.path("A").log + "/" + f.name))
    })
    assert(
      s.run(db).asInstanceOf[CommitOutcome.Conflicted].conflict.rule == Rule.TableGone
    )
    assert(!s.lake.live("B")("b2") && db.timeline.refresh().finished == 1)
  }

  test("a staged commit is missing, first, middle or last: a conflict, nothing is published") {
    for (missing <- 1L to 3L) {
      val s = scene()
      val db = s.lake.client()
      val txn = s.lake.begin(db)
      for (i <- 1 to 3) s.lake.stage(txn, "A", 0, s.lake.add(s"x$i"))
      s.lake.stage(txn, "B", 0, s.lake.add("x"))
      s.lake.store.delete(s.lake.path("A").stagedSlot(txn.id, missing))
      val written = Seq(s.lake.written("A", 0).copy(stagedTo = 3L), s.lake.written("B", 0))
      val outcome = db.commit(txn, written)
      assert(
        outcome.asInstanceOf[CommitOutcome.Conflicted].conflict.rule == Rule.TableGone
      )
      assert(s.lake.head("A") == 0 && s.lake.head("B") == 0 && db.timeline.refresh().next == 1)
    }
  }

  private def twoParts(lake: Lake, db: Database): CommitOutcome = {
    val txn = lake.begin(db)
    lake.stage(txn, "A", 0, lake.add("x1"))
    lake.stage(txn, "A", 0, lake.remove("x1"), lake.add("x2"))
    lake.stage(txn, "B", 0, lake.add("b2"))
    db.commit(txn, Seq(lake.written("A", 0).copy(oneCommit = false), lake.written("B", 0)))
  }

  test("two parts: both are published; a helper that finds only the first puts the second") {
    val s = scene()
    assert(twoParts(s.lake, s.lake.client()).isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("A") == Set("a1", "a2", "x2") && s.lake.head("A") == 2)
    val t = scene()
    try { twoParts(t.lake, t.lake.client(onPublished("A")(throw new Crash))); () }
    catch { case _: Crash => () }
    assert(t.lake.live("A")("x1"))
    t.lake.client().recover()
    assert(t.lake.live("A") == Set("a1", "a2", "x2") && t.lake.live("B")("b2"))
    assert(t.ownCommits("A").map(_.part) == Vector(1, 2))
  }

  test("two parts, a conflict between them: the first part is undone") {
    val s = scene()
    val db = s.lake.client(onPublished("A") { s.lake.foreign("A", s.lake.remove("x1")); () })
    assert(twoParts(s.lake, db).isInstanceOf[CommitOutcome.Conflicted])
    assert(s.lake.live("A") == s.before._1 && s.lake.live("B") == s.before._2)
  }

  test("a table of another timeline is refused for writing and for reading") {
    val s = scene()
    s.run(s.lake.client())
    val other = s.lake.client(root = "/lake/other")
    val txn = s.lake.begin(other)
    def condition(body: => Any) = intercept[LakestepException] { body; () }.getCondition
    assert(condition(other.pin(txn, s.lake.path("A"), -1)) == "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE")
    s.lake.stage(txn, "A", 1, s.lake.add("z"))
    assert(condition(other.commit(
      txn,
      Seq(s.lake.written("A", 1))
    )) == "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE")
  }

  /** A client whose number others take so often, each time after so many milliseconds. */
  private def losing(s: Scene, often: Int, afterMs: Long, options: DatabaseOptions): Database = {
    val rival = s.lake.client()
    var n = 0
    s.lake.client(
      new CommitSteps {
        override def beforeOrder(entry: CommitEntry): Unit = if (n < often) {
          n += 1
          s.lake.clock.advance(afterMs)
          rival.abort(Seq(f"t9$n%031x"), "x")
          ()
        }
      },
      options = options
    )
  }

  test("losing the order point for as long as COMMIT may take is a conflict") {
    val s = scene()
    val options =
      DatabaseOptions(syncDataFiles = false, longestWaitMs = 1000, pause = s.lake.clock.advance(_))
    val outcome = s.run(losing(s, 1000, 300, options))
    assert(outcome.asInstanceOf[CommitOutcome.Conflicted].conflict.rule == Rule.CommitTimeout)
    assert(s.lake.head("A") == 0 && s.lake.head("B") == 0)
  }

  test("however often the order point is lost, COMMIT goes on, and says how often it tried") {
    val s = scene()
    val options = DatabaseOptions(syncDataFiles = false, pause = s.lake.clock.advance(_))
    val outcome = s.run(losing(s, 200, 1, options))
    assert(outcome.asInstanceOf[CommitOutcome.Committed].tries == 201)
    assert(s.isDone)
  }

  test("who lost a number does not wait before it tries the next one") {
    val s = scene()
    var waits = 0
    val options = DatabaseOptions(syncDataFiles = false, pause = _ => waits += 1)
    s.run(losing(s, 20, 50, options))
    assert(s.isDone && waits == 0)
  }

  test("an entry that its client is about to finish is waited for, one that is old is not") {
    for ((ageMs, helps) <- Seq(0L -> false, 10000L -> true)) {
      val s = scene()
      intercept[Crash](s.run(s.lake.client(onOrdered(throw new Crash))))
      s.lake.clock.advance(ageMs)
      var (looks, puts) = (0, 0)
      val helper = s.lake.client(new CommitSteps {
        override def beforePublish(e: CommitEntry, t: EntryTable, p: Int, slot: Long): Unit =
          puts += 1
      })
      s.lake.memory.interceptGet = { (path, get) =>
        if (path == helper.timeline.outcomeFile(1)) {
          looks += 1
          if (looks == 4) s.lake.client().recover()
        }
        get()
      }
      helper.recover()
      assert(s.isDone && (puts > 0) == helps)
    }
  }

  test("an entry of a newer client takes the number of a COMMIT: an error that names it, at once") {
    val s = scene()
    var tries = 0
    val db = s.lake.client(new CommitSteps {
      override def beforeOrder(entry: CommitEntry): Unit = {
        tries += 1
        s.lake.store.putIfAbsent(
          f"${s.lake.root}/timeline/${entry.number}%020d.json",
          """{"kind":"commit","number":1,"previous":"","requiredFeatures":["future"]}""".getBytes
        )
        ()
      }
    })
    val error = intercept[LakestepException](s.run(db))
    assert(error.getMessage.contains("future") && tries == 1)
    assert(s.lake.head("A") == 0 && s.lake.head("B") == 0)
  }

  test("with no time at all a COMMIT tries fifty numbers") {
    val s = scene()
    val options = DatabaseOptions(syncDataFiles = false, longestWaitMs = 0)
    val outcome = s.run(losing(s, 49, 1, options))
    assert(outcome.asInstanceOf[CommitOutcome.Committed].tries == 50)
  }

  test("the later of two transactions on one file conflicts; on other tables it overlaps freely") {
    val lake = Lake.inMemory()
    Seq("A", "B").foreach(t => lake.create(t, "f1", "f2"))
    val (one, two, three) = (lake.client(), lake.client(), lake.client())
    val (t1, t2, t3) = (lake.begin(one), lake.begin(two), lake.begin(three))
    lake.stage(t1, "A", 0, lake.remove("f1"))
    lake.stage(t2, "A", 0, lake.remove("f1"))
    lake.stage(t3, "B", 0, lake.remove("f1"))
    assert(one.commit(t1, Seq(lake.written("A", 0))).isInstanceOf[CommitOutcome.Committed])
    two.commit(t2, Seq(lake.written("A", 0))) match {
      case CommitOutcome.Conflicted(c, None) => assert(c.otherTransaction.contains(t1.id))
      case other => fail(other.toString)
    }
    assert(three.commit(t3, Seq(lake.written("B", 0))).isInstanceOf[CommitOutcome.Committed])
  }

  test("SERIALIZABLE: what was only read has changed: conflict; SNAPSHOT allows it") {
    for ((level, conflicts) <-
        Seq(IsolationLevel.Snapshot -> false, IsolationLevel.Serializable -> true)) {
      val s = scene()
      val db = s.lake.client()
      val txn = s.lake.begin(db, level)
      s.lake.stage(txn, "A", 0, s.lake.add("x"))
      s.lake.foreign("B", s.lake.add("f"))
      val outcome =
        db.commit(
          txn,
          Seq(s.lake.written("A", 0)),
          Seq(ReadTable(s.lake.path("B"), "B", 0, ReadSet.WholeTable))
        )
      assert(outcome.isInstanceOf[CommitOutcome.Conflicted] == conflicts)
    }
  }

  test(
    "SERIALIZABLE: what was read of a table counts, also where what was staged there cancels out"
  ) {
    for ((level, conflicts) <-
        Seq(IsolationLevel.Snapshot -> false, IsolationLevel.Serializable -> true)) {
      val s = scene()
      val db = s.lake.client()
      val txn = s.lake.begin(db, level)
      s.lake.stage(txn, "A", 0, s.lake.add("x"))
      s.lake.stage(txn, "B", 0, s.lake.add("y"))
      s.lake.stage(txn, "B", 0, s.lake.remove("y"))
      s.lake.foreign("B", s.lake.add("f"))
      val read = s.lake.written("B", 0).copy(reads = Some(ReadSet.WholeTable))
      val outcome = db.commit(txn, Seq(s.lake.written("A", 0), read))
      assert(outcome.isInstanceOf[CommitOutcome.Conflicted] == conflicts)
    }
  }

  test("in-commit timestamps go up; row ids and commit versions fit the slot") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val db = lake.client()
    val txn = lake.begin(db)
    def hwm(n: Long) = lake.domain(DomainMetadata.RowTracking, s"""{"rowIdHighWaterMark":$n}""")
    def tracked(name: String, baseRowId: Long) =
      AddFile(lake.add(name).body.deepCopy().put(
        "baseRowId",
        baseRowId
      ).put("defaultRowCommitVersion", 1))
    lake.stage(txn, "A", 0, hwm(19), tracked("x", 10))
    val info = CommitInfo(lake.commitInfo("WRITE").body.put("inCommitTimestamp", 5000L))
    lake.store.putIfAbsent(
      lake.path("A").slot(1),
      TableLog.text(Seq(info, hwm(14), lake.add("f", rows = 5)))
    )
    val table = lake.written("A", 0)
      .copy(inCommitTimestamps = true, rowTracking = true, rowIdHighWaterMark = Some(9))
    assert(db.commit(txn, Seq(table)).isInstanceOf[CommitOutcome.Committed])
    val commit = lake.log("A").read(2).getOrElse(fail())
    assert(commit.info.flatMap(_.inCommitTimestampMs).contains(5001L))
    val add = commit.actions.collectFirst { case a: AddFile => a }.getOrElse(fail())
    assert(add.baseRowId.contains(15L) && add.defaultRowCommitVersion.contains(2L))
    assert(commit.rowIdHighWaterMark.contains(24L))
  }

  test("enabling in-commit timestamps names the published slot") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val db = lake.client()
    val txn = lake.begin(db)
    lake.stage(
      txn,
      "A",
      0,
      lake.metaData(
        "id-A",
        properties = Map(
          "delta.enableInCommitTimestamps" -> "true",
          "delta.inCommitTimestampEnablementVersion" -> "77",
          "delta.inCommitTimestampEnablementTimestamp" -> "1"
        )
      )
    )
    assert(db.commit(txn, Seq(lake.written("A", 0))).isInstanceOf[CommitOutcome.Committed])
    val commit = lake.log("A").read(1).getOrElse(fail())
    val m = commit.actions.collectFirst { case m: MetaData => m }.getOrElse(fail())
    assert(m.property("delta.inCommitTimestampEnablementVersion").contains("1"))
    assert(m.property("delta.inCommitTimestampEnablementTimestamp") ==
      commit.info.flatMap(_.inCommitTimestampMs).map(_.toString))
  }

  test("the protocol keeps the fence that the overlay took off") {
    val lake = Lake.inMemory()
    lake.foreign("A", lake.protocol("lakestepFence"), lake.metaData("id-A"), lake.add("a1"))
    val db = lake.client()
    val txn = lake.begin(db)
    lake.stage(txn, "A", 0, lake.protocol("appendOnly"))
    lake.stage(txn, "A", 0, lake.add("x"))
    db.commit(txn, Seq(lake.written("A", 0)))
    val p = lake.log("A").read(1).flatMap(_.actions.collectFirst { case p: Protocol =>
      p
    }).getOrElse(fail())
    assert(p.writerFeatures.contains(Set("appendOnly", "lakestepFence")))
  }

  test("on a local disk: two tables, and nothing of ours in _delta_log but _lakestep") {
    val folder = Files.createTempDirectory("lake step+ü%")
    val clock = new ManualClock
    clock.advance(System.currentTimeMillis() + 1000000L)
    val lake = new Lake(new LocalStore(durable = true), clock, folder.toString)
    val s = new Scene(lake)
    assert(s.run(lake.client()).isInstanceOf[CommitOutcome.Committed] && s.isDone)
    val names = Files.list(folder.resolve("A/_delta_log")).map(_.getFileName.toString).toArray.toSet
    assert(names == Set("_lakestep", "00000000000000000000.json", "00000000000000000001.json"))
  }

  test("what stands under the number of an entry, of another transaction, is no part of it") {
    val s = new TwoTables
    val outcome = s.run(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = {
        val timeline = s.lake.client().timeline.id
        val mark = CommitMark(timeline, entry.number, "another", 0, 1, 1, MarkKind.Publish)
        val info = CommitInfo(Json.obj().put("operation", "WRITE").set("lakestep", mark.encode))
        val actions = Vector(info, s.lake.add("theirs"))
        s.lake.store.putIfAbsent(s.lake.path("A").slot(1), TableLog.text(actions))
        ()
      }
    })
    outcome match {
      case CommitOutcome.Unknown(e: LakestepException, Some(1L)) =>
        assert(e.getCondition == "LAKESTEP_TIMELINE_CORRUPT")
        assert(e.getMessage.contains("was copied"))
      case other => fail(s"$other")
    }
    assert(s.lake.live("A") == Set("a1", "theirs"))
  }

  test(
    "what was read is read where a foreign OPTIMIZE has put it, before the order point and after"
  ) {
    for (moved <- Seq("pin", "order")) {
      val s = new TwoTables
      def optimize() =
        s.lake.foreign(
          "A",
          s.lake.remove("a1", dataChange = false),
          s.lake.add("moved", dataChange = false)
        )
      val db = s.lake.client(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = {
          if (moved == "order") optimize()
          s.lake.foreign("A", s.lake.remove("moved"))
          ()
        }
      })
      val txn = s.lake.begin(db, IsolationLevel.Serializable)
      s.lake.stage(txn, "A", 0, s.lake.add("a2"))
      s.lake.stage(txn, "B", 0, s.lake.add("b2"))
      if (moved == "pin") optimize()
      val read = ReadSet(ReadScan(RowFilter.AllOf(Vector.empty), Some(Set("a1"))))
      val a = s.lake.written("A", 0).copy(reads = Some(read))
      db.commit(txn, Seq(a, s.lake.written("B", 0))) match {
        case CommitOutcome.Conflicted(conflict, Some(1L)) =>
          assert(conflict.rule == Rule.ReadChanged && conflict.files == Vector("moved"))
        case other => fail(s"$moved: $other")
      }
      assert(s.lake.live("A") == Set.empty && s.lake.live("B") == Set("b1"))
    }
  }
}
