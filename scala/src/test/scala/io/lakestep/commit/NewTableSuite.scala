package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{Action, JsonStates, MarkKind, TableState}
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/**
 * A table that a transaction makes: its log begins at −1, so that version 0 is put if absent, and nobody
 * can take its folder for a table before.
 */
final class NewTableSuite extends AnyFunSuite {

  /** A transaction makes N with one file, and rewrites b1 in B. */
  private class Scene {
    val lake: Lake = Lake.inMemory()
    lake.create("B", "b1")

    def header: Seq[Action] = Seq(lake.protocol(), lake.metaData("id-N"))

    def stageNew(txn: BegunTransaction, file: String = "n1"): WrittenTable = {
      lake.file("N", file)
      lake.stage(txn, "N", -1, lake.commitInfo("CREATE TABLE") +: header: _*)
      lake.stage(txn, "N", -1, lake.add(file))
      WrittenTable(lake.path("N"), "N", "id-N", pin = -1, stagedTo = 1)
    }

    def stageB(txn: BegunTransaction): WrittenTable = {
      lake.file("B", "b2")
      lake.stage(txn, "B", 0, lake.remove("b1"), lake.add("b2"))
      lake.written("B", 0)
    }

    def run(observer: CommitSteps): CommitOutcome = {
      val db = lake.client(observer)
      val txn = lake.begin(db)
      db.commit(txn, Seq(stageNew(txn), stageB(txn)))
    }

    def kinds(table: String): Vector[MarkKind] = lake.marks(table).map(_.kind)

    def state: TableState = lake.states.stateAt(lake.path("N"), lake.head("N"))
  }

  private def crash(body: => Any): Unit = { intercept[Crash] { body; () }; () }

  test("version 0 holds protocol, metadata, files and the mark; nothing is there before") {
    val s = new Scene
    var before = Option.empty[Long]
    val outcome = s.run(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = before = Some(s.lake.head("N"))
    })
    assert(outcome.isInstanceOf[CommitOutcome.Committed])
    val file = f"${s.lake.root}/timeline/${1}%020d.json"
    val text = s.lake.store.get(file).map(new String(_, "UTF-8")).getOrElse("")
    // An older client refuses it.
    assert(text.contains("\"requiredFeatures\":[\"newTables\"]"))
    assert(before.contains(-1L))
    assert(s.lake.head("N") == 0)
    assert(s.lake.live("N") == Set("n1"))
    assert(s.state.metadataId == "id-N")
    val db = s.lake.client()
    assert(db.pin(s.lake.begin(db), s.lake.path("N"), -1) == 0)
  }

  test("of two transactions that make a table at one path one is committed") {
    val s = new Scene
    val (one, two) = (s.lake.client(), s.lake.client())
    val (first, second) = (s.lake.begin(one), s.lake.begin(two))
    val theirs = s.stageNew(second, "n2")
    assert(one.commit(first, Seq(s.stageNew(first))).isInstanceOf[CommitOutcome.Committed])
    two.commit(second, Seq(theirs, s.stageB(second))) match {
      case CommitOutcome.Conflicted(_, None) => ()
      case other => fail(s"$other")
    }
    assert(s.lake.live("N") == Set("n1"))
    assert(s.lake.live("B") == Set("b1"))
  }

  for (isEarly <- Seq(true, false)) {
    val when = if (isEarly) "before" else "after"
    test(s"somebody else makes a table there $when the order point: nothing of theirs is touched") {
      val s = new Scene
      val theirs = Once {
        s.lake.foreign("N", s.lake.protocol(), s.lake.metaData("theirs"), s.lake.add("t1"))
        ()
      }
      val outcome = s.run(new CommitSteps {
        override def requested(transaction: String): Unit = if (isEarly) theirs()
        override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
          if (t.name == "N") theirs()
      })
      outcome match {
        case CommitOutcome.Conflicted(conflict, entry) =>
          assert(conflict.rule != Rule.Aborted)
          assert(entry.isEmpty == isEarly)
        case other => fail(s"$other")
      }
      assert(s.lake.live("N") == Set("t1"))
      assert(s.state.metadataId == "theirs")
      assert(s.lake.live("B") == Set("b1"))
    }
  }

  test("a log that others began and cleaned up is closed above the version 0 that came late") {
    val s = new Scene
    val path = s.lake.path("N")
    val theirs = Once {
      s.lake.foreign("N", s.lake.protocol(), s.lake.metaData("theirs"), s.lake.add("t1"))
      s.lake.foreign("N", s.lake.add("t2"))
      JsonStates.cleanUp(s.lake.store, path.uri)
      ()
    }
    val outcome = s.run(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "N") theirs()
    })
    assert(outcome.isInstanceOf[CommitOutcome.Conflicted])
    assert(s.lake.store.exists(path.slot(0)))
    assert(s.kinds("N").last == MarkKind.Close)
    val db = s.lake.client()
    assert(db.pin(s.lake.begin(db), path, -1) == 2)
    assert(s.lake.live("N") == Set("t1", "t2"))
    assert(s.lake.live("B") == Set("b1"))
  }

  test("a checkpoint over the CLOSE commit in a table that others made is no clean-up") {
    val s = new Scene
    val other = s.lake.client()
    val txn = s.lake.begin(other)
    val theirs = Once {
      s.lake.foreign("N", s.lake.protocol(), s.lake.metaData("theirs"), s.lake.add("t1"))
      ()
    }
    s.run(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "N") theirs()
    })
    assert(s.kinds("N") == Vector(MarkKind.Close))
    JsonStates.checkpoint(s.lake.store, s.lake.path("N").uri)
    assert(other.pin(txn, s.lake.path("N"), -1) == 0)
    s.lake.stage(txn, "N", 0, s.lake.add("n2"))
    val outcome = other.commit(txn, Seq(s.lake.written("N", 0)))
    assert(outcome.isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("N") == Set("t1", "n2"))
  }

  test("another table in the folder, which was deleted since, is left alone") {
    val s = new Scene
    crash(s.run(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    }))
    s.lake.drop("N")
    s.lake.foreign("N", s.lake.protocol(), s.lake.metaData("theirs"), s.lake.add("t1"))
    val db = s.lake.client()
    assert(db.recover().finished.map(_._2).forall(_.isInstanceOf[Finished.RolledBack]))
    assert(s.kinds("N").isEmpty)
    assert(s.lake.live("B") == Set("b1"))
  }

  test("whoever finds it ordered makes it") {
    val s = new Scene
    crash(s.run(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    }))
    assert(s.lake.head("N") == -1)
    val db = s.lake.client()
    assert(db.recover().finished.map(_._2).forall(_.isInstanceOf[Finished.Completed]))
    assert(s.lake.live("N") == Set("n1"))
    assert(s.lake.live("B") == Set("b2"))
  }

  private def isEmpty(s: Scene, end: MarkKind): Unit = {
    assert(s.lake.live("N").isEmpty)
    assert(s.state.metadataId == "id-N")
    assert(s.kinds("N").last == end)
    ()
  }

  test("a published one is left empty when another table met a conflict") {
    val s = new Scene
    val foreign = Once { s.lake.foreign("B", s.lake.remove("b1"), s.lake.add("f")); () }
    val outcome = s.run(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "B") foreign()
    })
    outcome match {
      case CommitOutcome.Conflicted(_, Some(_)) => ()
      case other => fail(s"$other")
    }
    assert(s.lake.live("B") == Set("f"))
    isEmpty(s, MarkKind.Undo)
  }

  test(
    "one that is not yet published gets a header and no rows, and whoever publishes late is told"
  ) {
    val s = new Scene
    crash(s.run(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    }))
    val other = s.lake.client()
    val entry = other.timeline.refresh().unfinished.head
    val env = s.lake.environment(other)
    val changes = env.changes(entry, entry.tables.head)
    def late() = new Publish(env)(entry, 0, changes, isAtHead = true)
    s.lake.store.delete(s"${s.lake.path("B").uri}/b2")
    val helper = s.lake.client(options = DatabaseOptions(syncDataFiles = true))
    assert(helper.recover().finished.map(_._2).forall(_.isInstanceOf[Finished.RolledBack]))
    isEmpty(s, MarkKind.Close)
    assert(late().isInstanceOf[Vote.Decided])
    isEmpty(s, MarkKind.Close)
    assert(s.lake.live("B") == Set("b1"))
  }
}
