package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Errors, LakestepException}
import io.lakestep.log.{MarkKind, ReadSet, TableLog}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{AbortEntry, CommitEntry, Rule}

/** Entries that a client cannot finish, and what it tells those who come after. */
final class UnfinishedEntrySuite extends AnyFunSuite {

  /** An entry over A and B whose owner died at the order point. */
  private class Scene {
    val lake: Lake = Lake.inMemory()
    Seq("A", "B", "C").foreach(t => lake.create(t, s"${t.toLowerCase}1"))
    val id: String = {
      val db = lake.client(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      })
      val txn = lake.begin(db)
      Seq("A", "B").foreach(t =>
        lake.stage(txn, t, 0, lake.remove(s"${t.toLowerCase}1"), lake.add("x"))
      )
      intercept[Crash](db.commit(txn, Seq("A", "B").map(lake.written(_, 0))))
      txn.id
    }
    lazy val netActions: String = lake.netActions("A", id)

    def write(table: String, db: Database = lake.client()): CommitOutcome = {
      val txn = lake.begin(db)
      lake.stage(txn, table, 0, lake.add("y"))
      db.commit(txn, Seq(lake.written(table, 0)))
    }
  }

  private def error(body: => Any): LakestepException = intercept[LakestepException] { body; () }

  private def namesEntry(e: LakestepException): Unit = {
    assert(e.getCondition == "LAKESTEP_ENTRY_UNFINISHED")
    assert(e.getMessageParameters.get("entry") == "1")
    assert(e.getMessageParameters.get("tables") == "A, B")
    assert(e.getCause != null)
  }

  test("a helper publishes no file that a VACUUM has taken, and rolls the entry back") {
    for (gone <- Seq("x", "none")) {
      val s = new Scene
      for (t <- Seq("A", "B"); f <- Seq("x", s"${t.toLowerCase}1")) s.lake.file(t, f)
      s.lake.store.delete(s"${s.lake.path("B")}/$gone")
      val db = s.lake.client(options = DatabaseOptions())
      assert(db.recover().failed.isEmpty)
      (gone, db.describe(s.id)) match {
        case ("x", TransactionStatus.RolledBack(_, conflict, Vector())) =>
          assert(conflict.rule == Rule.FileGone && conflict.files == Vector(
            s"${s.lake.path("B")}/x"
          ))
          assert(s.lake.live("A") == Set("a1") && s.lake.live("B") == Set("b1"))
          // Found out before anything was published.
          assert(s.lake.marks("A").map(_.kind) == Vector(MarkKind.Close))
        case ("none", _: TransactionStatus.Committed) =>
          assert(s.lake.live("A") == Set("x") && s.lake.live("B") == Set("x"))
        case other => fail(other.toString)
      }
    }
  }

  test("COMMIT behind an entry whose net actions are damaged names the entry and its tables") {
    val s = new Scene
    s.lake.memory.overwrite(s.netActions, "{\"lakestep\"".getBytes)
    namesEntry(error(s.write("A")))
    assert(s.write("C").isInstanceOf[CommitOutcome.Committed])
  }

  test(
    "COMMIT behind an entry whose net actions are lost, or others, names the entry and its tables"
  ) {
    for (other <- Seq(false, true)) {
      val s = new Scene
      if (other) {
        val changed = new String(s.lake.store.get(s.netActions).get).replace("\"x\"", "\"z\"")
        s.lake.memory.overwrite(s.netActions, changed.getBytes)
      } else s.lake.store.delete(s.netActions)
      val e = error(s.write("B"))
      namesEntry(e)
      e.getCause match {
        case lost: LakestepException => assert(lost.getCondition == "LAKESTEP_STAGED_COMMIT_LOST")
        case cause => fail(cause)
      }
    }
  }

  test("COMMIT behind an entry in whose table somebody left a damaged commit names the entry") {
    val s = new Scene
    s.lake.store.putIfAbsent(s.lake.path("B").slot(1), "no commit".getBytes)
    namesEntry(error(s.write("A")))
  }

  test("COMMIT behind an entry that this client may not publish names the entry and its tables") {
    val s = new Scene
    s.lake.memory.interceptPut = (path, put) =>
      if (path == s.lake.path("B").slot(1))
        throw Errors("LAKESTEP_STORE_ACCESS_DENIED", "path" -> path, "reason" -> "test")
      else put()
    namesEntry(error(s.write("A")))
  }

  test("SERIALIZABLE helps an entry that writes what it only read, and then conflicts with it") {
    for (level <- Seq(IsolationLevel.Serializable, IsolationLevel.Snapshot)) {
      val lake = Lake.inMemory()
      Seq("A", "B").foreach(t => lake.create(t, s"${t.toLowerCase}1"))
      val db = lake.client()
      val txn = lake.begin(db, level)
      lake.stage(txn, "A", db.pin(txn, lake.path("A"), -1), lake.add("y"))
      val read = ReadTable(lake.path("B"), "B", db.pin(txn, lake.path("B"), -1), ReadSet.WholeTable)
      val dead = lake.client(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      })
      val other = lake.begin(dead)
      lake.stage(other, "B", 0, lake.add("x"))
      intercept[Crash](dead.commit(other, Seq(lake.written("B", 0))))
      db.commit(txn, Seq(lake.written("A", 0)), Seq(read)) match {
        case CommitOutcome.Conflicted(c, None) =>
          assert(level == IsolationLevel.Serializable && c.rule == Rule.ReadChanged)
        case _: CommitOutcome.Committed => assert(level == IsolationLevel.Snapshot)
        case unclear => fail(unclear.toString)
      }
    }
  }

  test("a slot that is always taken ends the help of this client, not the entry") {
    val s = new Scene
    var n = 0
    val db = s.lake.client(
      new CommitSteps {
        override def beforePublish(
            e: CommitEntry,
            t: io.lakestep.timeline.EntryTable,
            p: Int,
            slot: Long): Unit = {
          n += 1
          s.lake.foreign(t.name, s.lake.add(s"f$n"))
          ()
        }
      },
      options = DatabaseOptions(syncDataFiles = false, publishAttempts = 5)
    )
    db.recover().failed match {
      case Vector((entry, e: LakestepException)) =>
        assert(entry.number == 1 && e.getCondition == "LAKESTEP_ENTRY_UNFINISHED")
      case other => fail(other.toString)
    }
    assert(s.lake.client().recover().failed.isEmpty && s.lake.live("A")("x"))
  }

  test("READ ONLY reads below an entry that nobody can finish, also where a log was cleaned up") {
    val s = new Scene
    s.lake.store.delete(s.netActions)
    (1 to 3).foreach(i => s.lake.foreign("B", s.lake.add(s"f$i")))
    io.lakestep.log.JsonStates.cleanUp(s.lake.store, s.lake.path("B").uri)
    val reader = s.lake.client()
    val txn = s.lake.begin(reader, readOnly = true)
    assert(txn.snapshot == 0)
    assert(reader.pin(txn, s.lake.path("B"), -1) == 3)
  }

  test("an ABORT entry whose place is taken again and again: busy, and nothing is aborted") {
    val s = new Scene
    val db = s.lake.client(options = DatabaseOptions(syncDataFiles = false, maxAttempts = 3))
    val rival = s.lake.client()
    val isRival = new java.util.concurrent.atomic.AtomicBoolean
    s.lake.memory.interceptPut = (path, put) => {
      if (path.matches(".*/timeline/\\d{20}\\.json") && !isRival.getAndSet(true)) {
        val view = rival.timeline.refresh()
        rival.timeline.putEntry(AbortEntry(
          view.next,
          view.lastHash,
          1L,
          Vector(f"t9${view.next}%031x"),
          "rival"
        ))
        isRival.set(false)
      }
      put()
    }
    assert(error(db.abort(Seq("t" + "a" * 32), "test")).getCondition == "LAKESTEP_TIMELINE_BUSY")
    assert(!s.lake.client().timeline.refresh().aborted("t" + "a" * 32).isDefined)
  }

  test("an ABORT entry without an answer that stays absent: unknown") {
    val s = new Scene
    s.lake.memory.interceptPut = (path, put) =>
      if (path.matches(".*/timeline/\\d{20}\\.json"))
        PutOutcome.Unknown(new java.io.IOException("lost"))
      else put()
    val db = s.lake.client(options = DatabaseOptions(syncDataFiles = false, maxAttempts = 2))
    assert(error(db.abort(Seq("t" + "a" * 32), "test")).getCondition == "LAKESTEP_OUTCOME_UNKNOWN")
  }

  test("a staged commit that cannot be read stops its COMMIT before anything is ordered") {
    val lake = Lake.inMemory()
    lake.create("A", "a1")
    val db = lake.client()
    val txn = lake.begin(db)
    lake.store.putIfAbsent(lake.path("A").stagedSlot(txn.id, 1), "no commit".getBytes)
    val written = lake.written("A", 0).copy(stagedTo = 1)
    assert(error(db.commit(txn, Seq(written))).getCondition == "LAKESTEP_LOG_CORRUPT")
    lake.memory.overwrite(
      lake.path("A").stagedSlot(txn.id, 1),
      TableLog.text(Seq(lake.add("x")))
    )
    val net = lake.path("A").staging(txn.id) + "/commit-"
    lake.memory.interceptPut = { (path, put) =>
      if (path.startsWith(net)) lake.memory.overwrite(path, "other".getBytes)
      put()
    }
    assert(error(db.commit(txn, Seq(written))).getCondition == "LAKESTEP_LOG_CORRUPT")
    assert(db.timeline.refresh().next == 1)
  }

  test("a statement outside a transaction first finishes the entry that writes its table") {
    val s = new Scene
    val db = s.lake.client()
    db.helpBeforeWrite(s.lake.path("C"))
    assert(db.unfinished().map(_.number) == Vector(1L))
    db.helpBeforeWrite(s.lake.path("B"))
    assert(db.unfinished().isEmpty)
    assert(Seq("A", "B").map(t => s.lake.log(t).tail(0).head) == Seq(Some(1L), Some(1L)))
  }

  test("a statement outside a transaction is refused behind an entry that cannot be finished") {
    val s = new Scene
    s.lake.store.delete(s.netActions)
    namesEntry(error(s.lake.client().helpBeforeWrite(s.lake.path("B"))))
    s.lake.client().helpBeforeWrite(s.lake.path("C"))
    // For a table of another timeline this client is a foreign one.
    s.lake.client(root = "/other").helpBeforeWrite(s.lake.path("B"))
  }
}
