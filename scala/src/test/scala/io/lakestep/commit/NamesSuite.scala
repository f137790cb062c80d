package io.lakestep.commit

import java.util.concurrent.CountDownLatch

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Errors, Json, LakestepException}
import io.lakestep.log.TableRef
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NameKey, NamedObject, Rule}

/** Names between clients: who has one, who makes it, and what it stands for meanwhile. */
final class NamesSuite extends AnyFunSuite {

  private def isCommitted(outcome: CommitOutcome) = outcome.isInstanceOf[CommitOutcome.Committed]

  /** Of a client that dies once it has made the names of an entry. */
  private def diesLate(number: Long = 1): CommitSteps = new CommitSteps {
    override def namesMade(entry: CommitEntry): Unit = if (entry.number == number) throw new Crash
  }

  private def rule(outcome: CommitOutcome): Option[Rule] = outcome match {
    case CommitOutcome.Conflicted(conflict, _) => Some(conflict.rule)
    case _ => None
  }

  test("an entry may change names alone; of two that change one name the first has it") {
    val s = new NamedLake
    val (one, other) = (s.client(), s.client())
    val (first, second) = (s.lake.begin(one), s.lake.begin(other))
    assert(isCommitted(one.commit(first, Nil, Nil, Vector(s.make("N", "A")))))
    assert(rule(other.commit(
      second,
      Nil,
      Nil,
      Vector(s.make("N", "B"))
    )).contains(Rule.NameChanged))
    assert(s.places("N") == "A")
    // What the metastore says counts, too, whoever has changed it.
    s.store.names.remove(s.key("A"))
    assert(rule(s.commit(one, s.drop("A"))).contains(Rule.NameChanged))
  }

  test("a schema conflicts with what is inside") {
    val s = new NamedLake
    val (one, other) = (s.client(), s.client())
    val (first, second) = (s.lake.begin(one), s.lake.begin(other))
    assert(isCommitted(one.commit(first, Nil, Nil, Vector(s.make("N", "A")))))
    val dropped = NameChange(s.store.schema, Some(s.store.ofSchema), None)
    assert(rule(other.commit(second, Nil, Nil, Vector(dropped))).contains(Rule.NameChanged))
  }

  for (isChecked <- Seq(true, false))
    test(s"rows for a table that was dropped meanwhile, where that is looked at: $isChecked") {
      val s = new NamedLake
      val writer = s.client(safeguards = Safeguards.all.copy(checksNames = isChecked))
      val txn = s.lake.begin(writer)
      s.lake.stage(txn, "A", 0, s.lake.add("a2"))
      assert(isCommitted(s.commit(s.client(), s.drop("A"))))
      val outcome = writer.commit(txn, Seq(s.lake.written("A", 0)))
      assert(rule(outcome).contains(Rule.NameChanged) == isChecked)
      assert(isCommitted(outcome) == !isChecked)
    }

  test(
    "names of an entry whose owner died are made by the next BEGIN that has the metastore, once"
  ) {
    for (step <- Seq("ordered", "beforeNames", "namesMade")) {
      val s = new NamedLake
      val dying = s.client(observer = new CommitSteps {
        private def die(at: String): Unit = if (at == step) throw new Crash
        override def ordered(entry: CommitEntry): Unit = die("ordered")
        override def beforeNames(entry: CommitEntry): Unit = die("beforeNames")
        override def namesMade(entry: CommitEntry): Unit = die("namesMade")
      })
      intercept[Crash] { s.rename(dying, "A", "C", "A"); () }
      // One that has another metastore makes nothing, and knows what is owed.
      val elsewhere = s.client(s.store.client(id = "other"))
      val txn = s.lake.begin(elsewhere)
      val owed = elsewhere.namesBefore(txn, refreshes = false)
      assert(owed == Map(s.key("A") -> None, s.key("C") -> Some(s.named("A"))), step)
      val broken = s.client(s.store.client(works = false))
      s.lake.begin(broken)
      val made = s.store.asked
      assert(s.places.contains("C") == (step == "namesMade"), step)
      val next = s.client()
      assert(next.namesBefore(s.lake.begin(next), refreshes = false).isEmpty, step)
      assert(s.places == Map("B" -> "B", "C" -> "A"), step)
      s.lake.begin(s.client())
      s.lake.begin(next)
      assert(s.store.asked == made + 1, step)
    }
  }

  test(
    "a transaction sees names as they were at its snapshot, also far back and over checkpoints"
  ) {
    val s = new NamedLake
    val db = s.client(interval = 4)
    val txn = s.lake.begin(db)
    (1 to 20).foreach { n =>
      val (from, to) = if (n % 2 == 1) ("A", "C") else ("C", "A")
      assert(isCommitted(s.rename(db, from, to, "A")), n)
    }
    assert(isCommitted(s.commit(db, s.drop("B"))))
    val stood = db.namesBefore(txn, refreshes = true)
    assert(stood(s.key("A")).contains(s.named("A")) && stood(s.key("C")).isEmpty)
    assert(stood(s.key("B")).contains(s.named("B")))
    assert(rule(db.commit(txn, Nil, Nil, Vector(s.drop("A")))).contains(Rule.NameChanged))
    // Who comes new begins at a checkpoint, and knows what was dropped.
    assert(s.client(interval = 4).dropped().map(d => (d.key, d.entry)) == Vector((s.key("B"), 21L)))
    assert(isCommitted(s.commit(db, NameChange(s.key("D"), None, Some(s.named("B"))))))
    assert(s.client(interval = 4).dropped().isEmpty)
  }

  test("names of an earlier entry are made first, and none of a later one while they are not") {
    val s = new NamedLake
    val dying = s.client(observer = new CommitSteps {
      override def beforeNames(entry: CommitEntry): Unit = throw new Crash
    })
    intercept[Crash] { s.rename(dying, "A", "C", "A"); () }
    // The metastore does not answer when the first entry is to be made.
    val real = s.store.client()
    val failing = new ForwardingCatalogs(real) {
      override def apply(
          entry: CommitEntry,
          making: Making,
          again: NameChange => NameChange): Vector[Throwable] =
        if (entry.number == 1) throw new IllegalStateException("away")
        else real(entry, making, again)
    }
    assert(isCommitted(s.rename(s.client(failing), "C", "D", "A")))
    assert(s.places == Map("A" -> "A", "B" -> "B"))
    val reader = s.client(failing)
    val owed = reader.namesBefore(s.lake.begin(reader), refreshes = false)
    assert(owed(s.key("D")).contains(s.named("A")) && owed(s.key("C")).isEmpty)
    s.lake.begin(s.client())
    assert(s.places == Map("D" -> "A", "B" -> "B"))
  }

  test("nothing is noted as made by a client that did not know the metastore when it began") {
    val s = new NamedLake
    val real = s.store.client()
    var asked = 0
    val forgetful = new ForwardingCatalogs(real) {
      // Away for the first question.
      override def has(metastore: String): Boolean = {
        asked += 1
        asked > 1 && real.has(metastore)
      }
      override def isStill(metastore: String): Boolean = true
      override def apply(
          entry: CommitEntry,
          making: Making,
          again: NameChange => NameChange): Vector[Throwable] =
        if (asked > 1) real(entry, making, again) else Vector.empty
    }
    assert(isCommitted(s.rename(s.client(forgetful), "A", "C", "A")))
    s.lake.begin(s.client())
    assert(s.places == Map("C" -> "A", "B" -> "B"))
  }

  for (dies <- Seq(false, true); isRepaired <- Seq(true, false))
    test(s"names of a client that was late, which dies then: $dies, are put right: $isRepaired") {
      val s = new NamedLake
      val safeguards = Safeguards.all.copy(repairsNames = isRepaired)
      val others = s.client(safeguards = safeguards)
      def meanwhile(): Unit = {
        s.lake.begin(others)
        assert(s.places == Map("C" -> "A", "B" -> "B"))
        assert(isCommitted(s.rename(others, "C", "D", "A")))
      }
      val late = s.client(
        s.store.client(sleep = () => meanwhile()),
        new CommitSteps {
          override def namesMade(entry: CommitEntry): Unit =
            if (dies && entry.number == 1) throw new Crash
        },
        safeguards
      )
      if (dies) intercept[Crash] { s.rename(late, "A", "C", "A"); () }
      else assert(isCommitted(s.rename(late, "A", "C", "A")))
      val wrong = Map("C" -> "A", "D" -> "A", "B" -> "B")
      val right = wrong - "C"
      assert(s.places == (if (isRepaired && !dies) right else wrong))
      def makings = s.lake.store.list(s"${s.lake.root}/makings", "")
      others.recover()
      assert(s.places == (if (isRepaired) right else wrong))
      assert(makings.size == (if (dies) 1 else 0))
      // VACUUM TRANSACTIONS, which takes what is older than any clock says, leaves it for an hour.
      assert(others.collect(Long.MaxValue).failed.isEmpty)
      assert(makings.size == (if (dies) 1 else 0))
      // Nobody has to look for it for ever.
      s.lake.clock.advance(2 * 3600 * 1000)
      others.recover()
      assert(makings.isEmpty)
      // What stands there since is somebody's.
      s.store.names(s.key("C")) = s.named("A")
      others.recover()
      assert(s.places == right + ("C" -> "A"))
    }

  /** A running client has made D of C; one that made C late is dead, and C is there again. */
  private def leftWrong(): (NamedLake, Database) = {
    val s = new NamedLake
    val running = s.client()
    val late = s.client(
      s.store.client(sleep = () => {
        s.lake.begin(running)
        assert(isCommitted(s.rename(running, "C", "D", "A")))
      }),
      diesLate()
    )
    intercept[Crash] { s.rename(late, "A", "C", "A"); () }
    assert(s.places == Map("C" -> "A", "D" -> "A", "B" -> "B"))
    (s, running)
  }

  test(
    "what a client that was late and died has left is put right by BEGIN, at first and at times"
  ) {
    val right = Map("D" -> "A", "B" -> "B")
    val (s, running) = leftWrong()
    s.lake.begin(running)
    assert(s.places != right)
    s.lake.clock.advance(10 * 60 * 1000)
    s.lake.begin(running)
    assert(s.places == right)

    val (other, _) = leftWrong()
    val starts = other.client()
    // It may be that somebody is about to do it.
    other.lake.begin(starts)
    assert(other.places != right)
    other.lake.clock.advance(11 * 1000)
    other.lake.begin(starts)
    assert(other.places == right)
  }

  test("who cannot put a name right tries it under one MAKING, which is forgotten in the end") {
    val (s, _) = leftWrong()
    def makings = s.lake.store.list(s"${s.lake.root}/makings", "").map(_.name)
    val left = makings
    var isAway = true
    def answer(): Unit = if (isAway) throw new IllegalStateException("away")
    val other = s.client(s.store.client(repairing = () => answer()))
    for (_ <- 1 to 3) other.recover()
    assert(makings.size == left.size + 1)
    isAway = false
    other.recover()
    assert(s.places == Map("D" -> "A", "B" -> "B"))
    s.lake.clock.advance(2 * 3600 * 1000)
    other.recover()
    assert(makings.isEmpty)
  }

  test("who fails to put a name right before the first change leaves no MAKING") {
    val (s, _) = leftWrong()
    val left = makings(s)
    var isAway = true
    def answer(): Unit =
      if (isAway) throw new Catalogs.NothingChanged(new IllegalStateException("away"))
    val other = s.client(s.store.client(repairing = () => answer()))
    for (_ <- 1 to 3) other.recover()
    assert(makings(s) == left)
    isAway = false
    other.recover()
    assert(s.places == Map("D" -> "A", "B" -> "B"))
  }

  /** An entry over rows of A that nobody has finished, and above it one that drops B. */
  private def dropsAbove(s: NamedLake)(meanwhile: => Unit): Unit = {
    val (drops, owner) = (
      s.client(observer = new CommitSteps {
        override def beforeNames(entry: CommitEntry): Unit = meanwhile
      }),
      s.client(observer = new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = throw new Crash
      })
    )
    val (second, first) = (s.lake.begin(drops), s.lake.begin(owner))
    s.lake.stage(first, "A", 0, s.lake.add("a2"))
    intercept[Crash] { owner.commit(first, Seq(s.lake.written("A", 0))); () }
    assert(isCommitted(drops.commit(second, Nil, Nil, Vector(s.drop("B")))))
  }

  test("a statement outside meets names that were changed above an entry that is not finished") {
    for (isAway <- Seq(false, true)) {
      val s = new NamedLake
      intercept[Crash](dropsAbove(s)(throw new Crash))
      val left = makings(s)
      val elsewhere = s.client(s.store.client(id = "other"))
      elsewhere.lookForNames()
      assert(elsewhere.makeNames().isEmpty && makings(s) == left)
      val outside = s.client(s.store.client(works = !isAway))
      outside.lookForNames()
      // Its folder is not to be deleted with its schema.
      assert(outside.claimed().contains(s.lake.path("B")))
      assert(outside.makeNames() == (if (isAway) Set(s.key("B")) else Set.empty))
      assert(s.places.contains("B") == isAway)
      assert(outside.unfinished().map(_.number) == Vector(1L))
    }
  }

  test("it waits for who has just begun to make them") {
    val s = new NamedLake
    var waits = 0
    val outside = s.client(pause = _ => waits += 1)
    dropsAbove(s) {
      outside.lookForNames()
      assert(waits == 0 && outside.makeNames().isEmpty)
    }
    assert(waits > 0 && !s.places.contains("B"))
  }

  test(
    "the MAKING of a change without an answer stays when the next try is late and puts it right"
  ) {
    val s = new NamedLake
    val (real, others) = (s.store.client(), s.client())
    var tries = 0
    val db = s.client(new ForwardingCatalogs(real) {
      override def apply(
          entry: CommitEntry,
          making: Making,
          again: NameChange => NameChange): Vector[Throwable] = {
        tries += 1
        if (tries == 1) throw new IllegalStateException("no answer")
        s.lake.begin(others)
        real(entry, making, again)
      }
    })
    assert(isCommitted(s.rename(db, "A", "C", "A")))
    val left = makings(s)
    s.lake.begin(db)
    assert(tries == 2 && s.places == Map("C" -> "A", "B" -> "B"))
    // The change may still happen.
    assert(left.size == 1 && makings(s) == left)
    s.lake.clock.advance(2 * 3600 * 1000)
    others.recover()
    assert(makings(s).isEmpty)
  }

  for (isHeeded <- Seq(true, false))
    test(s"a name as a late client has left it is not changed, but put right: $isHeeded") {
      val s = new NamedLake
      val others = s.client(safeguards = Safeguards.all.copy(distrustsNames = isHeeded))
      val late = s.client(
        s.store.client(sleep = () => {
          s.lake.begin(others)
          assert(isCommitted(s.commit(others, NameChange(s.key("C"), Some(s.named("A")), None))))
          assert(isCommitted(s.commit(others, s.make("C", "B"))))
        }),
        diesLate()
      )
      intercept[Crash] { s.commit(late, s.make("C", "A")); () }
      assert(s.places("C") == "A")
      val drop = NameChange(s.key("C"), Some(s.named("A")), None)
      val outcome = s.commit(others, drop)
      assert(rule(outcome).contains(Rule.NameChanged) == isHeeded)
      assert(isCommitted(outcome) == !isHeeded)
      if (isHeeded) {
        assert(s.places("C") == "B")
        // The MAKING is still there; what is right may be changed.
        assert(isCommitted(s.commit(others, drop.copy(before = Some(s.named("B"))))))
        assert(!s.places.contains("C"))
      }
    }

  test("what a MAKING tells of one name makes no other one suspect") {
    val s = new NamedLake
    val dying = s.client(observer = new CommitSteps {
      override def namesMade(entry: CommitEntry): Unit = throw new Crash
    })
    intercept[Crash] { s.commit(dying, s.make("C", "B")); () }
    val db = s.client()
    def change(name: String, before: Option[String], after: Option[String]) =
      NameChange(s.key(name), before.map(s.named), after.map(s.named))
    val steps = Seq(
      Seq(change("C", Some("B"), None), change("D", None, Some("A"))),
      Seq(change("C", None, Some("B")), change("D", Some("A"), Some("B"))),
      // This one is not over C.
      Seq(change("D", Some("B"), Some("A"))),
      Seq(change("C", Some("B"), None), change("D", Some("A"), None))
    )
    steps.foreach(changes => assert(isCommitted(s.commit(db, changes: _*)), changes))
    assert(s.places == Map("A" -> "A", "B" -> "B"))
  }

  test("a managed table stays external while a client may be about to drop its name") {
    for (isHeeded <- Seq(true, false)) {
      val s = new NamedLake
      val told = mutable.Buffer.empty[String]
      val db = s.lake.client(
        CommitSteps.Silent,
        options =
          Lake.Forgetful.copy(catalogs = s.store.client(), listener = NamesSuite.told(told)),
        safeguards = Safeguards.all.copy(detachesNames = isHeeded)
      )
      val dying = s.client(observer = new CommitSteps {
        override def beforeNames(entry: CommitEntry): Unit = throw new Crash
      })
      intercept[Crash] { s.commit(dying, s.drop("A")); () }
      s.lake.clock.advance(20000)
      assert(isCommitted(s.commit(db, s.make("A", "B"), s.make("C", "B"))))
      assert(s.store.names(s.key("A")).isManaged == !isHeeded)
      assert(s.store.names(s.key("C")).isManaged)
      assert(told == Seq("LAKESTEP_TABLE_MADE_EXTERNAL").filter(_ => isHeeded))
    }
  }

  test("of entries that a metastore does not take each is tried once, and leaves one file") {
    val s = new NamedLake
    val broken = s.client(s.store.client(works = false))
    val places = Seq("A", "C")
    for (n <- 0 until 12)
      assert(isCommitted(s.rename(broken, places(n % 2), places((n + 1) % 2), "A")))
    def makings = s.lake.store.list(s"${s.lake.root}/makings", "").size
    assert(makings == 1)
    for (_ <- 1 to 3) {
      val asked = s.store.asked
      s.lake.begin(broken)
      assert(s.store.asked == asked + 1 && makings == 1)
    }
    val asked = s.store.asked
    s.lake.begin(s.client())
    assert(s.store.asked == asked + 12 && s.places == Map("A" -> "A", "B" -> "B"))
  }

  test("a name seems to be taken while a late client may have made it: that is not for good") {
    for (isLate <- Seq(true, false)) {
      val s = new NamedLake
      val dying = s.client(observer = new CommitSteps {
        override def namesMade(entry: CommitEntry): Unit = if (isLate) throw new Crash
      })
      try assert(isCommitted(s.commit(dying, s.make("C", "A"))))
      catch { case _: Crash => }
      val real = s.store.client()
      var isWrong = true
      val db = s.client(new ForwardingCatalogs(real) {
        override def apply(
            entry: CommitEntry,
            making: Making,
            again: NameChange => NameChange): Vector[Throwable] =
          if (isWrong && entry.number == 2)
            Vector(Errors(
              "LAKESTEP_NAME_TAKEN",
              "name" -> "C",
              "entry" -> "2",
              "transaction" -> "t",
              "wanted" -> "B",
              "found" -> "A",
              "next" -> "Wait."
            ))
          else real(entry, making, again)
      })
      val change = NameChange(s.key("C"), Some(s.named("A")), Some(s.named("B")))
      assert(isCommitted(s.commit(db, change)))
      isWrong = false
      s.lake.begin(db)
      assert(s.places("C") == (if (isLate) "B" else "A"))
    }
  }

  /** A client, and how long it has waited; `gone` goes after half a second. */
  private def waiting(s: NamedLake, gone: Seq[String]): (Database, () => Long) = {
    var waitedMs = 0L
    val db = s.lake.client(
      CommitSteps.Silent,
      options = Lake.Forgetful.copy(
        catalogs = s.store.client(),
        pause = { ms =>
          waitedMs += ms
          if (waitedMs > 500) gone.foreach(s.lake.store.delete)
        }
      )
    )
    (db, () => waitedMs)
  }

  private def makings(s: NamedLake): Vector[String] = {
    val folder = s"${s.lake.root}/makings"
    s.lake.store.list(folder, "").map(f => s"$folder/${f.name}")
  }

  for {
    ends <- Seq(true, false)
    isView <- Seq(true, false)
  }
    test(
      s"who has just begun to drop a name is waited for, which ends: $ends, of a view: $isView"
    ) {
      val s = new NamedLake
      val dying = s.client(observer = new CommitSteps {
        override def beforeNames(entry: CommitEntry): Unit = throw new Crash
      })
      intercept[Crash] { s.commit(dying, s.drop("A")); () }
      val first = makings(s)
      // Who helps waits, too; this one has given up.
      s.lake.begin(s.client())
      assert(makings(s) == first)
      val (db, waited) = waiting(s, if (ends) first else Nil)
      val view = NamedObject(NamedObject.View, None, Json.obj())
      val made = if (isView) NameChange(s.key("A"), None, Some(view)) else s.make("A", "B")
      assert(isCommitted(s.commit(db, made)))
      if (!isView) assert(s.store.names(s.key("A")).isManaged == ends)
      assert(waited() == (if (ends) 600 else 2000))
      // Nobody is waited for twice.
      assert(isCommitted(s.commit(db, NameChange(s.key("A"), s.store.names.get(s.key("A")), None))))
      assert(waited() == (if (ends) 600 else 2000))
    }

  for (ends <- Seq(true, false))
    test(
      s"who makes the names of an entry is waited for before another one helps; it ends: $ends"
    ) {
      val s = new NamedLake
      val dying = s.client(observer = new CommitSteps {
        override def beforeNames(entry: CommitEntry): Unit = throw new Crash
      })
      intercept[Crash] { s.rename(dying, "A", "C", "A"); () }
      val (db, waited) = waiting(s, if (ends) makings(s) else Nil)
      s.lake.begin(db)
      assert(s.places == Map("C" -> "A", "B" -> "B"))
      assert(waited() == (if (ends) 600 else 2000))
    }

  test(
    "a table in the place of a view is external, if a client has begun to drop the view meanwhile"
  ) {
    for (isHeeded <- Seq(true, false)) {
      val s = new NamedLake
      val view = NamedObject(NamedObject.View, None, Json.obj())
      s.store.names(s.key("V")) = view
      val dying = s.client(observer = new CommitSteps {
        override def beforeNames(entry: CommitEntry): Unit = throw new Crash
      })
      val db = s.client(
        s.store.client(sleep = () => { intercept[Crash] { s.lake.begin(dying); () }; () }),
        safeguards = Safeguards.all.copy(detachesAgain = isHeeded)
      )
      assert(isCommitted(s.commit(db, NameChange(s.key("V"), Some(view), Some(s.named("B"))))))
      assert(s.store.names(s.key("V")).isManaged == !isHeeded)
    }
  }

  test("so is one that is put right there, if another client has begun to do that meanwhile") {
    for (isHeeded <- Seq(true, false)) {
      val s = new NamedLake
      val (key, view) = (s.key("A"), NamedObject(NamedObject.View, None, Json.obj()))
      val dying = s.client(s.store.client(repairing = () => throw new Crash))
      val others = s.client()
      def meanwhile(): Unit = {
        s.lake.begin(others)
        assert(isCommitted(s.commit(others, NameChange(key, Some(view), Some(s.named("B"))))))
      }
      var repairs = 0
      lazy val late: Database = s.client(
        s.store.client(
          sleep = () => meanwhile(),
          // First its own change, then that of the other entry, when it puts that right.
          dropped = () =>
            if (s.store.names.get(s.key("B")).isDefined) {
              repairs += 1
              if (repairs == 2) {
                intercept[Crash] { dying.recover(); () }
                s.lake.clock.advance(20000)
              }
            }
        ),
        safeguards = Safeguards.all.copy(detachesAgain = isHeeded)
      )
      assert(isCommitted(s.commit(late, NameChange(key, Some(s.named("A")), Some(view)))))
      assert(repairs == 2)
      assert(s.store.names(key).path.contains(s.lake.path("B")))
      assert(s.store.names(key).isManaged == !isHeeded)
    }
  }

  test("who is late and finds one name taken puts the others right") {
    val s = new NamedLake
    val others = s.client()
    val dying = s.client(observer = diesLate(3))
    val slow = s.store.client(sleep = () => {
      s.lake.begin(others)
      assert(isCommitted(s.commit(others, s.drop("C", "A"))))
      intercept[Crash] { s.commit(dying, s.make("B", "B")); () }
    })
    val late = s.client(new ForwardingCatalogs(slow) {
      override def apply(
          entry: CommitEntry,
          making: Making,
          again: NameChange => NameChange): Vector[Throwable] =
        slow(entry, making, again) :+ Errors(
          "LAKESTEP_NAME_TAKEN",
          Seq("name", "entry", "transaction", "wanted", "found", "next").map(_ -> "x"): _*
        )
    })
    assert(isCommitted(s.commit(late, s.make("C", "A"), s.drop("B"))))
    assert(s.places == Map("A" -> "A", "B" -> "B"))
  }

  test("nothing is made in a schema that somebody else has dropped") {
    val s = new NamedLake
    val db = s.client()
    s.store.names.remove(s.store.schema)
    assert(rule(s.commit(db, s.make("N", "A"))).contains(Rule.NameChanged))
    // Where names are taken away, and where the schema is made again, that is no matter.
    assert(isCommitted(s.commit(db, s.drop("B"))))
    val again = NameChange(s.store.schema, None, Some(s.store.ofSchema))
    assert(isCommitted(s.commit(db, again, s.make("N", "A"))))
    assert(s.places == Map("A" -> "A", "N" -> "A"))
  }

  test("nothing is made in a schema that is there because a client was late") {
    for (isHeeded <- Seq(true, false)) {
      val s = new NamedLake
      val key = NameKey("m", "s2", None)
      val schema = NamedObject(NamedObject.Schema, Some(TableRef("/s2")), Json.obj())
      val others = s.client(safeguards = Safeguards.all.copy(distrustsNames = isHeeded))
      val late = s.client(
        s.store.client(sleep = () => {
          s.lake.begin(others)
          assert(isCommitted(s.commit(others, NameChange(key, Some(schema), None))))
        }),
        diesLate()
      )
      intercept[Crash] { s.commit(late, NameChange(key, None, Some(schema))); () }
      assert(s.store.names.contains(key))
      val table = NameChange(key.copy(name = Some("t")), None, Some(s.named("B")))
      assert(rule(s.commit(others, table)).contains(Rule.NameChanged) == isHeeded)
      assert(s.store.names.contains(key) == !isHeeded)
      // Where names are taken away nobody has to care.
      assert(isCommitted(s.commit(others, s.drop("A"))))
    }
  }

  test("a schema is not dropped without a table in it that a late client has taken away") {
    for (isHeeded <- Seq(true, false)) {
      val s = new NamedLake
      val others = s.client(safeguards = Safeguards.all.copy(distrustsNames = isHeeded))
      val late = s.client(
        s.store.client(sleep = () => {
          s.lake.begin(others)
          assert(isCommitted(s.commit(others, s.make("A", "B"))))
        }),
        diesLate()
      )
      intercept[Crash] { s.commit(late, s.drop("A")); () }
      assert(s.places == Map("B" -> "B"))
      val outcome =
        s.commit(others, s.drop("B"), NameChange(s.store.schema, Some(s.store.ofSchema), None))
      assert(rule(outcome).contains(Rule.NameChanged) == isHeeded)
      assert(s.store.names.contains(s.store.schema) == isHeeded)
      // Who drops it again finds the table.
      assert(s.places.get("A") == Option.when(isHeeded)("B"))
    }
  }

  test("a schema is not made again while a client may be about to drop it") {
    val s = new NamedLake
    val key = NameKey("m", "s2", None)
    val schema = NamedObject(NamedObject.Schema, Some(TableRef("/s2")), Json.obj())
    s.store.names(key) = schema
    val dying = s.client(observer = new CommitSteps {
      override def beforeNames(entry: CommitEntry): Unit = throw new Crash
    })
    intercept[Crash] { s.commit(dying, NameChange(key, Some(schema), None)); () }
    s.lake.clock.advance(20000)
    val told = mutable.Buffer.empty[String]
    val next = s.lake.client(
      CommitSteps.Silent,
      options = Lake.Forgetful.copy(catalogs = s.store.client(), listener = NamesSuite.told(told))
    )
    assert(isCommitted(s.commit(next, NameChange(key, None, Some(schema)))))
    assert(!s.store.names.contains(key))
    assert(told.toSet == Set("LAKESTEP_SCHEMA_BEING_DROPPED"))
    s.lake.clock.advance(2 * 3600 * 1000)
    next.recover()
    assert(s.store.names.contains(key))
  }

  test("a session that only reads sees what others make of a name after a transaction has") {
    val s = new NamedLake
    val (writer, reader) = (s.client(), s.client())
    assert(isCommitted(s.rename(writer, "A", "C", "A")))
    reader.lookForNames()
    s.store.names.remove(s.key("C"))
    assert(reader.namesOfQuery().exists(_.before().isEmpty))
    val readOnly = s.lake.begin(reader, readOnly = true)
    assert(reader.namesBefore(readOnly, refreshes = true).isEmpty)
  }

  test("names that died with their metastore are asked for by nobody else") {
    val s = new NamedLake
    val dying = s.client(observer = new CommitSteps {
      override def beforeNames(entry: CommitEntry): Unit = throw new Crash
    })
    intercept[Crash] { s.rename(dying, "A", "C", "A"); () }
    def asked(catalogs: Catalogs)(work: Database => Unit): Int = {
      val client = s.client(catalogs)
      client.lookForNames()
      s.lake.memory.requests = Vector.empty
      work(client)
      s.lake.memory.requests.count(_.endsWith(".applied.json"))
    }
    def readOnly(db: Database): Unit = {
      val txn = s.lake.begin(db, readOnly = true)
      assert(db.namesBefore(txn, refreshes = true).size == 2)
    }
    def query(db: Database): Unit = assert(db.namesOfQuery().exists(_.before().size == 2))
    val other = s.store.client(id = "other")
    assert(asked(other)(readOnly) == 0 && asked(other)(query) == 0)
    assert(asked(other)(db => { s.lake.begin(db); () }) == 0)
    assert(asked(s.store.client())(readOnly) == 1 && asked(s.store.client())(query) == 1)
    // One that does not answer which it is may be that one.
    val away = new ForwardingCatalogs(s.store.client()) {
      override def has(metastore: String): Boolean = false
    }
    assert(asked(away)(readOnly) == 1)
  }

  test("a query sees no name made in between by another thread of its process") {
    val s = new NamedLake
    val db = s.client()
    assert(isCommitted(s.rename(db, "B", "D", "B")))
    val query = db.namesOfQuery().getOrElse(fail())
    // The metastore has said that A is there, then:
    assert(isCommitted(s.rename(db, "A", "C", "A")))
    val stood = query.before()
    assert(stood(s.key("A")).isEmpty && stood(s.key("C")).contains(s.named("A")))
  }

  test("a query that lasts knows what it began with, however many entries come") {
    val s = new NamedLake
    val db = s.client(interval = 2)
    for (isFirst <- Seq(true, false)) {
      if (!isFirst) assert(isCommitted(s.rename(db, "C", "A", "A")))
      val query = db.namesOfQuery().getOrElse {
        assert(isCommitted(s.rename(db, "B", "D", "B")))
        db.namesOfQuery().getOrElse(fail())
      }
      assert(query.before().get(s.key("A")).flatten.forall(_ == s.named("A")))
      assert(isCommitted(s.rename(db, "A", "C", "A")))
      for (_ <- 1 to 4) {
        assert(isCommitted(s.rename(db, "C", "E", "A")))
        assert(isCommitted(s.rename(db, "E", "C", "A")))
      }
      val stood = query.before()
      assert(stood(s.key("A")).contains(s.named("A")) && stood(s.key("C")).isEmpty)
    }
  }

  test("who is late makes what is not noted to be made, which it may have undone") {
    for (isHeeded <- Seq(true, false)) {
      val s = new NamedLake
      val (made, goesOn) = (new CountDownLatch(1), new CountDownLatch(1))
      // It has made the names of the third entry, and not noted it.
      val slow = s.client(observer = new CommitSteps {
        override def namesMade(entry: CommitEntry): Unit = if (entry.number == 3) {
          made.countDown()
          goesOn.await()
        }
      })
      val db = s.client()
      lazy val last = {
        s.lake.begin(db)
        assert(isCommitted(s.rename(db, "C", "D", "A")))
        val thread = new Thread(() => s.rename(slow, "D", "C", "A"))
        thread.start()
        made.await()
        thread
      }
      val late = s.client(
        s.store.client(sleep = () => { last; () }),
        safeguards = Safeguards.all.copy(makesWhatIsOpen = isHeeded)
      )
      assert(isCommitted(s.rename(late, "A", "C", "A")))
      goesOn.countDown()
      last.join()
      val right = Map("B" -> "B", "C" -> "A")
      assert(s.places == (if (isHeeded) right else right - "C"))
    }
  }

  test("names that change after every lost number are looked at again") {
    val s = new NamedLake
    var raced = false
    val racing = s.client(observer = new CommitSteps {
      override def beforeOrder(entry: CommitEntry): Unit = if (!raced) {
        raced = true
        assert(isCommitted(s.commit(s.client(), s.drop("A"))))
      }
    })
    val txn = s.lake.begin(racing)
    s.lake.stage(txn, "A", 0, s.lake.add("a2"))
    val outcome = racing.commit(txn, Seq(s.lake.written("A", 0)))
    assert(rule(outcome).contains(Rule.NameChanged))
  }
}

private object NamesSuite {

  /** Keeps the conditions of what a client tells of names that it did not make. */
  def told(conditions: mutable.Buffer[String]): TransactionListener = {
    case TransactionEvent.CatalogBehind(_, e: LakestepException) =>
      conditions += e.getCondition
      ()
    case _ =>
  }
}
