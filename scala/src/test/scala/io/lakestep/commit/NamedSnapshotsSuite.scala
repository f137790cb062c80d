package io.lakestep.commit

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.timeline.{Cut, NamedSnapshot}

/** Named snapshots beside VACUUM, and beside those who create and drop others of the same name. */
final class NamedSnapshotsSuite extends AnyFunSuite {

  private class Scene extends TwoTables {
    lake.clock.advance(10 * Hour)
    assert(run(CommitSteps.Silent).isInstanceOf[CommitOutcome.Committed])
    lake.clock.advance(10 * Hour)
    val db: Database = lake.client()

    def create(
        name: String = "eoy",
        asOf: Option[AsOf] = None,
        retainMs: Option[Long] = None,
        db: Database = db): NamedSnapshot =
      db.snapshots.create(SnapshotRequest(name, asOf, retainMs, None, "me", "suite"))

    def failure(body: => Any): String = intercept[LakestepException](body).getCondition

    val log: String = db.snapshots.logOf(lake.path("A")).get

    /** What VACUUM leaves, and for whom. */
    def vacuum(beforeMs: Long, db: Database = db): Vector[Holder] = {
      val (cut, holders) =
        db.snapshots.cutting(log, lake.path("A"), lake.head("A"), beforeMs, own = None)
      db.snapshots.ended(cut)
      holders
    }

    def names: Vector[String] = db.snapshots.all().map(_.name)

    /** Each has one that says it is done. */
    def notes: Int = {
      val (ends, cuts) =
        lake.memory.paths.filter(_.contains("/cuts/")).partition(_.contains("ended"))
      assert(ends.size == cuts.size)
      cuts.size
    }
  }

  private val Hour = 3600000L

  /** Dies when it has put a snapshot of such a name. */
  private def dying(has: String => Boolean): CommitSteps = new CommitSteps {
    override def snapshotPut(name: String): Unit = if (has(name)) throw new Crash
  }

  test("it holds the versions of its tables, with what others have committed") {
    val s = new Scene
    s.lake.foreign("B", s.lake.add("b3"))
    val snapshot = s.create("EOY")
    assert(snapshot.name == "eoy" && snapshot.entry == 1)
    assert(snapshot.tables.map(t => t.path.uri.takeRight(1) -> t.version) == Seq(
      "A" -> 1,
      "B" -> 2
    ))
    assert(s.db.snapshots.find("Eoy").contains(snapshot))
  }

  test("a table that is gone, or is another one, is missing in it") {
    val s = new Scene
    s.lake.drop("A")
    s.lake.drop("B")
    s.lake.create("B", "b9")
    val snapshot = s.create()
    assert(snapshot.tables.isEmpty && snapshot.missing.map(_.uri.takeRight(1)) == Seq("A", "B"))
  }

  test("of one name there is one; it may be dropped, twice, and created again") {
    val s = new Scene
    val first = s.create()
    assert(s.failure(s.create()) == "LAKESTEP_SNAPSHOT_EXISTS")
    s.db.snapshots.drop(first)
    val second = s.create()
    assert(second.id != first.id)
    // Who is late drops none but the one that it meant.
    s.db.snapshots.drop(first)
    assert(s.db.snapshots.all() == Vector(second))
    s.create("eoy-2")
    assert(s.names == Seq("eoy", "eoy-2"))
  }

  test("who is late does not create one that others have created and dropped since") {
    val s = new Scene
    val late = new mutable.ArrayBuffer[String]
    var armed = true
    s.lake.memory.interceptPut = (path, put) => {
      if (armed && path.contains("/snapshots/eoy")) {
        armed = false
        s.db.snapshots.drop(s.create(db = s.lake.client()))
      }
      put()
    }
    late += s.failure(s.create())
    assert(late.toSeq == Seq("LAKESTEP_SNAPSHOT_EXISTS") && s.names.isEmpty)
    s.create()
    assert(s.names == Seq("eoy"))
  }

  test("VACUUM leaves what it reads, until it is dropped or has expired") {
    val s = new Scene
    val kept = s.create(retainMs = Some(Hour))
    s.create("other")
    def held = s.vacuum(0).filter(_.snapshot.isDefined).map(_.name)
    assert(held == Seq("eoy", "other"))
    s.lake.clock.advance(Hour - 1)
    assert(held == Seq("eoy", "other"))
    s.lake.clock.advance(1)
    assert(held == Seq("other"))
    assert(s.names == Seq("other"))
    assert(s.create().id != kept.id)
  }

  test("VACUUM leaves what a transaction reads, or stages, as long as it is open") {
    val s = new Scene
    val txn = s.lake.begin(s.db)
    s.lake.begin(s.db, readOnly = true)
    val now = s.lake.clock.nowMs()
    s.lake.clock.advance(1)
    s.lake.foreign("A", s.lake.remove("a2"))
    assert(s.vacuum(0) == Seq(Holder(Holder.OfTransaction, txn.id, Some(1), now)))
    assert(s.db.snapshots.holders(s.log, s.lake.path("A"), own = Some(txn.id)).isEmpty)
    s.db.discard(txn, Nil)
    assert(s.vacuum(0).isEmpty)
  }

  test("one of an older state is refused where VACUUM may have cut it") {
    val s = new Scene
    val now = s.lake.clock.nowMs()
    def older() = s.create(asOf = Some(AsOf.Version(1)))
    s.lake.clock.advance(5 * Hour)
    s.lake.foreign("A", s.lake.remove("a2"), s.lake.add("a3"))
    // What was removed by then is not what version 1 reads.
    s.vacuum(now)
    s.db.snapshots.drop(older())
    // The clock of a writer may be slow.
    s.vacuum(now + 5 * Hour - Hour + 1)
    assert(s.failure(older()) == "LAKESTEP_SNAPSHOT_CUT")
    assert(s.names.isEmpty)
    // The newest needs nothing that was removed.
    s.create()
    assert(s.names == Seq("eoy"))
  }

  test("VACUUM that begins between the pin and the put hits; one that begins later knows of it") {
    for (after <- Seq(false, true)) {
      val s = new Scene
      var held = Vector.empty[Holder]
      def others(): Unit = {
        s.lake.foreign("A", s.lake.remove("a2"), s.lake.add("a3"))
        held = s.vacuum(s.lake.clock.nowMs() + Hour, s.lake.client())
      }
      var armed = true
      s.lake.memory.interceptPut = (path, put) => {
        val isIt = armed && path.contains("/snapshots/")
        if (isIt) armed = false
        if (isIt && !after) others()
        val done = put()
        if (isIt && after) others()
        done
      }
      assert(s.failure(s.create()) == "LAKESTEP_SNAPSHOT_CUT")
      // Needlessly, where VACUUM knew of it.
      assert(held.size == (if (after) 1 else 0))
      assert(s.names.isEmpty)
    }
  }

  test("a client that dies after its put leaves a snapshot that counts") {
    val s = new Scene
    intercept[Crash](s.create(db = s.lake.client(dying(_ == "eoy"))))
    assert(s.names == Seq("eoy") && s.vacuum(0).size == 1)
  }

  test("a client that dies before it has looked leaves a hold alone, which does not last") {
    for (collects <- Seq(false, true)) {
      val s = new Scene
      val now = s.lake.clock.nowMs()
      s.lake.foreign("A", s.lake.remove("a2"), s.lake.add("a3"))
      s.vacuum(now + Hour)
      def older(db: Database) = s.create(asOf = Some(AsOf.Version(1)), db = db)
      intercept[Crash](older(s.lake.client(dying(_ => true))))
      assert(s.db.snapshots.find("eoy").isEmpty && s.vacuum(0).map(_.version) == Seq(Some(1)))
      assert(s.failure(older(s.db)) == "LAKESTEP_SNAPSHOT_CUT")
      s.create()
      s.lake.clock.advance(24 * Hour)
      if (collects) s.db.collect(Hour) else s.vacuum(0)
      assert(s.names == Seq("eoy"))
    }
  }

  test("who has slept for longer than its hold lasts looks again") {
    val s = new Scene
    val now = s.lake.clock.nowMs()
    s.lake.foreign("A", s.lake.remove("a2"), s.lake.add("a3"))
    s.lake.memory.interceptPut = (path, put) => {
      if (path.contains("/snapshots/eoy.") && !path.contains("dropped")) {
        s.lake.clock.advance(24 * Hour)
        assert(s.vacuum(now + Hour, s.lake.client()).isEmpty)
      }
      put()
    }
    assert(s.failure(s.create(asOf = Some(AsOf.Version(1)))) == "LAKESTEP_SNAPSHOT_CUT")
    assert(s.names.isEmpty)
  }

  test("of what VACUUM has said only the most is left") {
    val s = new Scene
    s.vacuum(5)
    s.vacuum(3)
    assert(s.notes == 1)
    s.vacuum(9)
    assert(s.notes == 1)
    s.lake.foreign("A", s.lake.add("a3"))
    s.vacuum(2)
    assert(s.notes == 2)
    assert(s.db.timeline.snapshots.cutsOf(s.log).map(c => c.head -> c.beforeMs).toSet ==
      Set(1L -> 9L, 2L -> 2L))
    assert(s.db.timeline.snapshots.cutsOf("another").isEmpty)
    s.vacuum(9)
    assert(s.notes == 1)
    // One that may yet be taken back says nothing of what another has deleted.
    val (open, _) =
      s.db.snapshots.cutting(s.log, s.lake.path("A"), s.lake.head("A"), 99, own = None)
    s.vacuum(50)
    s.db.snapshots.uncut(open)
    assert(s.db.timeline.snapshots.cutsOf(s.log).exists(_.beforeMs == 50))
    s.vacuum(99)
    assert(s.notes == 1)
    // One whose client has died stays, as nobody knows what it has done.
    s.db.snapshots.cutting(s.log, s.lake.path("A"), s.lake.head("A"), 1, own = None)
    s.vacuum(9)
    assert(s.db.timeline.snapshots.openCutsOf(s.log).map(_.beforeMs) == Vector(1L))
    // Nor does one that is taken back take an equal one of the same moment with it.
    def cutting() = s.db.snapshots.cutting(s.log, s.lake.path("A"), 7, 100, own = None)._1
    val (one, other) = (cutting(), cutting())
    s.db.snapshots.uncut(one)
    assert(s.db.timeline.snapshots.openCutsOf(s.log).filter(_.beforeMs == 100) == Vector(other))
    val cut = Cut("id", "l", s.lake.path("A"), 2, 9, 0)
    assert(cut.isWithin(cut) && !cut.isWithin(cut.copy(log = "m")))
  }

  private val first = SnapshotRequest("eoy", Some(AsOf.Version(1)), None, None, "me", "suite")

  /** Table A, which entry 1 has written and entry 2 has dropped. */
  private def dropped(): (NamedLake, Database) = {
    val names = new NamedLake
    val (lake, db) = (names.lake, names.client())
    lake.clock.advance(7)
    val txn = lake.begin(db)
    lake.stage(txn, "A", lake.head("A"), lake.add("a9"))
    assert(isCommitted(db.commit(txn, Seq(lake.written("A", lake.head("A"))))))
    assert(isCommitted(names.commit(db, names.drop("A"))))
    lake.clock.advance(1000)
    (names, db)
  }

  test("a dropped table that it has is not purged") {
    for (purges <- Seq(false, true)) {
      val (names, db) = dropped()
      val lake = names.lake
      def create() = db.snapshots.create(first)
      if (!purges) create()
      val vacuum = lake.begin(db)
      val old = db.oldDropped(vacuum, 500)
      assert(old.map(_.kept) == Seq(Option.when(!purges)("snapshot eoy reads it")))
      if (purges) {
        assert(isCommitted(db.commit(vacuum, Nil, purges = old.map(_.purge))))
        // Before its data are gone.
        assert(intercept[LakestepException](create()).getCondition == "LAKESTEP_SNAPSHOT_CUT")
        assert(db.purge().map(_._2) == Seq(Purged.Deleted))
      }
    }
  }

  test("one that is put after VACUUM DROPPED TABLES has decided, and before it deletes, keeps") {
    val (names, db) = dropped()
    val lake = names.lake
    val vacuum = lake.begin(db)
    val purges = db.oldDropped(vacuum, 500).map(_.purge)
    // Its creator is held before it looks for entries that purge.
    intercept[Crash](names.client(observer = dying(_ => true)).snapshots.create(first))
    val held = db.snapshots.all().head
    assert(held.isHold && isCommitted(db.commit(vacuum, Nil, purges = purges)))
    assert(db.purge().map(_._2) == Seq(Purged.Kept(s"snapshot ${held.name} reads it")))
  }

  private def isCommitted(outcome: CommitOutcome) = outcome.isInstanceOf[CommitOutcome.Committed]

  test("a copy counts once its file is there; the first one does, until the snapshot is dropped") {
    val s = new Scene
    val snapshot = s.create()
    val table = snapshot.tables.head
    def copy(id: String): Unit = {
      val file = s"${table.path.keptCopy(id)}/0.json"
      s.db.snapshots.starting(table, id)
      s.lake.store.putIfAbsent(file, Array(1.toByte))
      s.db.snapshots.keep(snapshot, table, id, Seq(file))
    }
    val (one, two) = ("1" * 32, "2" * 32)
    def kept = s.db.snapshots.kept(table.path, snapshot.id)
    assert(kept.isEmpty)
    copy(one)
    copy(two)
    assert(kept.map(_.copy).contains(one))
    def left = s.lake.memory.paths.filter(_.contains("/kept/"))
    assert(left.size == 2)
    s.db.snapshots.drop(snapshot)
    assert(left.isEmpty)
    // Who has not noticed it leaves nothing, either.
    copy(two)
    assert(left.isEmpty)
  }

  test("a copy that nobody has finished, or deleted, is collected; one in the making is not") {
    val s = new Scene
    val snapshot = s.create()
    val table = snapshot.tables.head
    def start(id: String): Unit = {
      s.db.snapshots.starting(table, id)
      s.lake.store.putIfAbsent(s"${table.path.keptCopy(id)}/0.json", Array(1.toByte))
    }
    def left = s.lake.memory.paths.filter(_.contains("/kept/")).map(_.split('/').takeRight(2).head)
    start("1" * 32)
    s.db.snapshots.keep(snapshot, table, "1" * 32, Nil)
    start("2" * 32)
    s.lake.clock.advance(Hour)
    start("3" * 32)
    s.db.collect(Hour / 2)
    assert(left.toSet == Set("kept", "1" * 32, "3" * 32))
    // Its client died before it deleted the copy.
    s.db.timeline.snapshots.drop(snapshot, 0)
    s.lake.clock.advance(Hour)
    s.db.collect(Hour / 2)
    assert(left.isEmpty)
  }

  test("a copy that was collected in the making counts for nothing") {
    val id = "1" * 32
    for (step <-
        Seq("before its files are looked for", "before it counts", "before it is looked at")) {
      val s = new Scene
      val snapshot = s.create()
      val table = snapshot.tables.head
      val file = s"${table.path.keptCopy(id)}/0.json"
      s.db.snapshots.starting(table, id)
      s.lake.store.putIfAbsent(file, Array(1.toByte))
      s.lake.clock.advance(Hour)
      var isDue = true
      def collect(): Unit = if (isDue) {
        isDue = false
        s.db.collect(1)
        ()
      }
      val keptFile = table.path.kept(snapshot.id)
      if (step.startsWith("before its files")) collect()
      s.lake.memory.interceptPut = (path, put) => {
        if (path == keptFile && step == "before it counts") collect()
        put()
      }
      if (step != "before it is looked at") {
        assert(
          s.failure(s.db.snapshots.keep(snapshot, table, id, Seq(file))) ==
            "LAKESTEP_NOT_THERE_AS_OF",
          step
        )
        assert(s.db.snapshots.kept(table.path, snapshot.id).isEmpty, step)
      } else {
        s.db.snapshots.keep(snapshot, table, id, Seq(file))
        collect()
        assert(s.lake.store.get(file).isDefined)
      }
    }
  }

  test("no copy of a table that was made anew at the path is made") {
    val s = new Scene
    val snapshot = s.create()
    val table = snapshot.tables.head
    s.lake.drop("A")
    s.lake.create("A", "other")
    assert(s.failure(s.db.snapshots.starting(table, "1" * 32)) == "LAKESTEP_NOT_THERE_AS_OF")
    // Meanwhile.
    assert(s.failure(s.db.snapshots.keep(snapshot, table, "1" * 32, Nil)) ==
      "LAKESTEP_NOT_THERE_AS_OF")
    assert(s.db.snapshots.kept(table.path, snapshot.id).isEmpty)
  }

  test("what VACUUM was refused is taken back; a snapshot of one that is held is not cut") {
    val s = new Scene
    val now = s.lake.clock.nowMs()
    s.lake.foreign("A", s.lake.remove("a2"), s.lake.add("a3"))
    val (cut, _) =
      s.db.snapshots.cutting(s.log, s.lake.path("A"), s.lake.head("A"), now + Hour, own = None)
    s.db.snapshots.uncut(cut)
    val first = s.create("first", asOf = Some(AsOf.Version(1)))
    s.vacuum(now + Hour)
    assert(s.failure(s.create(asOf = Some(AsOf.Version(1)))) == "LAKESTEP_SNAPSHOT_CUT")
    val again = s.create(asOf = Some(AsOf.Named("first")))
    assert(again.tables == first.tables)
  }

  test("where the log is gone the copy is read, and without one nothing is") {
    val s = new Scene
    val snapshot = s.create()
    s.lake.foreign("A", s.lake.add("a3"))
    s.lake.store.delete(s.lake.path("A").slot(1))
    def pin() = {
      val txn = s.db.begin(BeginRequest(
        None,
        "me",
        "suite",
        IsolationLevel.Snapshot,
        readOnly = true,
        notBefore = 0,
        asOf = Some(AsOf.Named("EOY"))
      ))
      s.db.pinned(txn, s.lake.path("A"), notBelow = -1)
    }
    assert(s.failure(pin()) == "LAKESTEP_NOT_THERE_AS_OF")
    s.db.snapshots.starting(snapshot.tables.head, "1" * 32)
    s.db.snapshots.keep(snapshot, snapshot.tables.head, "1" * 32, Nil)
    assert(pin().version == 1 && pin().kept.contains("1" * 32))
  }
}
