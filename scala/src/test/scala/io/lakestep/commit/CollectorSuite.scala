package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.timeline.{CommitEntry, Rule, SnapshotTable}

/** VACUUM TRANSACTIONS beside live and dead clients. */
final class CollectorSuite extends AnyFunSuite {

  /** Tables A and B of the timeline, and what is staged in A. */
  private class Scene {
    val two = new TwoTables()
    val lake: Lake = two.lake
    two.run(CommitSteps.Silent)

    def begun(file: String): BegunTransaction = {
      val txn = lake.begin(lake.client())
      lake.stage(txn, "A", 1, lake.add(file))
      txn
    }

    def isStaged(txn: BegunTransaction): Boolean = {
      val folder = lake.path("A").staging(txn.id)
      lake.memory.paths.exists(_.startsWith(folder))
    }

    def commit(txn: BegunTransaction): CommitOutcome =
      lake.client().commit(txn, Seq(lake.written("A", 1).copy(stagedTo = 2L)))
  }

  test("an old transaction is ended, then its files go; its owner hears of it at COMMIT") {
    val s = new Scene
    val old = s.begun("old")
    s.lake.clock.advance(1000)
    val young = s.begun("young")
    val report = s.lake.client().collect(500)
    assert(report.aborted == Vector(old.id) && report.folders == 1 && report.failed.isEmpty)
    assert(!s.isStaged(old) && s.isStaged(young))
    s.commit(old) match {
      case CommitOutcome.Conflicted(conflict, None) =>
        assert(conflict.rule == Rule.Aborted)
      case other => fail(other.toString)
    }
    assert(s.commit(young).isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("A") == Set("a2", "young"))
    assert(s.lake.client().describe(old.id).isInstanceOf[TransactionStatus.Aborted])
  }

  test("what a transaction holds for an undo is dropped once it has ended, whoever has ended it") {
    val s = new Scene
    val snapshots = s.lake.client().snapshots
    def held(file: String): BegunTransaction = {
      val txn = s.begun(file)
      val table = SnapshotTable(snapshots.logOf(s.lake.path("A")).get, s.lake.path("A"), 1)
      snapshots.hold(txn, Vector(BroughtBack(Vector(table), removedMs = 0)), by = None)
      txn
    }
    // Its client has died before it dropped what it held.
    assert(s.commit(held("committed")).isInstanceOf[CommitOutcome.Committed])
    held("old")
    s.lake.clock.advance(1000)
    val young = held("young")
    assert(s.lake.client().collect(500).aborted.size == 1)
    assert(snapshots.all().filter(_.isHold).flatMap(_.comment) == Vector(young.id))
  }

  test("temporary files of dead writers go, those of living ones stay") {
    val s = new Scene
    def put(name: String): Vector[String] = {
      val folders = s.lake.path("A").temporary +: s.lake.client().timeline.temporary
      folders.map(f => s"$f/$name.tmp").map { file =>
        s.lake.store.putIfAbsent(file, Array[Byte](1))
        file
      }
    }
    val dead = put("dead")
    s.lake.clock.advance(1000)
    val living = put("living")
    assert(s.lake.client().collect(500).failed.isEmpty)
    assert(!dead.exists(s.lake.store.exists) && living.forall(s.lake.store.exists))
  }

  test("what a finished transaction left is removed, and what an unfinished one needs is not") {
    val s = new Scene
    val done = s.begun("done")
    intercept[Crash](s.lake.client(new CommitSteps {
      override def beforeCleanUp(transaction: String): Unit = throw new Crash
    }).commit(done, Seq(s.lake.written("A", 1))))
    val ordered = s.lake.begin(s.lake.client())
    s.lake.stage(ordered, "B", 1, s.lake.add("ordered"))
    intercept[Crash](s.lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    }).commit(ordered, Seq(s.lake.written("B", 1))))
    s.lake.clock.advance(1000)
    val report = s.lake.client().collect(0)
    assert(report.aborted.isEmpty && report.folders == 1)
    assert(!s.isStaged(done))
    s.lake.client().recover()
    assert(s.lake.live("B") == Set("b2", "ordered"))
  }

  test("staged commits without a REQUESTED file are those of a dead client, too") {
    val s = new Scene
    val lost = s.begun("lost")
    s.lake.client().timeline.deleteRequested(lost.id)
    s.lake.clock.advance(1000)
    assert(s.lake.client().collect(0).aborted == Vector(lost.id))
    assert(!s.isStaged(lost))
    assert(s.commit(lost).isInstanceOf[CommitOutcome.Conflicted])
  }

  test("a table that was made anew, and a database that nobody wrote, are left alone") {
    val s = new Scene
    s.lake.drop("A")
    s.lake.create("A", "a9")
    s.lake.clock.advance(1000)
    assert(s.lake.client().collect(0) == CollectionReport(Vector.empty, 0, Vector.empty))
    val other = s.lake.client(root = "/elsewhere/_lakestep")
    assert(other.collect(0) == CollectionReport(Vector.empty, 0, Vector.empty))
    assert(other.timeline.existingId.isEmpty)
  }
}
