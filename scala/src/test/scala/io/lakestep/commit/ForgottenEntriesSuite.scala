package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.JsonStates

/**
 * What a client decides of entries that it no longer has in memory, or that it never read, as a
 * checkpoint stands for them. All other suites of this folder keep two entries at most, too.
 */
final class ForgottenEntriesSuite extends AnyFunSuite {

  private class Scene(interval: Int) {
    val lake: Lake = Lake.inMemory()
    val options: DatabaseOptions = Lake.Forgetful.copy(checkpointInterval = interval)
    def client(): Database = lake.client(options = options)
    val db: Database = client()
    Seq("A", "B").foreach(lake.create(_, "first"))

    def append(table: String, file: String, by: Database = db): CommitOutcome = {
      val txn = lake.begin(by)
      val pin = by.pin(txn, lake.path(table), -1)
      lake.stage(txn, table, pin, lake.add(file))
      by.commit(txn, Seq(lake.written(table, pin)))
    }

    def pin(txn: BegunTransaction, table: String): Long =
      db.pin(txn, lake.path(table), -1)
  }

  for (interval <- Seq(1, 2, 64)) {
    test(s"a table is pinned where an old snapshot has it, interval $interval") {
      val s = new Scene(interval)
      s.append("A", "1")
      s.append("B", "1")
      val old = s.lake.begin(s.db)
      s.lake.clock.advance(10)
      for (i <- 2 to 6) s.append("A", s"$i")
      s.lake.foreign("B", s.lake.add("foreign"))
      for (i <- 2 to 6) s.append("A", s"more$i")
      assert(s.pin(old, "A") == 1 && s.pin(old, "B") <= 2)
      assert(s.pin(s.lake.begin(s.db), "A") == 11)
    }

    test(s"a table that was first written after an old snapshot, interval $interval") {
      val s = new Scene(interval)
      s.append("A", "1")
      val old = s.lake.begin(s.db)
      for (i <- 1 to 5) s.append("B", s"$i")
      for (i <- 2 to 6) s.append("A", s"$i")
      assert(s.pin(old, "B") == 0 && s.pin(old, "A") == 1)
    }

    test(s"an old transaction is described, ended and collected, interval $interval") {
      val s = new Scene(interval)
      val dead = s.lake.begin(s.db)
      s.lake.stage(dead, "A", s.db.pin(dead, s.lake.path("A"), -1), s.lake.add("dead"))
      val done = s.lake.begin(s.db)
      val pin = s.db.pin(done, s.lake.path("A"), -1)
      s.lake.stage(done, "A", pin, s.lake.add("done"))
      s.db.commit(done, Seq(s.lake.written("A", pin)))
      // As if its client had died before it tidied up.
      s.lake.store.putIfAbsent(
        s"${s.lake.root}/transactions/${done.id}.json",
        io.lakestep.timeline.TimelineCodec.encode(done.requested)
      )
      for (i <- 1 to 6) s.append("B", s"$i")
      s.lake.clock.advance(100000)
      val other = s.client()
      assert(other.describe(dead.id) == TransactionStatus.Open(dead.requested))
      val report = other.collect(olderThanMs = 1000)
      assert(report.aborted == Vector(dead.id) && report.failed.isEmpty)
      for (i <- 7 to 12) s.append("B", s"$i")
      for (db <- Seq(s.db, other, s.client())) {
        assert(db.describe(dead.id).isInstanceOf[TransactionStatus.Aborted])
        assert(db.describe(done.id).isInstanceOf[TransactionStatus.Committed])
        assert(db.describe(s"t${"f" * 32}") == TransactionStatus.NotFound)
      }
      val late = s.db.commit(dead, Seq(s.lake.written("A", 0)))
      assert(late.isInstanceOf[CommitOutcome.Conflicted])
    }
  }

  test("a pin below forgotten entries reads these, and no foreign commit") {
    val s = new Scene(1)
    s.append("A", "1")
    val old = s.lake.begin(s.db)
    s.append("A", "2")
    for (i <- 1 to 20) s.lake.foreign("A", s.lake.add(s"foreign$i"))
    for (i <- 1 to 5) s.append("B", s"$i")
    s.lake.memory.requests = Vector.empty
    assert(s.pin(old, "A") == 1)
    val commits = s.lake.memory.requests.filter(_.contains("/A/_delta_log/0"))
    assert(commits.size <= 3, commits)
  }

  for (interval <- Seq(1, 64)) {
    test(
      s"an old snapshot of a table that was replaced and cleaned up is gone, interval $interval"
    ) {
      val s = new Scene(interval)
      s.append("A", "1")
      val old = s.lake.begin(s.db)
      s.append("A", "2")
      val txn = s.lake.begin(s.db)
      s.lake.stage(
        txn,
        "A",
        2,
        s.lake.metaData("id-replaced"),
        s.lake.remove("1"),
        s.lake.add("new")
      )
      s.db.commit(txn, Seq(s.lake.written("A", 2)))
      for (i <- 1 to 5) s.append("B", s"$i")
      s.lake.foreign("A", s.lake.add("foreign"))
      JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
      assert(s.lake.head("A") == 4)
      val gone = intercept[io.lakestep.LakestepException](s.pin(old, "A"))
      assert(gone.getCondition == "LAKESTEP_SNAPSHOT_GONE")
    }
  }

  test("what is staged in a table is collected while an earlier entry is unfinished") {
    val s = new Scene(1)
    val stuck = s.lake.client(
      new CommitSteps {
        override def ordered(entry: io.lakestep.timeline.CommitEntry): Unit = throw new Crash
      },
      options = s.options
    )
    try s.append("A", "stuck", stuck)
    catch { case _: Crash => }
    // Nobody may help the entry in flight.
    s.lake.memory.interceptPut = (path, put) =>
      if (path.contains("/A/_delta_log/0")) throw new java.io.IOException("denied") else put()
    s.append("B", "b")
    val dead = s.lake.begin(s.db)
    s.lake.stage(dead, "B", s.pin(dead, "B"), s.lake.add("dead"))
    s.lake.clock.advance(100000)
    val report = s.client().collect(olderThanMs = 1000)
    assert(report.aborted == Vector(dead.id) && report.folders == 1)
  }

  test(
    "who begins at a checkpoint knows the last mark of each table, and refuses one that is lost"
  ) {
    val s = new Scene(2)
    s.append("A", "1")
    for (i <- 1 to 6) s.append("B", s"$i")
    s.lake.memory.delete(s.lake.path("A").slot(1))
    val other = s.client()
    val txn = s.lake.begin(other)
    val lost = intercept[io.lakestep.LakestepException](other.pin(txn, s.lake.path("A"), -1))
    assert(lost.getCondition == "LAKESTEP_TABLE_OVERWRITTEN")
  }
}
