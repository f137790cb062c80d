package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{ReadSet, TableRef}
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/** DROP, and DROP with CREATE, by others, at any step of a transaction. */
final class DroppedTableSuite extends AnyFunSuite {

  private class Scene extends TwoTables {

    /** Another table under the same name, whose first file has the same length. */
    def recreate(table: String): Unit = {
      lake.drop(table)
      lake.clock.advance(1)
      lake.foreign(
        table,
        lake.protocol(),
        lake.metaData(s"no-$table"),
        lake.add(s"${table.toLowerCase}1")
      )
      ()
    }

    def append(db: Database, table: String, file: String): CommitOutcome = {
      val txn = lake.begin(db)
      val pin = db.pin(txn, lake.path(table), -1)
      lake.stage(txn, table, pin, lake.add(file))
      db.commit(txn, Seq(lake.written(table, pin)))
    }

    def isUntouched(table: String): Boolean = lake.live(table) == Set(s"${table.toLowerCase}1")

    /** The entry has its end, and both tables can be written again by anybody. */
    def isOver: Boolean = {
      val others = lake.client()
      others.recover().failed.isEmpty && {
        val txn = lake.begin(others)
        val tables = Seq("A", "B").filter(lake.head(_) >= 0).map { t =>
          val pin = others.pin(txn, lake.path(t), -1)
          lake.stage(txn, t, pin, lake.add(s"after-$t"))
          lake.written(t, pin)
        }
        others.commit(txn, tables).isInstanceOf[CommitOutcome.Committed]
      }
    }
  }

  private def conflict(outcome: CommitOutcome): Rule = outcome match {
    case CommitOutcome.Conflicted(c, _) => c.rule
    case other => fail(other.toString)
  }

  private class At(lake: Lake, step: String)(body: => Unit) extends CommitSteps {
    private var done = false
    private def on(name: String): Unit = if (name == step && !done) { done = true; body }
    override def flattened(t: String, path: TableRef): Unit =
      if (path == lake.path("A")) on("flattened")
    override def helped(t: String): Unit = on("helped")
    override def validated(t: String): Unit = on("validated")
    override def ordered(entry: CommitEntry): Unit = on("ordered")
    override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
      if (t.name == "A") on("beforePublish")
    override def beforeDecision(e: CommitEntry, o: io.lakestep.timeline.Outcome): Unit =
      on("beforeDecision")
  }

  private val steps = Seq("flattened", "helped", "validated", "ordered", "beforePublish")

  for (step <- steps; again <- Seq(false, true)) {
    val what = if (again) "dropped and created again" else "dropped"

    test(
      s"a table that is $what at the step '$step': nothing of the transaction happens, it ends"
    ) {
      val s = new Scene
      val outcome = s.run(new At(s.lake, step)(if (again) s.recreate("A") else s.lake.drop("A")))
      assert(conflict(outcome) == Rule.TableGone)
      assert(s.isUntouched("B"))
      // A put that is on its way when the table goes lands where the table was.
      if (Set("ordered", "beforePublish")(step)) s.lake.drop("A")
      else assert(if (again) s.isUntouched("A") else s.lake.head("A") < 0)
      assert(s.isOver)
    }
  }

  test("a part that lands in a table made anew, above what had been walked, does not count") {
    val s = new Scene
    val outcome = s.run(new At(s.lake, "beforePublish")({
      s.recreate("A")
      s.lake.foreign("A", s.lake.add("g"))
      ()
    }) {
      override def ordered(entry: CommitEntry): Unit = { s.lake.foreign("A", s.lake.add("f")); () }
    })
    assert(conflict(outcome) == Rule.TableGone)
    assert(s.isUntouched("B"))
  }

  test("a table that is created again under a rollback is left alone, and the rollback ends") {
    val s = new Scene
    s.run(new At(s.lake, "beforeDecision")({
      s.recreate("A")
    }) {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") { s.lake.foreign("B", s.lake.remove("b1")); () }
    })
    assert(s.isUntouched("A") && s.lake.marks("A").isEmpty && s.isOver)
  }

  for (isBound <- Seq(false, true); isListed <- Seq(true, false) if isBound || isListed) {
    val what = if (isBound) "bound" else "not bound"
    val how = if (isListed) "its commit file" else "its binding"

    test(s"a table, $what, that is created again after the pin is told by $how") {
      val s = new Scene
      val db = s.lake.client()
      if (isBound) s.append(db, "A", "x")
      val txn = s.lake.begin(db, IsolationLevel.Serializable)
      val pin = db.pinned(txn, s.lake.path("A"), -1)
      s.recreate("A")
      if (isBound) s.append(db, "A", "y")
      assert(s.lake.head("A") == pin.version)
      assert(!db.isThere(s.lake.path("A"), pin))
      // As if the store gave both commit files one length and time.
      def same = s.lake.log("A").tail(0).slot(pin.version).map(Environment.stamp)
      val again = if (isListed) pin else pin.copy(slot = same)
      s.lake.stage(txn, "A", pin.version, s.lake.add("z"))
      s.lake.stage(txn, "B", 0, s.lake.add("z"))
      val a = s.lake.written("A", pin.version).copy(pinnedAs = Some(again))
      assert(conflict(db.commit(txn, Seq(a, s.lake.written("B", 0)))) == Rule.TableGone)
      val read = ReadTable(a.path, "A", pin.version, ReadSet.WholeTable, a.pinnedAs)
      val other = db.commit(txn, Seq(s.lake.written("B", 0)), Seq(read))
      assert(conflict(other) == Rule.TableGone)
      assert(s.isUntouched("B") && !s.lake.live("A")("z"))
    }
  }

  test("where the commit file of the pin was cleaned up, its binding tells") {
    val s = new Scene
    val db = s.lake.client()
    // Version 2 has a checkpoint and no commit any more.
    def secondVersion(): Unit = {
      s.append(db, "A", "x")
      s.lake.foreign("A", s.lake.add("f"))
      io.lakestep.log.JsonStates.checkpoint(s.lake.store, s.lake.path("A").uri)
      s.lake.store.delete(s.lake.path("A").slot(2))
    }
    secondVersion()
    val pin = db.pinned(s.lake.begin(db), s.lake.path("A"), -1)
    assert(pin.version == 2 && pin.slot.isEmpty && db.isThere(s.lake.path("A"), pin))
    s.recreate("A")
    secondVersion()
    assert(s.lake.head("A") == 2 && !db.isThere(s.lake.path("A"), pin))
  }

  test("a table that ends below the pin, or is gone, is not the one that was pinned") {
    val s = new Scene
    val db = s.lake.client()
    val none = db.pinned(s.lake.begin(db), s.lake.path("B"), -1).copy(version = -1, slot = None)
    assert(db.isThere(s.lake.path("C"), none))
    s.lake.foreign("A", s.lake.add("f"))
    val pin = db.pinned(s.lake.begin(db), s.lake.path("A"), -1)
    assert(pin.version == 1 && db.isThere(s.lake.path("A"), pin))
    s.lake.foreign("A", s.lake.add("g"))
    io.lakestep.log.JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
    assert(db.isThere(s.lake.path("A"), pin))
    s.recreate("A")
    assert(s.lake.head("A") == 0 && !db.isThere(s.lake.path("A"), pin))
    s.lake.drop("A")
    assert(!db.isThere(s.lake.path("A"), pin))
  }

  test("a client that wrote a table before it was created again binds the new one as others do") {
    val s = new Scene
    val db = s.lake.client()
    s.append(db, "A", "x")
    s.recreate("A")
    val txn = s.lake.begin(db)
    assert(db.pin(txn, s.lake.path("A"), -1) == 0)
    s.append(db, "A", "y") match {
      case CommitOutcome.Committed(entry, _, _, _, _, _) =>
        val file = s.lake.path("A").binding
        val bound = s.lake.store.get(file).map(io.lakestep.Json.parse(_).get("log").asText)
        assert(bound.contains(entry.tables.head.log))
      case other => fail(other.toString)
    }
  }

  test("a log that ends below what the session has read is that of a table made anew") {
    val s = new Scene
    val db = s.lake.client()
    val pinned = db.pin(s.lake.begin(db), s.lake.path("A"), -1L)
    assert(db.pin(s.lake.begin(db), s.lake.path("A"), pinned + 3) == pinned)
  }

  test(
    "COMMIT leaves nothing where a table was that nobody had bound, also by staged commits it knows"
  ) {
    for (isKnown <- Seq(false, true)) {
      val lake = Lake.inMemory()
      lake.create("A", "a1")
      val db = lake.client(options = DatabaseOptions(syncDataFiles = false))
      val txn = lake.begin(db)
      lake.stage(txn, "A", 0, lake.add("a2"))
      val staged = lake.log("A").readStaged(txn.id, 1).map(c => c.version -> c.actions).toMap
      val written = lake.written("A", 0).copy(staged = if (isKnown) staged else Map.empty)
      lake.drop("A")
      assert(conflict(db.commit(txn, Seq(written))) == Rule.TableGone)
      db.discard(txn, Seq(lake.path("A")))
      assert(lake.memory.paths.filter(_.startsWith(lake.path("A").uri)).isEmpty)
    }
  }
}
