package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{ReadSet, TableRef}
import io.lakestep.timeline.{CommitEntry, Rule}

/** What an assertion has read counts, also where the transaction is SNAPSHOT and writes other tables. */
final class AssertedReadsSuite extends AnyFunSuite {

  /** A transaction that has read A and writes B. */
  private class Scene {
    val lake: Lake = Lake.inMemory()
    Seq("A", "B").foreach(t => lake.create(t, s"${t.toLowerCase}1"))

    def commit(db: Database, txn: BegunTransaction, counts: Boolean = true): CommitOutcome = {
      lake.stage(txn, "B", 0, lake.add(s"b-${txn.id}"))
      val read = ReadTable(lake.path("A"), "A", 0, ReadSet.WholeTable)
      db.commit(txn.copy(countsReads = counts), Seq(lake.written("B", 0)), Seq(read))
    }

    def write(db: Database): CommitOutcome = {
      val txn = lake.begin(db)
      lake.stage(txn, "A", 0, lake.add("a2"))
      db.commit(txn, Seq(lake.written("A", 0)))
    }
  }

  private def rule(outcome: CommitOutcome): Option[Rule] = outcome match {
    case CommitOutcome.Conflicted(conflict, _) => Some(conflict.rule)
    case _: CommitOutcome.Committed => None
    case other => fail(other.toString)
  }

  test("a change of what was read is a conflict, of ours and of others, if it counts") {
    for {
      counts <- Seq(true, false)
      change <- Seq[Scene => Unit](
        s => { s.lake.foreign("A", s.lake.add("a2")); () },
        s => { s.write(s.lake.client()); () }
      )
    } {
      val s = new Scene
      val db = s.lake.client()
      val txn = s.lake.begin(db)
      change(s)
      assert(rule(s.commit(db, txn, counts)) == Option.when(counts)(Rule.ReadChanged))
    }
  }

  test("an unfinished entry over what was read is finished first") {
    val s = new Scene
    val db = s.lake.client()
    val txn = s.lake.begin(db)
    val dies = s.lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    })
    intercept[Crash](s.write(dies))
    assert(rule(s.commit(db, txn)).contains(Rule.ReadChanged))
  }

  test(
    "of two that read what the other one writes, and lose the number to each other, one is committed"
  ) {
    val s = new Scene
    val race = Once {
      val other = s.lake.client()
      val theirs = s.lake.begin(other)
      s.lake.stage(theirs, "A", 0, s.lake.add("a2"))
      val read = ReadTable(TableRef(s.lake.path("B").uri), "B", 0, ReadSet.WholeTable)
      val done =
        other.commit(theirs.copy(countsReads = true), Seq(s.lake.written("A", 0)), Seq(read))
      assert(rule(done).isEmpty)
    }
    val db = s.lake.client(new CommitSteps {
      override def beforeOrder(entry: CommitEntry): Unit = race()
    })
    assert(rule(s.commit(db, s.lake.begin(db))).contains(Rule.ReadChanged))
  }
}
