package io.lakestep.commit

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.AddFile
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/** A strategy about entries in flight decides when, and never whether there is a conflict. */
final class ConflictStrategySuite extends AnyFunSuite {
  import ConflictStrategy._

  /** An entry that rewrites a1 in A and b1 in B, whose client stops at the order point. */
  private class Scene {
    val lake: Lake = Lake.inMemory()
    Seq("A", "B").foreach(t => lake.create(t, s"${t.toLowerCase}1"))
    var published = 0

    private val owner = lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    })

    def crash(): Unit = {
      val first = lake.begin(owner)
      for (t <- Seq("A", "B"))
        lake.stage(first, t, 0, lake.remove(s"${t.toLowerCase}1"), lake.add("x"))
      intercept[Crash](owner.commit(first, Seq("A", "B").map(lake.written(_, 0))))
      ()
    }

    /** COMMIT of a transaction that began before the other: appends to A, or rewrites a1 there. */
    def commit(conflicts: Boolean, options: DatabaseOptions): CommitOutcome = {
      val db = lake.client(
        new CommitSteps {
          override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
            if (e.number == 1) Scene.this.published += 1
        },
        options = options.copy(syncDataFiles = false)
      )
      val txn = lake.begin(db)
      lake.stage(
        txn,
        "A",
        0,
        (if (conflicts) Seq(lake.remove("a1")) else Nil) ++ Seq[AddFile](lake.add("y")): _*
      )
      crash()
      db.commit(txn, Seq(lake.written("A", 0)))
    }
  }

  private def rule(outcome: CommitOutcome): String = outcome match {
    case CommitOutcome.Conflicted(conflict, None) => conflict.rule.name
    case _: CommitOutcome.Committed => "committed"
    case other => fail(other.toString)
  }

  test("the younger waits until the client of the entry has finished it, and publishes nothing") {
    for ((conflicts, expected) <- Seq(false -> "committed", true -> Rule.SameFile.name)) {
      val s = new Scene
      var pauses = 0
      val outcome = s.commit(
        conflicts,
        DatabaseOptions(
          conflicts = YoungerWaits,
          pause = _ => { pauses += 1; if (pauses == 3) { s.lake.client().recover(); () } }
        )
      )
      assert(rule(outcome) == expected)
      assert(pauses == 3 && s.published == 0)
    }
  }

  test("the younger finishes the entry of a dead client after exactly the longest wait") {
    val s = new Scene
    var waitedMs = 0L
    val options =
      DatabaseOptions(conflicts = YoungerWaits, longestWaitMs = 12345L, pause = waitedMs += _)
    assert(rule(s.commit(conflicts = false, options)) == "committed")
    assert(waitedMs == 12345L && s.published == 2)
  }

  test("who gives up has changed nothing, and the entry stays for others") {
    val s = new Scene
    assert(rule(s.commit(conflicts = false, DatabaseOptions(conflicts = (_, _, _) => GiveUp))) ==
      Rule.InFlight.name)
    assert(s.published == 0 && s.lake.head("A") == 0)
    s.lake.client().recover()
    assert(s.lake.live("A") == Set("x") && s.lake.live("B") == Set("x"))
  }

  test("whatever a strategy says, a COMMIT ends as with any other, or gives up") {
    val seed = System.nanoTime()
    val random = new Random(seed)
    for (_ <- 1 to 50; conflicts <- Seq(true, false)) {
      val s = new Scene
      val strategy: ConflictStrategy = (_, _, _) =>
        random.nextInt(8) match {
          case 0 => GiveUp
          case 1 => GoOn
          case n => Wait(n * 100L - 300L)
        }
      var waitedMs = 0L
      val options = DatabaseOptions(
        conflicts = strategy,
        longestWaitMs = random.nextInt(2000).toLong,
        pause = ms => {
          waitedMs += ms
          if (random.nextInt(10) == 0) { s.lake.client().recover(); () }
        }
      )
      val found = rule(s.commit(conflicts, options))
      val expected = if (conflicts) Rule.SameFile.name else "committed"
      assert(Set(expected, Rule.InFlight.name)(found), s"seed $seed")
      assert(waitedMs <= options.longestWaitMs, s"seed $seed")
      s.lake.client().recover()
      val files = if (found == "committed") Set("x", "y") else Set("x")
      assert(s.lake.live("A") == files && s.lake.live("B") == Set("x"), s"seed $seed")
    }
  }

  test("a strategy is one of ours by its name, or a class") {
    assert(named("first-committer-wins") == FirstCommitterWins)
    assert(named("younger-waits") == YoungerWaits)
    assert(named(classOf[NeverHelps].getName).isInstanceOf[NeverHelps])
    for (name <- Seq("older-waits", classOf[Object].getName, ""))
      intercept[IllegalArgumentException](named(name))
  }
}

final class NeverHelps extends ConflictStrategy {
  override def meets(
      entry: CommitEntry,
      waitedMs: Long,
      longestWaitMs: Long): ConflictStrategy.Step =
    ConflictStrategy.GiveUp
}
