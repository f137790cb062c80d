package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.log.ReadSet
import io.lakestep.timeline.{BatchKey, CommitEntry, Rule}

/** Batches of streaming queries: each is applied once, whoever dies, and whoever else runs the query. */
final class BatchesSuite extends AnyFunSuite {

  private class Scene {
    val lake: Lake = Lake.inMemory()
    Seq("A", "B").foreach(t => lake.create(t, s"${t.toLowerCase}1"))
    private var files = 0

    def begin(
        db: Database,
        batch: Long,
        query: String = "q",
        stream: Option[String] = None): BegunTransaction =
      begin(db, BatchKey(query, Some(batch), stream))

    def begin(db: Database, key: BatchKey): BegunTransaction = db.begin(
      BeginRequest(None, "me", "suite", IsolationLevel.Snapshot, readOnly = false, 0, Some(key))
    )

    /** One file more in a table. */
    def commit(db: Database, txn: BegunTransaction, table: String = "A"): CommitOutcome = {
      val pin = db.pin(txn, lake.path(table), -1)
      files += 1
      lake.stage(txn, table, pin, lake.add(s"f$files"))
      db.commit(txn, Seq(lake.written(table, pin)))
    }

    def applied(batch: Long, query: String = "q", db: Database = lake.client()): CommitOutcome =
      commit(db, begin(db, batch, query))

    def forget(db: Database, query: String = "q"): CommitOutcome =
      db.commit(begin(db, BatchKey(query, None)), Nil)

    def count(table: String = "A"): Int = lake.live(table).size - 1
  }

  private def isCommitted(outcome: CommitOutcome) = outcome.isInstanceOf[CommitOutcome.Committed]

  private def conflict(outcome: CommitOutcome): Rule = outcome match {
    case CommitOutcome.Conflicted(conflict, None) => conflict.rule
    case other => fail(other.toString)
  }

  private def error(body: => Any): String = intercept[LakestepException] { body; () }.getCondition

  test("a batch that is committed changes nothing when it comes again, from whatever client") {
    val s = new Scene
    val db = s.lake.client()
    assert(isCommitted(s.applied(0, db = db)) && isCommitted(s.applied(1, db = db)))
    for (client <- Seq(db, s.lake.client(), s.lake.client(options = DatabaseOptions()))) {
      val again = s.begin(client, 1)
      assert(again.replays.contains(2L))
      assert(s.commit(client, again) == CommitOutcome.NothingToCommit)
      assert(s.count() == 2)
    }
    assert(isCommitted(s.applied(2)) && isCommitted(s.applied(0, "other")))
    // Numbers may be left out.
    assert(isCommitted(s.applied(7)) && s.count() == 5)
  }

  test("of two clients that run a batch at once, over other tables, one commits it") {
    val s = new Scene
    val (one, other) = (s.lake.client(), s.lake.client())
    val (first, second) = (s.begin(one, 3), s.begin(other, 3))
    assert(isCommitted(s.commit(one, first)))
    assert(conflict(s.commit(other, second, "B")) == Rule.BatchApplied)
    assert(s.count() == 1 && s.count("B") == 0)
    assert(s.begin(other, 3).replays.contains(1L))
  }

  test("who loses the number to the same batch looks again") {
    val s = new Scene
    val race = Once(assert(isCommitted(s.applied(3))))
    val racing = s.lake.client(new CommitSteps {
      override def beforeOrder(entry: CommitEntry): Unit = race()
    })
    assert(conflict(s.commit(racing, s.begin(racing, 3), "B")) == Rule.BatchApplied)
    assert(s.count() == 1 && s.count("B") == 0)
  }

  test("a batch before one that is committed is refused, at BEGIN or at COMMIT") {
    val s = new Scene
    val db = s.lake.client()
    val open = s.begin(db, 4)
    assert(isCommitted(s.applied(5)))
    assert(error(s.begin(db, 4)) == "LAKESTEP_BATCH_BEHIND")
    assert(conflict(s.commit(db, open, "B")) == Rule.BatchBehind)
    assert(s.count("B") == 0)
  }

  test("two streams do not share a name") {
    val s = new Scene
    val db = s.lake.client()
    val open = s.begin(db, 1, stream = Some("another"))
    assert(isCommitted(s.commit(db, s.begin(db, 0, stream = Some("one")))))
    assert(conflict(s.commit(db, open, "B")) == Rule.BatchBehind)
    for (batch <- 0 to 1)
      assert(
        error(s.begin(db, batch, stream = Some("another"))) == "LAKESTEP_BATCH_OF_ANOTHER_QUERY"
      )
    assert(s.begin(db, 0, stream = Some("one")).replays.nonEmpty)
    // Where the stream is not known, the name alone counts.
    assert(s.begin(db, 0).replays.nonEmpty)
  }

  test("a batch that was rolled back after the order point runs again") {
    val s = new Scene
    val late = Once { s.lake.foreign("A", s.lake.remove("a1"), s.lake.add("theirs")); () }
    val db = s.lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = late()
    })
    val txn = s.begin(db, 2)
    s.lake.stage(txn, "A", 0, s.lake.remove("a1"), s.lake.add("ours"))
    db.commit(txn, Seq(s.lake.written("A", 0))) match {
      case CommitOutcome.Conflicted(_, Some(1)) =>
      case other => fail(other.toString)
    }
    assert(isCommitted(s.applied(2)))
    assert(s.begin(s.lake.client(), 2).replays.contains(2L))
  }

  test("what a dead client had ordered is finished first, and counts") {
    val s = new Scene
    val dies = s.lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    })
    val other = s.lake.client()
    val open = s.begin(other, 2)
    intercept[Crash](s.commit(dies, s.begin(dies, 2)))
    assert(conflict(s.commit(other, open, "B")) == Rule.BatchApplied)
    assert(s.begin(other, 2).replays.contains(1L) && s.count() == 1)
  }

  test("a batch does not run while it cannot be told whether it is committed") {
    val s = new Scene
    val dies = s.lake.client(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = throw new Crash
    })
    val txn = s.begin(dies, 2)
    val open = s.begin(s.lake.client(), 2)
    intercept[Crash](s.commit(dies, txn))
    val netActions = s.lake.netActions("A", txn.id)
    val bytes = s.lake.store.get(netActions).get
    s.lake.memory.overwrite(netActions, "{\"lakestep\"".getBytes)
    val db = s.lake.client()
    for (batch <- 1 to 3) assert(error(s.begin(db, batch)) == "LAKESTEP_BATCH_IN_FLIGHT")
    assert(error(s.forget(db)) == "LAKESTEP_BATCH_IN_FLIGHT")
    assert(error(s.commit(db, open, "B")) == "LAKESTEP_ENTRY_UNFINISHED")
    assert(isCommitted(s.commit(db, s.begin(db, 2, "other"), "B")))
    s.lake.memory.overwrite(netActions, bytes)
    assert(s.begin(db, 2).replays.contains(1L))
  }

  test("a transaction that goes on at a later snapshot looks at all that is committed") {
    val s = new Scene
    val db = s.lake.client()
    val txn = s.begin(db, 5)
    val touched = Seq(FirstTouch(s.lake.path("A"), db.pinned(txn, s.lake.path("A"), -1), 0))
    assert(isCommitted(s.applied(5)))
    val met = io.lakestep.timeline.Conflict.overTable(Rule.SameFile, "A", s.lake.path("A"))
    val again = db.rerun(txn, touched, met).get.txn
    assert(again.snapshot == 1 && again.replays.isEmpty)
    assert(conflict(s.commit(db, again, "B")) == Rule.BatchApplied)
  }

  test("a batch without rows is remembered, and one of a forgotten query runs again") {
    val s = new Scene
    val db = s.lake.client()
    assert(isCommitted(db.commit(s.begin(db, 0), Nil)))
    assert(s.begin(db, 0).replays.contains(1L))
    assert(db.batch("q").map(_.batch).contains(0L) && db.batch("nothing").isEmpty)
    assert(isCommitted(s.forget(db)))
    for (client <- Seq(db, s.lake.client())) assert(client.batch("q").isEmpty)
    assert(isCommitted(s.applied(0)) && s.count() == 1)
  }

  test("who has begun a batch when its query is forgotten does not commit it") {
    val s = new Scene
    val db = s.lake.client()
    assert(isCommitted(s.applied(7)))
    val open = s.begin(db, 8)
    assert(isCommitted(s.forget(s.lake.client())))
    assert(conflict(s.commit(db, open, "B")) == Rule.BatchBehind)
    assert(isCommitted(s.applied(0)))
    // Also where the query has begun anew by then.
    assert(isCommitted(s.applied(7)))
    val late = s.begin(db, 8)
    assert(isCommitted(s.forget(s.lake.client())))
    assert(isCommitted(s.applied(0)))
    assert(conflict(s.commit(db, late, "B")) == Rule.BatchBehind)
  }

  test("who undoes something knows of old entries that they were completed") {
    val s = new Scene
    for (batch <- 0 to 9) assert(isCommitted(s.applied(batch.toLong)))
    // Packs hold ends, and may be deleted.
    s.lake.memory.paths.filter(_.contains("/history/")).foreach(s.lake.store.delete)
    val db = s.lake.client()
    val txn = s.begin(db, 0, "other")
    val (taken, kept) =
      db.reverts.batchesSince(db.timeline.snapshotAt(1), txn.base)(isRestored = _ => false)
    assert(taken.isEmpty && kept.map(k => k.query -> k.batch) == Vector("q" -> Some(9L)))
    db.timeline.status(1).entry match {
      case first: CommitEntry => assert(db.reverts.later(first, txn).map(_.number) == (2L to 10L))
      case other => fail(other.toString)
    }
  }

  test("a stream is known also after a client that did not know it") {
    val s = new Scene
    val db = s.lake.client()
    assert(isCommitted(s.commit(db, s.begin(db, 0, stream = Some("one")))))
    assert(isCommitted(s.applied(1)))
    for (client <- Seq(db, s.lake.client()))
      assert(
        error(s.begin(client, 1, stream = Some("other"))) == "LAKESTEP_BATCH_OF_ANOTHER_QUERY"
      )
  }

  test("what was only read does not keep a batch from being remembered") {
    val s = new Scene
    val db = s.lake.client()
    val txn = s.begin(db, 0).copy(isolation = IsolationLevel.Serializable)
    val pin = db.pin(txn, s.lake.path("A"), -1)
    val read = ReadTable(s.lake.path("A"), "A", pin, ReadSet.WholeTable)
    assert(isCommitted(db.commit(txn, Nil, Seq(read))))
    assert(s.begin(db, 0).replays.contains(1L))
  }
}
