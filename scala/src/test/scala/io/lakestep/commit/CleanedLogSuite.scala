package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{Action, ForeignWriters, JsonStates, ReadSet}
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/** Entries whose owner died, over a table whose log was cleaned up before somebody came. */
final class CleanedLogSuite extends AnyFunSuite {

  /** What becomes of an entry that does `ours` to A, after `theirs` was done to it and cleaned up. */
  private def end(
      ours: Seq[Action],
      theirs: Seq[Action],
      isolation: IsolationLevel = IsolationLevel.Snapshot): (Lake, Finished) = {
    val lake = Lake.inMemory()
    lake.create("A", "a1", "a2")
    val db = lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    })
    val txn = lake.begin(db, isolation)
    lake.stage(txn, "A", 0, ours: _*)
    intercept[Crash](db.commit(
      txn,
      Seq(lake.written("A", 0).copy(reads = Some(ReadSet.WholeTable)))
    ))
    theirs.foreach(lake.foreign("A", _))
    lake.foreign("A", lake.add("f"))
    JsonStates.cleanUp(lake.store, lake.path("A").uri)
    lake.client().recover().finished match {
      case Vector((_, finished)) => (lake, finished)
      case other => fail(other.toString)
    }
  }

  private def isRolledBack(end: (Lake, Finished)): Unit = end._2 match {
    case Finished.RolledBack(c, residue) =>
      assert(c.rule == Rule.LogCleanedUp && residue.isEmpty)
    case other => fail(other.toString)
  }

  private val lake = Lake.inMemory()
  import lake.{add, commitInfo, domain, metaData, protocol, remove, txn}

  test("appends and rewrites of files that are still live are published at the head") {
    for (ours <- Seq(Seq(add("x")), Seq(remove("a1"), add("x")))) {
      val (lake, finished) = end(ours, Seq(add("g")))
      assert(finished == Finished.Completed(Vector(Vector(3L))) && lake.live("A")("x"))
    }
  }

  test("a part that gave the table another id is found in its state") {
    for (conflicts <- Seq(false, true)) {
      val lake = Lake.inMemory()
      lake.create("A", "a1")
      lake.create("B", "b1")
      val db = lake.client(new CommitSteps {
        override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
          throw new Crash
      })
      val txn = lake.begin(db)
      lake.stage(txn, "A", 0, lake.metaData("before"), lake.remove("a1"), lake.add("x"))
      lake.stage(txn, "B", 0, lake.remove("b1"))
      intercept[Crash](db.commit(txn, Seq("A", "B").map(lake.written(_, 0))))
      lake.foreign("A", lake.add("f"))
      if (conflicts) lake.foreign("B", lake.remove("b1"))
      JsonStates.cleanUp(lake.store, lake.path("A").uri)
      assert(lake.client().recover().failed.isEmpty)
      lake.client().describe(txn.id) match {
        case _: TransactionStatus.Committed =>
          assert(!conflicts && lake.live("A") == Set("f", "x"))
        case TransactionStatus.RolledBack(_, _, residue) =>
          // The metadata stays, and files of before are not put under it.
          assert(conflicts && residue.contains("A: metadata"))
        case other => fail(other.toString)
      }
    }
  }

  test("a file that is removed, or has another deletion vector by now: rolled back") {
    isRolledBack(end(Seq(remove("a1")), Seq(remove("a1"))))
    val (lake, finished) = {
      val other = end(Seq(remove("a1"), add("x")), Seq(add("a1", Some("dv"))))
      isRolledBack(other)
      other
    }
    assert(finished.isInstanceOf[Finished.RolledBack] && !lake.live("A")("x"))
  }

  test("metadata or protocol that others changed: rolled back, appends too") {
    isRolledBack(end(Seq(add("x")), Seq(metaData("id-A", "other"))))
    isRolledBack(end(Seq(add("x")), Seq(protocol("other"))))
  }

  test("our own metadata, domain or application transaction: rolled back") {
    isRolledBack(end(Seq(metaData("id-A", "new")), Seq(add("g"))))
    isRolledBack(end(Seq(domain("d", "new")), Seq(add("g"))))
    isRolledBack(end(Seq(txn("app", 2), add("x")), Seq(add("g"))))
  }

  test("a SERIALIZABLE transaction that read the table: rolled back") {
    isRolledBack(end(Seq(add("x")), Seq(add("g")), IsolationLevel.Serializable))
  }

  test("another table under the path's log: rolled back, and the table is left alone") {
    val (lake, finished) = end(Seq(add("x")), Seq(metaData("id-other")))
    finished match {
      case Finished.RolledBack(c, _) => assert(c.rule == Rule.TableGone)
      case other => fail(other.toString)
    }
    assert(lake.marks("A").isEmpty)
  }

  /** Has three commits of A; the client stops after `part`, then the log is cleaned up. */
  private def stopped(lake: Lake, after: Int, clean: => Unit)(parts: Seq[Action]*): Unit = {
    val db = lake.client(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (part == after) throw new Crash
    })
    val txn = lake.begin(db)
    parts.foreach(p => lake.stage(txn, "A", 0, p: _*))
    intercept[Crash](db.commit(txn, Seq(lake.written("A", 0).copy(oneCommit = false))))
    clean
    JsonStates.cleanUp(lake.store, lake.path("A").uri)
    ()
  }

  private def closed(): Lake = {
    val lake = Lake.inMemory()
    val closed = Map(ForeignWriters.Property -> ForeignWriters.Forbid)
    lake.create("A", lake.protocol(ForeignWriters.Feature), closed, Seq("a1"))
    lake
  }

  test("a table whose property says closed, without the feature, does not count as closed") {
    for (features <- Seq(Vector(ForeignWriters.Feature), Vector("appendOnly"))) {
      val lake = Lake.inMemory()
      val stated = Map(ForeignWriters.Property -> ForeignWriters.Forbid)
      lake.create("A", lake.protocol(features: _*), stated, Seq("a1"))
      val db = lake.client()
      val txn = lake.begin(db)
      lake.stage(txn, "A", 0, lake.remove("a1"))
      db.commit(txn, Seq(lake.written("A", 0))) match {
        case CommitOutcome.Committed(entry, _, _, _, _, _) =>
          assert(entry.tables.map(_.closed) == Vector(features.contains(ForeignWriters.Feature)))
        case other => fail(other.toString)
      }
    }
  }

  test("three commits of a closed table: nobody else can commit, so their number tells the part") {
    for (after <- 1 to 2) {
      val lake = closed()
      stopped(lake, after, ())(Seq(add("x1")), Seq(remove("a1"), add("x2")), Seq(add("x3")))
      lake.client().recover().finished match {
        case Vector((_, Finished.Completed(_))) => ()
        case other => fail(other.toString)
      }
      assert(lake.live("A") == Set("x1", "x2", "x3") && lake.head("A") == 3)
    }
  }

  test("three commits, one of which opens the table: their number tells nothing; rolled back") {
    val lake = closed()
    val unset = commitInfo("UNSET TBLPROPERTIES")
    unset.body.putObject("operationParameters")
      .put("properties", s"""["${ForeignWriters.Property}"]""")
    stopped(lake, 2, lake.foreign("A", add("f")))(
      Seq(add("x1")),
      Seq(unset, metaData("id-A")),
      Seq(add("x3"))
    )
    lake.client().recover().finished match {
      case Vector((_, Finished.RolledBack(c, _))) => assert(c.rule == Rule.LogCleanedUp)
      case other => fail(other.toString)
    }
    assert(lake.live("A") == Set("a1", "f"))
  }

  test("a checkpoint made before the last commit was counted: the outcome names every slot") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val db = lake.client(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (part == 3) { JsonStates.checkpoint(lake.store, lake.path("A").uri); () }
    })
    val txn = lake.begin(db)
    Seq("x1", "x2", "x3").foreach(x => lake.stage(txn, "A", 0, lake.add(x)))
    db.commit(txn, Seq(lake.written("A", 0).copy(oneCommit = false))) match {
      case CommitOutcome.Committed(_, slots, _, _, _, _) =>
        assert(slots == Vector(Vector(1L, 2L, 3L)))
      case other => fail(other.toString)
    }
  }
}
