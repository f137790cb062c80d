package io.lakestep.commit

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{Action, RowSets}
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/** Transactions that take rows out of the same files by deletion vectors. */
final class RowMergeSuite extends AnyFunSuite {

  private type Rows = Map[String, Set[Int]]

  private class Scene(tables: String*) {
    val lake: Lake = Lake.inMemory()
    tables.foreach(lake.create(_, "f", "g"))

    /** What is deleted in each file, by the log. */
    def deleted(table: String): Rows =
      lake.states.stateAt(lake.path(table), lake.head(table)).files.values.map { f =>
        f.path -> f.add.deletionVector.fold(Set.empty[Int])(RowSets.of(_).map(_.toInt))
      }.toMap

    /** The actions that delete more rows of files. */
    def taking(more: Rows, before: Rows): Seq[Action] =
      more.toSeq.filter(_._2.nonEmpty).flatMap { case (file, rows) =>
        val old = Option(before.getOrElse(file, Set.empty)).filter(_.nonEmpty).map(text)
        Seq(lake.remove(file, old), lake.add(file, Some(text(before(file) ++ rows))))
      }

    def begin(db: Database, work: (String, Rows)*): (BegunTransaction, Seq[WrittenTable]) = {
      val txn = lake.begin(db)
      txn -> work.map { case (table, rows) =>
        val pin = lake.head(table)
        lake.stage(txn, table, pin, taking(rows, deleted(table)): _*)
        lake.written(table, pin)
      }
    }

    private def text(rows: Set[Int]) = rows.toSeq.sorted.mkString(".")
  }

  private def conflict(outcome: CommitOutcome): io.lakestep.timeline.Conflict = outcome match {
    case CommitOutcome.Conflicted(c, _) => c
    case other => fail(other.toString)
  }

  test(
    "different rows of one file: both commit, in every order, with vectors that had been there"
  ) {
    val s = new Scene("A")
    s.lake.foreign("A", s.taking(Map("f" -> Set(9)), s.deleted("A")): _*)
    val db = s.lake.client()
    val open = Seq(0, 1, 2).map(i => s.begin(db, "A" -> Map("f" -> Set(i), "g" -> Set(i))))
    Seq(1, 0, 2).foreach { i =>
      val (txn, tables) = open(i)
      assert(db.commit(txn, tables).isInstanceOf[CommitOutcome.Committed])
    }
    assert(s.deleted("A") == Map("f" -> Set(0, 1, 2, 9), "g" -> Set(0, 1, 2)))
    val last = s.lake.log("A").read(s.lake.head("A")).get.files
    assert(
      last.collect { case r: io.lakestep.log.RemoveFile => r.path -> r.dvId }.toSet ==
        Set("f" -> Some("u0.1.9"), "g" -> Some("u0.1")),
      "the change feed is taken from the vectors"
    )
  }

  test("the same row, a rewritten file and a file that got rows back are conflicts") {
    def outcome(theirs: Scene => Seq[Action]): io.lakestep.timeline.Conflict = {
      val s = new Scene("A", "B")
      s.lake.foreign("A", s.taking(Map("f" -> Set(9)), s.deleted("A")): _*)
      val db = s.lake.client()
      val (txn, tables) = s.begin(db, "B" -> Map("f" -> Set(1)), "A" -> Map("f" -> Set(1)))
      s.lake.foreign("A", theirs(s): _*)
      val before = s.lake.memory.paths.filterNot(_.contains("/_lakestep"))
      val found = conflict(db.commit(txn, tables))
      assert(s.lake.memory.paths.filterNot(_.contains("/_lakestep")) == before)
      found
    }
    val rows = outcome(s => s.taking(Map("f" -> Set(1, 2)), s.deleted("A")))
    assert((
      rows.rule,
      rows.files,
      rows.version
    ) == ((Rule.SameRows, Vector("f"), Some(2L))))
    val rewritten = outcome(s => Seq(s.lake.remove("f", Some("9")), s.lake.add("h")))
    assert(rewritten.rule == Rule.SameFile)
    val without = outcome(s => Seq(s.lake.remove("f", Some("9")), s.lake.add("f")))
    assert(without.rule == Rule.SameFile)
    val back = outcome(s => Seq(s.lake.remove("f", Some("9")), s.lake.add("f", Some("8"))))
    assert(back.rule == Rule.SameRows)
    val arranged = outcome { s =>
      val remove = s.lake.remove("f", Some("9"), dataChange = false)
      Seq(remove, s.lake.add("f", Some("8.9"), dataChange = false))
    }
    assert(arranged.rule == Rule.SameFile)
  }

  test("SERIALIZABLE depends on the file that it read, whatever rows the other one took") {
    val s = new Scene("A")
    val db = s.lake.client()
    val txn = s.lake.begin(db, IsolationLevel.Serializable)
    s.lake.stage(txn, "A", 0, s.taking(Map("f" -> Set(1)), s.deleted("A")): _*)
    s.lake.foreign("A", s.taking(Map("f" -> Set(2)), s.deleted("A")): _*)
    val reads = Some(io.lakestep.log.ReadSet.WholeTable)
    val table = s.lake.written("A", 0).copy(reads = reads)
    assert(conflict(db.commit(txn, Seq(table))).rule == Rule.ReadChanged)
  }

  test("a vector that comes between order point and publish takes the entry back, by any client") {
    for (dies <- Seq(false, true)) {
      val s = new Scene("A", "B")
      val late = Once(s.lake.foreign("B", s.taking(Map("f" -> Set(7)), s.deleted("B")): _*))
      val db = s.lake.client(new CommitSteps {
        override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
          if (t.name == "B") { late(); if (dies) throw new Crash }
      })
      s.lake.foreign("A", s.taking(Map("f" -> Set(5)), s.deleted("A")): _*)
      val (txn, tables) = s.begin(db, "A" -> Map("f" -> Set(1)), "B" -> Map("f" -> Set(1)))
      s.lake.foreign("A", s.taking(Map("f" -> Set(6)), s.deleted("A")): _*)
      if (dies) {
        intercept[Crash](db.commit(txn, tables))
        s.lake.client().recover()
      } else assert(conflict(db.commit(txn, tables)).rule == Rule.SameFile)
      assert(s.deleted("A")("f") == Set(5, 6), "as it was before the publish, not at the pin")
      assert(s.deleted("B")("f") == Set(7))
    }
  }

  test("a COMMIT that loses its number merges again") {
    val s = new Scene("A")
    val other = s.lake.client()
    val (rival, rivals) = s.begin(other, "A" -> Map("f" -> Set(3)))
    val first = Once { other.commit(rival, rivals); () }
    val db = s.lake.client(new CommitSteps {
      override def beforeOrder(entry: CommitEntry): Unit = first()
    })
    val (txn, tables) = s.begin(db, "A" -> Map("f" -> Set(1)))
    s.lake.foreign("A", s.taking(Map("f" -> Set(2)), s.deleted("A")): _*)
    assert(db.commit(txn, tables).isInstanceOf[CommitOutcome.Committed])
    assert(s.deleted("A")("f") == Set(1, 2, 3))
  }

  test("whatever open transactions and foreign writers take, each row is taken once") {
    val seed = sys.env.get("LAKESTEP_TEST_SEED").fold(Random.nextLong())(_.toLong)
    val random = new Random(seed)
    var (commits, conflicts) = (0, 0)
    (1 to 200).foreach { _ =>
      val s = new Scene("A", "B")
      val db = s.lake.client()
      var model = Map("A" -> s.deleted("A"), "B" -> s.deleted("B"))
      def rows(): Rows =
        Seq("f", "g").map(_ -> Seq.fill(random.nextInt(3))(random.nextInt(12)).toSet).toMap
      def fresh(table: String, more: Rows) = more.map { case (f, r) =>
        f -> (r -- s.deleted(table)(f))
      }
      def taken(work: Map[String, Rows]): Unit = model = model.map { case (table, files) =>
        table -> files.map { case (f, r) => f -> (r ++ work.get(table).fold(Set.empty[Int])(_(f))) }
      }
      val open = Seq.fill(3) {
        val work = Seq("A", "B").map(t => t -> fresh(t, rows())).toMap
        if (random.nextBoolean()) {
          val theirs = fresh("A", rows())
          if (theirs.exists(_._2.nonEmpty)) {
            s.lake.foreign("A", s.taking(theirs, s.deleted("A")): _*)
            taken(Map("A" -> theirs))
          }
        }
        val mine = work.map { case (t, r) => t -> fresh(t, r) }
        (s.begin(db, mine.toSeq: _*), mine, model)
      }
      random.shuffle(open).foreach { case ((txn, tables), work, atBegin) =>
        val overlaps = work.exists { case (table, files) =>
          files.exists { case (f, r) => (r & (model(table)(f) -- atBegin(table)(f))).nonEmpty }
        }
        db.commit(txn, tables) match {
          case CommitOutcome.Committed(_, _, _, _, _, _) =>
            assert(!overlaps, s"LAKESTEP_TEST_SEED=$seed")
            taken(work)
            commits += 1
          case CommitOutcome.Conflicted(c, _) =>
            assert(overlaps && c.rule == Rule.SameRows, s"$c LAKESTEP_TEST_SEED=$seed")
            conflicts += 1
          case CommitOutcome.NothingToCommit =>
            assert(work.values.forall(_.values.forall(_.isEmpty)))
          case other => fail(other.toString)
        }
        assert(
          model == Map("A" -> s.deleted("A"), "B" -> s.deleted("B")),
          s"LAKESTEP_TEST_SEED=$seed"
        )
      }
    }
    info(s"$commits commits, $conflicts conflicts")
    assert(commits > 100 && conflicts > 100)
  }
}
