package io.lakestep.commit

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LakestepException}
import io.lakestep.timeline.{CatalogAction, CommitEntry, TimelineCodec}

/** What is told to a listener and what is asked of a catalog: as values, and of no effect on a commit. */
final class SeamsSuite extends AnyFunSuite {

  private val action = CatalogAction(Json.obj().put("kind", "create").put("name", "db.t"))

  private class Scene(fails: Boolean = false) {
    val lake: Lake = Lake.inMemory()
    lake.create("A", "a1")
    val events = mutable.Buffer.empty[TransactionEvent]
    val made = mutable.Buffer.empty[(Long, CatalogAction)]

    val options: DatabaseOptions = Lake.Forgetful.copy(
      catalogs = (entry: CommitEntry, action: CatalogAction) => {
        made += entry.number -> action
        if (fails) throw new IllegalStateException("no catalog")
      },
      listener = event => {
        events += event
        if (fails) throw new LinkageError("a listener of another version")
      }
    )

    def commit(observer: CommitSteps = CommitSteps.Silent): CommitOutcome = {
      val db = lake.client(observer, options = options)
      val txn = lake.begin(db)
      lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("a2"))
      db.commit(txn, Seq(lake.written("A", 0)), Nil, Vector(action))
    }

    def crashed(): Unit = {
      intercept[Crash](commit(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      }))
      ()
    }
  }

  test("catalog actions are made once the transaction is committed, by whoever finishes it") {
    val own = new Scene
    assert(own.commit().isInstanceOf[CommitOutcome.Committed])
    assert(own.made == Seq(1L -> action))
    val helped = new Scene
    helped.crashed()
    assert(helped.made.isEmpty)
    helped.lake.client(options = helped.options).recover()
    assert(helped.made == Seq(1L -> action))
  }

  test("no catalog action is made of a transaction that is rolled back") {
    val s = new Scene
    s.crashed()
    s.lake.foreign("A", s.lake.remove("a1"), s.lake.add("other"))
    s.lake.client(options = s.options).recover()
    assert(s.made.isEmpty && s.lake.live("A") == Set("other"))
  }

  test(
    "a client that does not know catalog actions refuses the entry, and finishes nothing of it"
  ) {
    val s = new Scene
    s.crashed()
    val bytes = TimelineCodec.encode(s.lake.entry(1))
    val node = Json.parse(new String(bytes, "UTF-8"))
    assert(node.get("requiredFeatures").toString.contains("catalogActions"))
    node.putArray("requiredFeatures").add("catalogActionsOfLater")
    val refused = intercept[LakestepException](
      TimelineCodec.decodeEntry("f", node.toString.getBytes("UTF-8"))
    )
    assert(refused.getMessage.contains("catalogActionsOfLater"))
  }

  test("what a listener or a catalog throws fails no transaction, and is told") {
    val s = new Scene(fails = true)
    assert(s.commit().isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("A") == Set("a2"))
    val behind = s.events.collect { case e: TransactionEvent.CatalogBehind => e.kind }
    assert(behind == Seq("create"))
  }

  test("a listener is told what this client did with transactions of others") {
    val s = new Scene
    s.crashed()
    val db = s.lake.client(options = s.options)
    val silent = s.lake.begin(db)
    db.abort(Seq(silent.id), "it was silent for long")
    s.events.toSeq match {
      case Seq(
            TransactionEvent.FinishedForOther(entry, Finished.Completed(slots)),
            TransactionEvent.Aborted(ids, "it was silent for long")
          ) =>
        assert(entry.number == 1 && slots == Vector(Vector(1L)) && ids == Vector(silent.id))
      case other => fail(other.toString)
    }
  }
}
