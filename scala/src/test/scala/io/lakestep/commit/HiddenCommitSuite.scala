package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.log.{Action, JsonStates, TableRef}
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/**
 * A client that woke up late has put a commit of ours into a slot that a log clean-up had emptied:
 * the listing looks complete, and the foreign commit that stood there is not to be seen.
 */
final class HiddenCommitSuite extends AnyFunSuite {

  /** Version 1 of A is foreign, cleaned up below a checkpoint of version 2, then put again by us. */
  private class Scene(hidden: Lake => Seq[Action]) {
    val lake: Lake = Lake.inMemory()
    lake.create("A", "a1", "a2")
    lake.create("B", "b1")
    private val reader = lake.client()
    private val txn = lake.begin(reader)
    private val path = lake.path("A")

    def order(actions: Action*): Unit = {
      val db = lake.client(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      })
      val first = lake.begin(db)
      lake.stage(first, "A", 0, actions: _*)
      lake.stage(first, "B", 0, lake.add("b2"))
      intercept[Crash](db.commit(first, Seq("A", "B").map(lake.written(_, 0))))
      ()
    }

    /** What the client that slept puts at last. */
    def sleeper(): Unit = {
      val bytes = {
        val other = Lake.inMemory()
        lake.memory.paths.foreach(p => lake.store.get(p).foreach(other.store.putIfAbsent(p, _)))
        other.client().recover()
        other.store.get(TableRef(path.uri).slot(1))
      }
      lake.foreign("A", hidden(lake): _*)
      lake.foreign("A", lake.add("f"))
      JsonStates.cleanUp(lake.store, path.uri)
      bytes.foreach(lake.store.putIfAbsent(TableRef(path.uri).slot(1), _))
    }

    /** A transaction that began, and read version 0, before all that. */
    def commit(actions: Action*): CommitOutcome = {
      val table = WrittenTable(path, "A", "id-A", 0, stagedTo = 1)
      lake.stage(txn, "A", 0, actions: _*)
      reader.commit(txn, Seq(table))
    }
  }

  test("a validation does not go past it") {
    val s = new Scene(lake => Seq(lake.remove("a1")))
    s.order(s.lake.add("x"))
    s.sleeper()
    s.commit(s.lake.remove("a1")) match {
      case CommitOutcome.Conflicted(c, None) => assert(c.rule == Rule.LogCleanedUp)
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == Set("a2", "f", "x") && s.lake.live("B")("b2"))
  }

  test("a validation does not go past it either when a later checkpoint knows the entry") {
    val s = new Scene(lake => Seq(lake.remove("a1")))
    s.order(s.lake.add("x"))
    s.sleeper()
    assert(s.lake.client().recover().failed.isEmpty)
    assert(JsonStates.checkpoint(s.lake.store, s.lake.path("A").uri) == 3)
    s.commit(s.lake.remove("a1")) match {
      case CommitOutcome.Conflicted(c, None) => assert(c.rule == Rule.LogCleanedUp)
      case other => fail(other.toString)
    }
  }

  test("its own entry is published above it, or conflicts with what it hides") {
    val append = new Scene(lake => Seq(lake.add("g")))
    append.order(append.lake.add("x"))
    append.sleeper()
    assert(append.lake.client().recover().failed.isEmpty)
    assert(append.lake.live("A") == Set("a1", "a2", "f", "g", "x"))
    val rewrite = new Scene(lake => Seq(lake.remove("a1")))
    rewrite.order(rewrite.lake.remove("a1"), rewrite.lake.add("x"))
    rewrite.sleeper()
    assert(rewrite.lake.client().recover().failed.isEmpty)
    assert(rewrite.lake.live("A") == Set("a2", "f") && rewrite.lake.live("B") == Set("b1"))
  }

  test("a publish that lands there counts only above the clean-up") {
    val s = new Scene(lake => Seq(lake.add("g")))
    s.order(s.lake.add("x"))
    var done = false
    val db = s.lake.client(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A" && !done) {
          done = true
          s.lake.foreign("A", s.lake.add("g"))
          s.lake.foreign("A", s.lake.add("f"))
          JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
          ()
        }
    })
    db.recover().finished match {
      case Vector((_, Finished.Completed(slots))) => assert(slots.head == Vector(3L))
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == Set("a1", "a2", "f", "g", "x"))
  }

  test("a helper does not count it for the part of three that is next") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val path = lake.path("A")
    // Part 2 is on its way to slot 2 while others commit there and clean the log up.
    val late = Once {
      lake.foreign("A", lake.add("f2"))
      lake.foreign("A", lake.add("f3"))
      JsonStates.cleanUp(lake.store, path.uri)
      ()
    }
    val db = lake.client(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (part == 2) late()
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (part == 2) throw new Crash
    })
    val txn = lake.begin(db)
    Seq("x1", "x2", "x3").foreach(x => lake.stage(txn, "A", 0, lake.add(x)))
    intercept[Crash](db.commit(txn, Seq(lake.written("A", 0).copy(oneCommit = false))))
    lake.client().recover()
    val ours = lake.live("A").filter(_.startsWith("x"))
    lake.client().describe(txn.id) match {
      case TransactionStatus.Committed(_, _) => assert(ours == Set("x1", "x2", "x3"))
      case TransactionStatus.RolledBack(_, _, _) => assert(ours.isEmpty)
      case other => fail(other.toString)
    }
  }

  /** The entry published version 1 of A, then is to be rolled back; nobody has settled A yet. */
  private class LateUndo {
    val lake: Lake = Lake.inMemory()
    lake.create("A", "a1")
    lake.create("B", "b1")
    val path: String = lake.path("A").uri
    private val db = lake.client(new CommitSteps {
      override def ordered(e: CommitEntry): Unit = { lake.foreign("B", lake.remove("b1")); () }
      override def beforeSettle(e: CommitEntry, t: EntryTable, slot: Long): Unit = throw new Crash
    })
    private val txn = lake.begin(db)
    lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("x"))
    lake.stage(txn, "B", 0, lake.remove("b1"), lake.add("y"))
    intercept[Crash](db.commit(txn, Seq("A", "B").map(lake.written(_, 0))))

    private val slots = (1L to 2L).map(TableRef(path).slot(_))
    private val late = {
      val other = Lake.inMemory()
      lake.memory.paths.foreach(p => lake.store.get(p).foreach(other.store.putIfAbsent(p, _)))
      other.client().recover()
      slots.map(other.store.get)
    }

    /** Sleepers put the publish in slot 1, and in slot 2 an UNDO. */
    def sleepers(): Unit =
      for ((slot, bytes) <- slots.zip(late); b <- bytes) lake.store.putIfAbsent(slot, b)

    /** Somebody undoes A, and stops. */
    def settleA(): Unit = {
      val first = lake.client(new CommitSteps {
        override def settled(e: CommitEntry, t: EntryTable, slot: Long): Unit = throw new Crash
      })
      intercept[Crash](first.recover())
      ()
    }

    /** The version of A at which it was undone, as the end of the entry says. */
    def end(): Option[Long] = {
      assert(lake.client().recover().failed.isEmpty)
      assert(lake.live("A") == Set("a1", "f", "g") && lake.live("B").isEmpty)
      val end = lake.client().timeline.refresh().status(1).flatMap(_.rolledBack)
      end.flatMap(_.tables.head.version)
    }
  }

  test("a late UNDO is not taken for the one that others put while the log is read") {
    val s = new LateUndo
    s.lake.foreign("A", s.lake.add("f"))
    s.lake.foreign("A", s.lake.add("g"))
    JsonStates.cleanUp(s.lake.store, s.path)
    s.sleepers()
    val others = Once {
      s.settleA()
      assert(s.lake.head("A") == 4)
    }
    s.lake.memory.interceptGet = (file, get) => {
      if (file == TableRef(s.path).slot(3)) others()
      get()
    }
    assert(s.end().contains(4L))
  }

  test("a late UNDO is not taken for the one that was cleaned up") {
    val s = new LateUndo
    s.lake.foreign("A", s.lake.add("f"))
    s.settleA()
    s.lake.foreign("A", s.lake.add("g"))
    JsonStates.cleanUp(s.lake.store, s.path)
    s.sleepers()
    assert(s.end().contains(4L))
  }

  test("a part of three that landed in a deleted slot is not undone") {
    val lake = Lake.inMemory()
    lake.create("A", "a1", "a2")
    val path = lake.path("A")
    // The first part is in, a foreign DELETE follows, and all that is cleaned up. A client that knows
    // of none of this puts the first two parts into the same slots again.
    val owner = lake.client(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (part == 2 && slot == 2) {
          val first = lake.store.get(TableRef(path.uri).slot(1)).get
          lake.foreign("A", lake.remove("a1"))
          lake.foreign("A", lake.add("f"))
          JsonStates.cleanUp(lake.store, path.uri)
          lake.store.putIfAbsent(TableRef(path.uri).slot(1), first)
          ()
        }
    })
    val txn = lake.begin(owner)
    lake.stage(txn, "A", 0, lake.add("x1"))
    lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("x2"))
    lake.stage(txn, "A", 0, lake.add("x3"))
    owner.commit(txn, Seq(lake.written("A", 0).copy(oneCommit = false))) match {
      case CommitOutcome.LeftResidue(c, _, _) => assert(c.rule == Rule.LogCleanedUp)
      case other => fail(other.toString)
    }
    val marks = (1L to 2L).map(lake.log("A").read(_).flatMap(_.mark).map(_.part))
    assert(marks == Seq(Some(1), Some(2)))
    // What the state does not tell is left, and said; the file that others deleted stays so.
    val live = lake.states.stateAt(path, lake.head("A")).files.keySet
    assert(live == Set("a2", "f", "x1"))
    lake.client().describe(txn.id) match {
      case TransactionStatus.RolledBack(_, _, residue) => assert(residue.exists(_.contains("x1")))
      case other => fail(other.toString)
    }
  }

  test("what others built upon a part is not taken back when a late part hides it") {
    val lake = Lake.inMemory()
    lake.create("A", "a1", "a2")
    lake.create("B", "b1")
    val path = lake.path("A")
    // Part 1 is in version 1, others build upon it in 2, and both are cleaned up and put again. Part 2
    // then gets to version 4, above the checkpoint.
    val late = Once {
      val first = lake.store.get(TableRef(path.uri).slot(1)).get
      lake.foreign("A", lake.remove("x1"), lake.add("d"))
      lake.foreign("A", lake.add("f"))
      JsonStates.cleanUp(lake.store, path.uri)
      lake.store.putIfAbsent(TableRef(path.uri).slot(1), first)
      ()
    }
    val owner = lake.client(new CommitSteps {
      override def ordered(e: CommitEntry): Unit = { lake.foreign("B", lake.remove("b1")); () }
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (part == 2) late()
    })
    val txn = lake.begin(owner)
    lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("x1"))
    lake.stage(txn, "A", 0, lake.add("x2"))
    lake.stage(txn, "B", 0, lake.remove("b1"))
    val written = Seq(lake.written("A", 0).copy(oneCommit = false), lake.written("B", 0))
    assert(owner.commit(txn, written).isInstanceOf[CommitOutcome.LeftResidue])
    val parts = (1L to 4L).map(lake.log("A").read(_).flatMap(_.mark).map(_.part))
    assert(parts == Seq(Some(1), Some(2), None, Some(2)))
    // Added back, a1 would show again the rows that d holds.
    assert(lake.states.stateAt(path, lake.head("A")).files.keySet == Set("a2", "d", "f", "x2"))
    lake.client().describe(txn.id) match {
      case TransactionStatus.RolledBack(_, _, residue) => assert(residue.exists(_.contains("a1")))
      case other => fail(other.toString)
    }
  }

  /**
   * Version 1 of A is foreign and makes the entry conflict, 2 is foreign too, 3 is the CLOSE that
   * settles the entry, 4 is foreign. There are checkpoints of 1 and 4, and 0 to 2 are cleaned up.
   * Then another CLOSE lands in slot 2, put by a client that fell asleep before others settled.
   */
  private class LateClose(isCleaned: Boolean = true) {
    val lake: Lake = Lake.inMemory()
    lake.create("A", "a1")
    val path: String = lake.path("A").uri
    val db: Database = lake.client()

    /** A transaction from before the clean-up that has read version 3. */
    lazy val early: BegunTransaction = lake.begin(db)

    def run(): Unit = {
      val late = Once {
        JsonStates.checkpoint(lake.store, path)
        lake.foreign("A", lake.remove("a2"), lake.add("a3"))
        lake.client().recover()
        assert(db.pin(early, TableRef(path), -1) == 3)
        lake.clock.advance(1)
        lake.foreign("A", lake.add("f"))
        JsonStates.checkpoint(lake.store, path)
        if (isCleaned) (0L to 2L).foreach(v => lake.store.delete(TableRef(path).slot(v)))
      }
      val sleeper = lake.client(new CommitSteps {
        override def ordered(e: CommitEntry): Unit = {
          lake.foreign("A", lake.remove("a1"), lake.add("a2"))
          ()
        }
        override def beforeSettle(e: CommitEntry, t: EntryTable, slot: Long): Unit = late()
      })
      val txn = lake.begin(sleeper)
      lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("x"))
      sleeper.commit(txn, Seq(lake.written("A", 0))) match {
        case CommitOutcome.Conflicted(c, _) => assert(c.rule == Rule.SameFile)
        case other => fail(other.toString)
      }
      assert(lake.log("A").read(2).exists(_.mark.isDefined) == isCleaned)
    }
  }

  test("a version whose state would be read across it cannot be pinned") {
    val s = new LateClose
    s.run()
    // What anybody reads as version 3 by now is without version 2.
    assert(s.lake.states.stateAt(TableRef(s.path), 3).files.keySet == Set("a2"))
    val gone = intercept[LakestepException](s.lake.client().pin(s.early, TableRef(s.path), -1))
    assert(gone.getCondition == "LAKESTEP_SNAPSHOT_GONE")
    assert(s.lake.client().pin(s.lake.begin(s.db), TableRef(s.path), -1) == 4)
  }

  test("a transaction that pinned such a version before cannot commit") {
    val s = new LateClose
    s.run()
    s.lake.stage(s.early, "A", 3, s.lake.remove("a2"), s.lake.add("y"))
    s.db.commit(s.early, Seq(s.lake.written("A", 3))) match {
      case CommitOutcome.Conflicted(c, None) => assert(c.rule == Rule.LogCleanedUp)
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == Set("a3", "f"))
  }

  test("the same versions, with nothing cleaned up, are pinned and validated") {
    val s = new LateClose(isCleaned = false)
    s.run()
    assert(s.lake.client().pin(s.early, TableRef(s.path), -1) == 3)
    s.lake.stage(s.early, "A", 3, s.lake.remove("a3"), s.lake.add("y"))
    assert(s.db.commit(s.early, Seq(s.lake.written("A", 3))).isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("A") == Set("f", "y"))
  }
}
