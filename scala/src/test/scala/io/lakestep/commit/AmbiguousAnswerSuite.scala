package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Errors, LakestepException}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.Rule

/** What a client may do, and must not do, while a store does not say what became of a put. */
final class AmbiguousAnswerSuite extends AnyFunSuite {

  private val Entry = "timeline/00000000000000000001.json"
  private def noAnswer = PutOutcome.Unknown(new java.io.IOException("no answer"))
  private def refused = Errors("LAKESTEP_STORE_WRITE_FAILED", "path" -> Entry, "reason" -> "test")
  private def unread = Errors("LAKESTEP_STORE_READ_FAILED", "path" -> Entry, "reason" -> "test")

  private class Scene {
    val lake: Lake = Lake.inMemory()
    lake.create("A", "a1")
    val db: Database = lake.client()
    val txn: BegunTransaction = lake.begin(db)
    lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("a2"))
    def commit(): CommitOutcome = db.commit(txn, Seq(lake.written("A", 0)))

    /** Answers the puts of the entry one after another. */
    def answering(answers: (() => PutOutcome) => PutOutcome*): Unit = {
      val left = answers.iterator
      lake.memory.interceptPut =
        (path, put) => if (path.endsWith(Entry) && left.hasNext) left.next()(put) else put()
    }

    /** What COMMIT did not decide, the next client finishes. */
    def isFinishedByOthers: Boolean = {
      lake.memory.interceptGet = (_, get) => get()
      lake.client().recover()
      lake.live("A") == Set("a2")
    }
  }

  private def condition(body: => Any): String =
    intercept[LakestepException] { body; () }.getCondition

  test("the order point's first put comes through late, and the second is refused: committed") {
    val s = new Scene
    s.answering(_ => noAnswer, put => { put(); throw refused })
    assert(s.commit().isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("A") == Set("a2"))
  }

  test("the order point's first put has no answer, and all others are refused: unknown") {
    val s = new Scene
    var late = () => ()
    val first = (put: () => PutOutcome) => { late = () => { put(); () }; noAnswer }
    s.answering(first +: Vector.fill(9)((_: () => PutOutcome) => throw refused): _*)
    assert(s.commit().isInstanceOf[CommitOutcome.Unknown])
    late()
    assert(s.isFinishedByOthers)
  }

  test("the order point's first put comes through late, and it cannot be read back: unknown") {
    val s = new Scene
    s.lake.memory.interceptGet =
      (path, get) => if (path.endsWith(Entry)) throw unread else get()
    s.answering(_ => noAnswer, put => { put(); PutOutcome.AlreadyExists })
    assert(s.commit().isInstanceOf[CommitOutcome.Unknown])
    assert(s.isFinishedByOthers)
  }

  test("the order point's number is taken, and who took it cannot be read: unknown") {
    val s = new Scene
    s.lake.memory.interceptGet =
      (path, get) => if (path.endsWith(Entry)) throw unread else get()
    s.answering(put => { put(); PutOutcome.AlreadyExists })
    assert(s.commit().isInstanceOf[CommitOutcome.Unknown])
    assert(s.isFinishedByOthers)
  }

  test("a store that fails in a way of its own at the order point: unknown") {
    val s = new Scene
    s.answering(put => { put(); throw new IllegalStateException("connection pool shut down") })
    s.lake.memory.interceptGet =
      (path, get) => if (path.endsWith(Entry)) throw unread else get()
    assert(s.commit().isInstanceOf[CommitOutcome.Unknown])
    assert(s.isFinishedByOthers)
  }

  test("the order point's only put is refused: an error, and nothing is ordered") {
    val s = new Scene
    s.answering(_ => throw refused)
    assert(condition(s.commit()) == "LAKESTEP_STORE_WRITE_FAILED")
    assert(s.db.timeline.refresh().next == 1)
  }

  test("a binding without an answer that stays absent: an error, and nothing is ordered") {
    val s = new Scene
    s.lake.memory.interceptPut =
      (path, put) => if (path == s.lake.path("A").binding) noAnswer else put()
    assert(condition(s.commit()) == "LAKESTEP_OUTCOME_UNKNOWN")
    assert(s.db.timeline.refresh().next == 1 && s.lake.live("A") == Set("a1"))
  }

  test("an outcome without an answer that stays absent: unknown, and the next client ends it") {
    val s = new Scene
    s.lake.memory.interceptPut =
      (path, put) => if (path.endsWith("outcome.json")) noAnswer else put()
    s.commit() match {
      case CommitOutcome.Unknown(e: LakestepException, Some(1L)) =>
        assert(e.getCondition == "LAKESTEP_OUTCOME_UNKNOWN")
      case other => fail(other.toString)
    }
    s.lake.memory.interceptPut = (_, put) => put()
    assert(s.isFinishedByOthers)
  }

  for (failure <- Seq[Throwable](new NoClassDefFoundError("test"), new InterruptedException)) {
    test(s"${failure.getClass.getSimpleName} after the order point: unknown, and others end it") {
      val s = new Scene
      s.lake.memory.interceptPut =
        (path, put) => if (path.endsWith("outcome.json")) throw failure else put()
      s.commit() match {
        case CommitOutcome.Unknown(cause, Some(1L)) => assert(cause eq failure)
        case other => fail(other.toString)
      }
      assert(Thread.interrupted() == failure.isInstanceOf[InterruptedException])
      s.lake.memory.interceptPut = (_, put) => put()
      assert(s.isFinishedByOthers)
    }
  }

  test("a commit that the listing shows and nobody can read is no reason to go past it") {
    val s = new Scene
    s.lake.foreign("A", s.lake.remove("a1"))
    val hidden = s.lake.path("A").slot(1)
    s.lake.memory.interceptGet = (path, get) => if (path == hidden) None else get()
    s.commit() match {
      case CommitOutcome.Conflicted(c, None) => assert(c.rule == Rule.LogCleanedUp)
      case other => fail(other.toString)
    }
  }
}
