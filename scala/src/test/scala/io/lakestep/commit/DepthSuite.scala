package io.lakestep.commit

import scala.collection.mutable

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json
import io.lakestep.log.{ForeignWriters, ReadSet, TableRef}
import io.lakestep.simulation.Workers
import io.lakestep.timeline.{CommitEntry, NameChange, NameKey, NamedObject}

/** What each call of a client costs where requests take time: how many wait for one another. */
final class DepthSuite extends AnyFunSuite with BeforeAndAfterAll {

  /**
   * @param depth the longest chain of requests that wait for one another, until the call returns
   * @param requests all until then
   * @param later those that come after that
   */
  private case class Cost(depth: Int, requests: Int, later: Int = 0)

  private val expected: Map[String, Cost] = Map(
    "BEGIN" -> Cost(2, 2),
    "BEGIN READ ONLY" -> Cost(1, 1),
    "BEGIN after a COMMIT of another client" -> Cost(4, 19),
    "BEGIN that finishes an entry of 2 tables" -> Cost(15, 55),
    "BEGIN that finishes a young entry of 2 tables" -> Cost(19, 59, 1),
    "first touch of an unbound table" -> Cost(2, 3),
    "first touch of a bound table" -> Cost(2, 4),
    "COMMIT of 1 append" -> Cost(7, 10, 2),
    "COMMIT of 2 appends" -> Cost(7, 17, 3),
    "COMMIT of 8 appends" -> Cost(7, 59, 9),
    "COMMIT of 2 rewrites" -> Cost(7, 17, 3),
    "COMMIT of a rewrite and an append" -> Cost(9, 17, 3),
    "COMMIT of 2 rewrites with fences" -> Cost(9, 21, 3),
    "COMMIT of 2 appends to closed tables" -> Cost(7, 17, 3),
    "COMMIT of 2 rewrites of closed tables" -> Cost(7, 17, 3),
    "COMMIT of 2 appends to unbound tables" -> Cost(11, 24, 3),
    "COMMIT of 2 appends, each after a foreign one" -> Cost(8, 19, 3),
    "COMMIT of 2 appends, each after 5 foreign ones" -> Cost(8, 27, 3),
    "COMMIT of 2 appends that loses its number once" -> Cost(9, 28, 3),
    "COMMIT of 1 append, SERIALIZABLE, that read another table" -> Cost(8, 13, 2),
    "COMMIT that drops a name" -> Cost(9, 9, 1),
    "COMMIT of 2 appends that makes a managed table" -> Cost(13, 23, 3),
    // One of them looks for what late clients have left: a first BEGIN does, and one every ten minutes.
    "BEGIN after another client has made a name" -> Cost(6, 21),
    "ROLLBACK of 2 tables" -> Cost(1, 1, 2),
    "SELECT outside, of 2 bound tables" -> Cost(1, 3),
    "before a write outside, of a bound table" -> Cost(2, 2)
  )

  private val LatencyMs = 30L
  private val workers = new Workers
  override protected def afterAll(): Unit = workers.close()

  /** Tables, each changed by one transaction of this client before, unless they are not bound. */
  private class Scene(
      tables: Int = 2,
      isBound: Boolean = true,
      mode: String = ForeignWriters.Allow) {
    private val asked = mutable.Buffer.empty[(Long, String)]
    val slow: SlowLake = SlowLake(
      workers,
      LatencyMs,
      (verb, path) => asked += lake.clock.nowMs() -> s"$verb $path"
    )
    def lake: Lake = slow.lake
    def client(observer: CommitSteps): Database =
      slow.client(observer, waits = false, new SharedMetastore().client())

    val names: Vector[String] = Vector.tabulate(tables)(i => s"T$i")
    private val properties = Map(ForeignWriters.Property -> mode)
    private val protocol =
      if (mode == ForeignWriters.Forbid) ForeignWriters.fenced(lake.protocol())
      else lake.protocol()
    names.foreach(lake.create(_, protocol, properties, Seq("first")))

    /** Stands before each put of an entry. */
    var beforeOrder: () => Unit = () => ()

    val db: Database = client(new CommitSteps {
      override def beforeOrder(entry: CommitEntry): Unit = Scene.this.beforeOrder()
    })
    if (isBound) {
      val txn = lake.begin(db)
      committed(db.commit(txn, append(txn)))
    } else db.timeline.id

    def append(txn: BegunTransaction, tables: Seq[String] = names): Seq[WrittenTable] =
      tables.map(slow.change(db, txn, _))

    def rewrite(txn: BegunTransaction, tables: Seq[String] = names): Seq[WrittenTable] =
      tables.map(slow.change(db, txn, _, "first"))

    def committed(outcome: CommitOutcome): Unit = {
      assert(outcome.isInstanceOf[CommitOutcome.Committed], outcome)
      ()
    }

    def cost(work: () => Any): Cost = {
      val beganMs = lake.clock.nowMs()
      asked.clear()
      var returned = (0L, 0)
      slow.time.play { () =>
        work()
        returned = (lake.clock.nowMs() - beganMs, asked.size)
      }
      val (elapsedMs, requests) = returned
      assert(elapsedMs % LatencyMs == 0)
      Cost((elapsedMs / LatencyMs).toInt, requests, asked.size - requests)
    }

    /** What the last `cost` asked for, in order. */
    def story: String = asked.map { case (atMs, request) =>
      s"${(atMs - asked.head._1) / LatencyMs + 1} $request"
    }.mkString("\n", "\n", "")
  }

  /** @param prepared does all that comes before, and gives what is measured */
  private def costs(name: String, scene: => Scene = new Scene)(prepared: Scene => () => Any): Unit =
    test(name) {
      val s = scene
      val cost = s.cost(prepared(s))
      assert(cost == expected(name), s.story)
    }

  private def costsOfCommit(name: String, scene: => Scene = new Scene)(
      staged: (Scene, BegunTransaction) => Seq[WrittenTable]): Unit = costs(name, scene) { s =>
    val txn = s.lake.begin(s.db)
    val written = staged(s, txn)
    () => s.committed(s.db.commit(txn, written))
  }

  costs("BEGIN")(s => () => s.lake.begin(s.db))

  costs("BEGIN READ ONLY")(s => () => s.lake.begin(s.db, readOnly = true))

  costs("BEGIN after a COMMIT of another client") { s =>
    val other = s.client(CommitSteps.Silent)
    val txn = s.lake.begin(other)
    s.committed(other.commit(txn, s.append(txn)))
    () => s.lake.begin(s.db)
  }

  for ((name, ageMs) <- Seq("an" -> 1000L, "a young" -> 0L))
    costs(s"BEGIN that finishes $name entry of 2 tables") { s =>
      val other = s.client(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      })
      val txn = s.lake.begin(other)
      val written = s.append(txn)
      intercept[Crash](other.commit(txn, written))
      s.lake.clock.advance(ageMs)
      () => s.lake.begin(s.db)
    }

  for ((name, isBound) <- Seq("an unbound" -> false, "a bound" -> true))
    costs(s"first touch of $name table", new Scene(isBound = isBound)) { s =>
      val txn = s.lake.begin(s.db)
      () => s.db.pinned(txn, s.lake.path("T0"), -1)
    }

  costsOfCommit("COMMIT of 1 append", new Scene(1))(_.append(_))
  costsOfCommit("COMMIT of 2 appends")(_.append(_))
  costsOfCommit("COMMIT of 8 appends", new Scene(8))(_.append(_))
  costsOfCommit("COMMIT of 2 rewrites")(_.rewrite(_))

  costsOfCommit("COMMIT of a rewrite and an append") { (s, txn) =>
    s.rewrite(txn, Seq("T0")) ++ s.append(txn, Seq("T1"))
  }

  costsOfCommit("COMMIT of 2 rewrites with fences", new Scene(mode = ForeignWriters.Reserve))(
    _.rewrite(_)
  )

  private def closed = new Scene(mode = ForeignWriters.Forbid)
  costsOfCommit("COMMIT of 2 appends to closed tables", closed)(_.append(_))
  costsOfCommit("COMMIT of 2 rewrites of closed tables", closed)(_.rewrite(_))

  costsOfCommit("COMMIT of 2 appends to unbound tables", new Scene(isBound = false))(_.append(_))

  for ((name, foreign) <- Seq("a foreign one" -> 1, "5 foreign ones" -> 5))
    costsOfCommit(s"COMMIT of 2 appends, each after $name") { (s, txn) =>
      val written = s.append(txn)
      for (t <- s.names; n <- 1 to foreign) s.lake.foreign(t, s.lake.add(s"foreign$n"))
      written
    }

  costs("COMMIT of 2 appends that loses its number once") { s =>
    val rival = s.lake.client()
    s.beforeOrder = Once { rival.abort(Seq("t" + "9" * 32), "test"); () }
    val txn = s.lake.begin(s.db)
    val written = s.append(txn)
    () => s.committed(s.db.commit(txn, written))
  }

  costs("COMMIT of 1 append, SERIALIZABLE, that read another table") { s =>
    val txn = s.lake.begin(s.db, IsolationLevel.Serializable)
    val pin = s.db.pin(txn, s.lake.path("T1"), -1)
    val read = ReadTable(s.lake.path("T1"), "T1", pin, ReadSet.WholeTable)
    val written = s.append(txn, Seq("T0"))
    () => s.committed(s.db.commit(txn, written, Seq(read)))
  }

  private val name = NameKey("m", "s", Some("n"))
  private val table =
    NamedObject(NamedObject.Table, Some(TableRef("/n")), Json.obj().put("type", "MANAGED"))

  costs("COMMIT that drops a name") { s =>
    val made = s.lake.begin(s.db)
    s.committed(s.db.commit(made, Nil, Nil, Vector(NameChange(name, None, Some(table)))))
    val txn = s.lake.begin(s.db)
    () => s.committed(s.db.commit(txn, Nil, Nil, Vector(NameChange(name, Some(table), None))))
  }

  costs("BEGIN after another client has made a name") { s =>
    val other = s.client(CommitSteps.Silent)
    val txn = s.lake.begin(other)
    s.committed(other.commit(txn, Nil, Nil, Vector(NameChange(name, None, Some(table)))))
    () => s.lake.begin(s.db)
  }

  costs("COMMIT of 2 appends that makes a managed table") { s =>
    val txn = s.lake.begin(s.db)
    val written = s.append(txn)
    () => s.committed(s.db.commit(txn, written, Nil, Vector(NameChange(name, None, Some(table)))))
  }

  costs("ROLLBACK of 2 tables") { s =>
    val txn = s.lake.begin(s.db)
    s.append(txn)
    () => s.db.discard(txn, s.names.map(s.lake.path))
  }

  costs("SELECT outside, of 2 bound tables") { s => () =>
    s.db.consistent(s.names.map(t => s.lake.path(t) -> s.lake.head(t)).toMap)
  }

  costs("before a write outside, of a bound table")(s =>
    () => s.db.helpBeforeWrite(s.lake.path("T0"))
  )

  /** How long a BEGIN and then a first touch wait, at many moments, while others commit. */
  private def behind(entriesASecond: Int): Seq[(Int, Int)] = {
    val s = new Scene
    import s.slow.time
    val others = Vector.tabulate(10) { i =>
      val table = s"other$i"
      s.lake.create(table, "first")
      table -> s.client(CommitSteps.Silent)
    }
    def commit(i: Int): Unit = {
      val (table, other) = others(i % others.size)
      val txn = s.lake.begin(other)
      s.committed(other.commit(txn, s.append(txn, Seq(table))))
    }
    others.indices.foreach(commit)
    s.lake.clock.advance(10000)
    s.db.unfinished()
    val found = mutable.Buffer.empty[(Int, Int)]
    def depth(work: => Any): Int = {
      val beganMs = s.lake.clock.nowMs()
      work
      ((s.lake.clock.nowMs() - beganMs) / LatencyMs).toInt
    }
    time.play { () =>
      val seconds = 4
      for (i <- 0 until entriesASecond * seconds) time.begin { () =>
        time.pause(1000L * i / entriesASecond)
        commit(i)
      }
      time.pause(500)
      for (_ <- 1 to 8) {
        var txn = Option.empty[BegunTransaction]
        val begin = depth { txn = Some(s.lake.begin(s.db)) }
        found += begin -> txn.map(t => depth(s.db.pinned(t, s.lake.path("T0"), -1))).getOrElse(0)
        time.pause(37)
      }
    }
    found.toSeq
  }

  test("BEGIN and a first touch wait at most two requests longer behind 15 entries a second") {
    val quiet = behind(0).map { case (begin, touch) => begin + touch }.max
    val busy = behind(15)
    assert(busy.forall { case (begin, touch) => begin + touch <= quiet + 2 }, s"$quiet $busy")
  }
}
