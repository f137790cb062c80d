package io.lakestep.commit

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LakestepException}
import io.lakestep.log.TableRef
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NameKey, NamedObject, TimelineCodec}

/** What is told to a listener and what is asked of a catalog: as values, and of no effect on a commit. */
final class SeamsSuite extends AnyFunSuite {

  private val made =
    NamedObject(NamedObject.Table, Some(TableRef("/A")), Json.obj().put("type", "EXTERNAL"))
  private val schema = NamedObject(NamedObject.Schema, Some(TableRef("/db")), Json.obj())
  private val change = NameChange(NameKey("m", "db", Some("t")), None, Some(made))

  private class Scene(fails: Boolean = false) {
    val lake: Lake = Lake.inMemory()
    lake.create("A", "a1")
    val events = mutable.Buffer.empty[TransactionEvent]
    val calls = mutable.Buffer.empty[(Long, NameChange)]

    val options: DatabaseOptions = Lake.Forgetful.copy(
      catalogs = new Catalogs {
        override def has(metastore: String): Boolean = metastore == "m"
        override def mayHave(metastore: String): Boolean = has(metastore)
        override def find(key: NameKey): Option[NamedObject] = Option.when(key.name.isEmpty)(schema)
        override def isStill(metastore: String): Boolean = has(metastore)
        override def mayBeLeft(changes: Vector[NameChange], now: Option[NamedObject]): Boolean =
          false
        override def namesAt(places: Vector[TableRef]): Map[TableRef, String] = Map.empty
        override def inside(schema: NameKey): Set[String] = Set.empty
        override def apply(
            entry: CommitEntry,
            making: Making,
            again: NameChange => NameChange): Vector[Throwable] = {
          entry.names.foreach(calls += entry.number -> _)
          if (fails) throw new IllegalStateException("no catalog")
          Vector.empty
        }
        override def repair(
            entries: Vector[CommitEntry],
            atRisk: Set[NameKey],
            left: Making,
            making: Making,
            again: NameChange => NameChange): Vector[Throwable] = Vector.empty
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
      db.commit(txn, Seq(lake.written("A", 0)), Nil, Vector(change))
    }

    def crashed(): Unit = {
      intercept[Crash](commit(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      }))
      ()
    }
  }

  test("changes of names are made once the transaction is committed, by whoever finishes it") {
    val own = new Scene
    assert(own.commit().isInstanceOf[CommitOutcome.Committed])
    assert(own.calls == Seq(1L -> change))
    val helped = new Scene
    helped.crashed()
    assert(helped.calls.isEmpty)
    helped.lake.client(options = helped.options).recover()
    assert(helped.calls == Seq(1L -> change))
  }

  test("no change of a name is made of a transaction that is rolled back") {
    val s = new Scene
    s.crashed()
    s.lake.foreign("A", s.lake.remove("a1"), s.lake.add("other"))
    s.lake.client(options = s.options).recover()
    assert(s.calls.isEmpty && s.lake.live("A") == Set("other"))
  }

  test(
    "a client that does not know names refuses the entry, and finishes nothing of it"
  ) {
    val s = new Scene
    s.crashed()
    val bytes = TimelineCodec.encode(s.lake.entry(1))
    val node = Json.parse(new String(bytes, "UTF-8"))
    assert(node.get("requiredFeatures").toString.contains("names"))
    node.putArray("requiredFeatures").add("namesOfLater")
    val refused = intercept[LakestepException](
      TimelineCodec.decodeEntry("f", node.toString.getBytes("UTF-8"))
    )
    assert(refused.getMessage.contains("namesOfLater"))
  }

  test("what a listener or a catalog throws fails no transaction, and is told") {
    val s = new Scene(fails = true)
    assert(s.commit().isInstanceOf[CommitOutcome.Committed])
    assert(s.lake.live("A") == Set("a2"))
    val behind = s.events.collect { case e: TransactionEvent.CatalogBehind => e.cause.getMessage }
    assert(behind == Seq("no catalog"))
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
