package io.lakestep.commit

import java.util.concurrent.{CountDownLatch, ExecutorService, Executors}

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Errors
import io.lakestep.log.MarkKind
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{CommitEntry, EntryTable}

/** Several tables published by several threads of one client. */
final class ParallelPublishSuite extends AnyFunSuite with BeforeAndAfterAll {

  private val pool: ExecutorService = Executors.newFixedThreadPool(4)
  private val names = Vector("A", "B", "C")
  override protected def afterAll(): Unit = { pool.shutdownNow(); () }

  private class Scene {
    val lake: Lake = Lake.inMemory()
    names.foreach(t => lake.create(t, s"${t.toLowerCase}1"))

    def run(observer: CommitSteps = CommitSteps.Silent): CommitOutcome = {
      val options = DatabaseOptions(PublishExecutor.on(pool), syncDataFiles = false)
      val db = lake.client(observer, options = options)
      val txn = lake.begin(db)
      names.foreach(t => lake.stage(txn, t, 0, lake.remove(s"${t.toLowerCase}1"), lake.add("x")))
      db.commit(txn, names.map(lake.written(_, 0)))
    }

    /** Answers the put of a table's first slot instead of the store. */
    def failing(table: String)(answer: => PutOutcome): Unit =
      lake.memory.interceptPut =
        (path, put) => if (path == lake.path(table).slot(1)) answer else put()

    def isEverywhere: Boolean = names.forall(t => lake.live(t) == Set("x"))
  }

  test("all tables are on their way at once") {
    val s = new Scene
    val together = new CountDownLatch(names.size)
    assert(s.run(new CommitSteps {
      override def beforePublish(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit = {
        together.countDown()
        together.await()
      }
    }).isInstanceOf[CommitOutcome.Committed])
    assert(s.isEverywhere)
  }

  test("one table is refused, the others go on: unknown, and the next client ends it once") {
    for (table <- names) {
      val s = new Scene
      s.failing(table) {
        throw Errors("LAKESTEP_STORE_ACCESS_DENIED", "path" -> table, "reason" -> "test")
      }
      s.run() match {
        case CommitOutcome.Unknown(_, Some(1L)) => ()
        case other => fail(other.toString)
      }
      assert(names.filter(_ != table).forall(t => s.lake.live(t) == Set("x")))
      s.lake.memory.interceptPut = (_, put) => put()
      assert(s.lake.client().recover().failed.isEmpty && s.isEverywhere)
      assert(names.forall(t => s.lake.marks(t).size == 1))
    }
  }

  test(
    "one table conflicts, another is refused: nothing is decided, and the next client rolls back"
  ) {
    val s = new Scene
    s.failing("B")(throw Errors("LAKESTEP_STORE_ACCESS_DENIED", "path" -> "B", "reason" -> "test"))
    val outcome = s.run(new CommitSteps {
      override def ordered(entry: CommitEntry): Unit = {
        s.lake.foreign("A", s.lake.remove("a1")); ()
      }
    })
    assert(outcome.isInstanceOf[CommitOutcome.Unknown])
    s.lake.memory.interceptPut = (_, put) => put()
    assert(s.lake.client().recover().failed.isEmpty)
    assert(
      s.lake.live("A").isEmpty && s.lake.live("B") == Set("b1") && s.lake.live("C") == Set("c1")
    )
    assert(s.lake.marks("A").map(_.kind) == Vector(MarkKind.Close))
  }

  test("the threads of two clients publish one entry: every table has it once") {
    val seed = System.nanoTime
    val random = new scala.util.Random(seed)
    (1 to 50).foreach { _ =>
      val s = new Scene
      intercept[Crash](s.run(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      }))
      if (random.nextBoolean()) s.lake.foreign("C", s.lake.remove("c1"))
      val start = new CountDownLatch(1)
      val helpers = (1 to 2).map { _ =>
        val helper = s.lake.client(options = DatabaseOptions(syncDataFiles = false))
        pool.submit { () => start.await(); helper.recover().failed }
      }
      start.countDown()
      assert(helpers.forall(_.get.isEmpty), s"seed $seed")
      names.foreach { t =>
        val kinds = s.lake.marks(t).map(_.kind)
        assert(kinds.distinct == kinds && kinds.size <= 2, s"seed $seed: $t has $kinds")
      }
      val visible = names.map(t => s.lake.marks(t).lastOption.exists(_.kind == MarkKind.Publish))
      assert(visible.distinct.size == 1, s"seed $seed: $visible")
    }
  }
}
