package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{Action, AddFile, DomainMetadata, JsonStates, MarkKind, RowTracking}
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/**
 * A transaction whose statements one commit of a table cannot say: several commits, whoever puts
 * them, and row ids that stand inside files stay what they are.
 */
final class PartsSuite extends AnyFunSuite {

  /** Table A tracks rows and has given out ids 0 to 9; B does not. */
  private class Scene {
    val lake: Lake = Lake.inMemory()
    private val tracking = lake.protocol("rowTracking", "domainMetadata")
    lake.create("A", tracking, Map.empty[String, String], Seq.empty[String])
    lake.foreign("A", row("a1", 0, 1), mark(9))
    lake.create("B", "b1")
    lake.file("A", "a1")

    def mark(last: Long): DomainMetadata =
      lake.domain(DomainMetadata.RowTracking, s"""{"rowIdHighWaterMark":$last}""")

    def row(path: String, id: Long, version: Long): AddFile = {
      val body = lake.add(path).body
      AddFile(body.put("baseRowId", id).put("defaultRowCommitVersion", version))
    }

    private def stage(txn: BegunTransaction, commits: Seq[Action]*): WrittenTable = {
      commits.foreach { actions =>
        actions.collect { case a: AddFile => lake.file("A", a.path) }
        lake.stage(txn, "A", 1, actions: _*)
      }
      lake.written("A", 1).copy(rowTracking = true, rowIdHighWaterMark = Some(9))
    }

    /** An INSERT, a statement that does nothing, and an UPDATE of the new rows. */
    def baked(txn: BegunTransaction): WrittenTable = stage(
      txn,
      Seq(row("x", 10, 2), mark(19)),
      Seq(lake.commitInfo("DELETE")),
      Seq(lake.remove("x"), row("y", 20, 4), mark(29))
    )

    /** An INSERT, OPTIMIZE of what was there, and an INSERT. */
    def loose(txn: BegunTransaction): WrittenTable = stage(
      txn,
      Seq(row("x", 10, 2), mark(19)),
      Seq(
        lake.remove("a1", dataChange = false),
        AddFile(row("c", 20, 3).body.put("dataChange", false)),
        mark(29)
      ),
      Seq(row("z", 30, 4), mark(39))
    )

    def run(db: Database, staging: BegunTransaction => WrittenTable)(
        meanwhile: => Unit = ()): CommitOutcome = {
      val txn = lake.begin(db)
      val table = staging(txn)
      lake.file("B", "b2")
      lake.stage(txn, "B", 0, lake.remove("b1"), lake.add("b2"))
      meanwhile
      db.commit(txn, Seq(table, lake.written("B", 0)))
    }

    /** By version: each file with its first row id and row commit version, and the high-water mark. */
    def published: Map[Long, (Set[(String, Long, Long)], Option[Long])] =
      (2L to lake.head("A")).flatMap(v => lake.log("A").read(v)).map { commit =>
        val files = commit.actions.collect { case a: AddFile =>
          (a.path, a.baseRowId.getOrElse(-1L), a.defaultRowCommitVersion.getOrElse(-1L))
        }.toSet
        commit.version -> (files -> RowTracking.highWaterMark(commit.actions))
      }.toMap

    def rule(outcome: CommitOutcome): Option[Rule] = outcome match {
      case CommitOutcome.Conflicted(conflict, _) => Some(conflict.rule)
      case _ => None
    }

    def isUntouched: Boolean = lake.live("A") == Set("a1") && lake.live("B") == Set("b1")
  }

  private val asStaged = Map(
    2L -> (Set(("x", 10L, 2L)) -> Some(19L)),
    3L -> (Set.empty[(String, Long, Long)] -> None),
    4L -> (Set(("y", 20L, 4L)) -> Some(29L))
  )

  private def after(part: Int, table: String = "A")(work: => Unit) = new CommitSteps {
    override def published(e: CommitEntry, t: EntryTable, p: Int, slot: Long): Unit =
      if (t.name == table && p == part) work
  }

  test("row ids inside files: each commit gets the version and the ids of when it was staged") {
    val s = new Scene
    assert(s.run(s.lake.client(), s.baked)().isInstanceOf[CommitOutcome.Committed])
    assert(s.published == asStaged && s.lake.live("A") == Set("a1", "y"))
    val text =
      s.lake.store.get(f"${s.lake.root}/timeline/${1}%020d.json").map(new String(_, "UTF-8"))
    assert(text.exists(_.contains("\"requiredFeatures\":[\"parts\"]")))
  }

  test("whoever dies after whichever part, the next client puts the rest, the same") {
    for (part <- 1 to 3) {
      val s = new Scene
      intercept[Crash](s.run(s.lake.client(after(part)(throw new Crash)), s.baked)())
      s.lake.client().recover()
      assert(s.published == asStaged && s.lake.live("B") == Set("b2"), s"after part $part")
    }
  }

  test("where the state alone is left it does not tell which part comes next: all or nothing") {
    for (part <- 1 to 3) {
      val s = new Scene
      intercept[Crash](s.run(s.lake.client(after(part)(throw new Crash)), s.baked)())
      JsonStates.checkpoint(s.lake.store, s.lake.path("A").uri)
      s.lake.client().recover()
      val isWhole = s.published == asStaged && s.lake.live("B") == Set("b2")
      assert(isWhole == (part == 3) && isWhole != s.isUntouched, s"after part $part")
    }
  }

  test("row ids inside files: any commit of others is a conflict, before the order point") {
    for (theirs <- Seq[Scene => Action](s => s.row("f", 10, 2), _.lake.txn("app", 1))) {
      val s = new Scene
      val outcome = s.run(s.lake.client(), s.baked) { s.lake.foreign("A", theirs(s)); () }
      assert(s.rule(outcome).contains(Rule.RowIdsBaked))
      assert(s.lake.live("A").forall(!Set("x", "y")(_)) && s.lake.live("B") == Set("b1"))
    }
  }

  test("and after it: what was published is undone") {
    val s = new Scene
    val db = s.lake.client(after(1) { s.lake.foreign("A", s.row("f", 20, 3), s.mark(29)); () })
    assert(s.rule(s.run(db, s.baked)()).contains(Rule.RowIdsBaked))
    assert(s.lake.live("A") == Set("a1", "f") && s.lake.live("B") == Set("b1"))
    assert(s.lake.marks("A").map(_.kind).contains(MarkKind.Undo))
  }

  test("row ids of files that nobody has copied move, each part above the one before") {
    val s = new Scene
    val outcome =
      s.run(s.lake.client(), s.loose) { s.lake.foreign("A", s.row("f", 10, 2), s.mark(14)); () }
    assert(outcome.isInstanceOf[CommitOutcome.Committed])
    assert(s.published == Map(
      2L -> (Set(("f", 10L, 2L)) -> Some(14L)),
      3L -> (Set(("x", 15L, 3L)) -> Some(24L)),
      4L -> (Set(("c", 25L, 4L)) -> Some(34L)),
      5L -> (Set(("z", 35L, 5L)) -> Some(44L))
    ))
  }

  test("a new table of several parts: whoever dies, and undone") {
    def made(s: Scene)(txn: BegunTransaction) = {
      Seq("x", "y").foreach(s.lake.file("N", _))
      val header = Seq(s.lake.protocol("rowTracking", "domainMetadata"), s.lake.metaData("id-N"))
      s.lake.stage(txn, "N", -1, s.lake.commitInfo("CREATE TABLE") +: header: _*)
      s.lake.stage(txn, "N", -1, s.row("x", 0, 1), s.mark(9))
      s.lake.stage(txn, "N", -1, s.lake.remove("x"), s.row("y", 10, 2), s.mark(19))
      WrittenTable(s.lake.path("N"), "N", "id-N", -1, stagedTo = 2, rowTracking = true)
    }
    for (part <- 1 to 3) {
      val s = new Scene
      intercept[Crash](s.run(s.lake.client(after(part, "N")(throw new Crash)), made(s))())
      s.lake.client().recover()
      assert(s.lake.head("N") == 2 && s.lake.live("N") == Set("y") && s.lake.live("B") == Set("b2"))
    }
    for (part <- 1 to 2) {
      val s = new Scene
      val db = s.lake.client(after(part, "N") { s.lake.foreign("N", s.lake.add("f")); () })
      assert(s.rule(s.run(db, made(s))()).isDefined)
      assert(s.lake.live("N") == Set("f") && s.lake.live("B") == Set("b1"), s"after part $part")
    }
  }

  test("versions of parts are their slots; an older client names its one part by any number") {
    def at(slot: Long, earlier: Long*) =
      PublishedCommit.Place(slot, 0, None, None, earlier.toVector)
    assert(at(7).slotOf(1, here = 1) == 7 && at(7).slotOf(3, here = 1) == 7)
    assert(at(9, 5, 7).slotOf(1, here = 3) == 5 && at(9, 5, 7).slotOf(2, here = 3) == 7)
    // Of an earlier one that is not known where it is, nobody is taken to have come between.
    assert(at(9).slotOf(1, here = 3) == 7)
  }

  /** Table C gets row tracking: its files are added once more, with row ids. */
  private def tracked(s: Scene, further: Seq[Seq[Action]])(txn: BegunTransaction): WrittenTable = {
    s.lake.file("C", "d")
    val again = AddFile(s.row("c1", 0, 1).body.put("dataChange", false))
    val header = s.lake.protocol("rowTracking", "domainMetadata")
    s.lake.stage(txn, "C", 0, header, again, s.mark(9))
    further.foreach(actions => s.lake.stage(txn, "C", 0, actions: _*))
    s.lake.written("C", 0).copy(rowTracking = true)
  }

  private val afterTracking: Map[String, Scene => Seq[Seq[Action]]] = Map(
    "nothing" -> (_ => Nil),
    "an UPDATE" -> (s => Seq(Seq(s.lake.remove("c1"), s.row("d", 10, 2), s.mark(19)))),
    "a vector" -> (s =>
      Seq(Seq(s.lake.remove("c1"), AddFile(s.lake.add("c1", Some("v")).body.put("baseRowId", 0))))
    )
  )

  for ((what, further) <- afterTracking; isCleanedUp <- Seq(false, true))
    test(s"files that got row ids stay when that is undone: $what, log cleaned up: $isCleanedUp") {
      val s = new Scene
      s.lake.create("C", "c1")
      val dies = new CommitSteps {
        override def ordered(e: CommitEntry): Unit = {
          s.lake.foreign("B", s.lake.remove("b1")); ()
        }
        override def beforeSettle(e: CommitEntry, t: EntryTable, slot: Long): Unit = throw new Crash
      }
      intercept[Crash](s.run(s.lake.client(dies), tracked(s, further(s)))())
      if (isCleanedUp) {
        s.lake.foreign("C", s.lake.txn("app", 1))
        JsonStates.cleanUp(s.lake.store, s.lake.path("C").uri)
      }
      s.lake.client().recover()
      assert(s.lake.marks("C").lastOption.map(_.kind).contains(MarkKind.Undo))
      assert(s.lake.live("C") == Set("c1"))
    }
}
