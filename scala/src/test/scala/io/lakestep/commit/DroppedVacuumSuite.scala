package io.lakestep.commit

import scala.util.Try

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.storage.ObjectStores
import io.lakestep.timeline.{CommitEntry, Making, NameChange, Purge, Rule}

/** VACUUM DROPPED TABLES beside who needs the data of a dropped table, and after who died of it. */
final class DroppedVacuumSuite extends AnyFunSuite {

  private class Scene {
    val names = new NamedLake
    val lake: Lake = names.lake
    val db: Database = names.client()
    // Of full seconds nothing tells what came first.
    lake.clock.advance(7)

    def dropA(): Unit = {
      lake.foreign("A", lake.add("a2"))
      assert(isCommitted(names.commit(db, names.drop("A"))))
      lake.clock.advance(1000)
    }

    def begin(): BegunTransaction = lake.begin(db)

    /** Why the tables that are old enough are kept, or nothing for those that are purged. */
    def found(retainMs: Long = 500): Vector[Option[String]] =
      db.oldDropped(begin(), retainMs).map(_.kept)

    def decide(txn: BegunTransaction, db: Database = db): CommitOutcome =
      db.commit(txn, Nil, purges = old(txn, db))

    private def old(txn: BegunTransaction, db: Database): Vector[Purge] =
      db.oldDropped(txn, 500).filter(_.kept.isEmpty).map(_.purge)

    def vacuum(db: Database = db): Vector[Purged] = {
      decide(lake.begin(db), db)
      db.purge().map(_._2)
    }

    def isThere(table: String): Boolean =
      lake.memory.paths.exists(_.startsWith(s"${lake.path(table).uri}/"))

    def undrop: NameChange = names.make("A", "A")
  }

  private def isCommitted(outcome: CommitOutcome) = outcome.isInstanceOf[CommitOutcome.Committed]

  private def rule(outcome: CommitOutcome): Option[Rule] = outcome match {
    case CommitOutcome.Conflicted(conflict, _) => Some(conflict.rule)
    case _ => None
  }

  test("the data of a dropped table are deleted, once, and its name is not to be had again") {
    val s = new Scene
    s.dropA()
    assert(s.found(retainMs = 5000).isEmpty)
    assert(s.found() == Vector(None))
    // What the checks themselves have begun is open, and began after the DROP.
    assert(s.vacuum() == Vector(Purged.Deleted))
    assert(!s.isThere("A") && s.isThere("B"))
    assert(s.db.dropped().isEmpty && s.vacuum().isEmpty && s.names.client().purge().isEmpty)
    assert(s.names.client(interval = 2).dropped().isEmpty)
  }

  test("of VACUUM and UNDROP the first wins, whoever looked first") {
    for (undropsFirst <- Seq(true, false)) {
      val s = new Scene
      s.dropA()
      val (vacuum, undrop) = (s.begin(), s.begin())
      val purges = s.db.oldDropped(vacuum, 500).map(_.purge)
      def bring() = s.db.commit(undrop, Nil, Nil, Vector(s.undrop))
      def purge() = s.db.commit(vacuum, Nil, purges = purges)
      val (first, second) = if (undropsFirst) (bring(), purge()) else (purge(), bring())
      assert(isCommitted(first) && rule(second).contains(Rule.NameChanged))
      assert(s.db.purge().map(_._2) == (if (undropsFirst) Vector() else Vector(Purged.Deleted)))
      assert(s.isThere("A") == undropsFirst)
    }
  }

  test("of VACUUM and rows that are written by path the first wins") {
    for (writesFirst <- Seq(true, false)) {
      val s = new Scene
      s.dropA()
      val (vacuum, insert) = (s.begin(), s.begin())
      s.lake.stage(insert, "A", 1, s.lake.add("a3"))
      val purges = s.db.oldDropped(vacuum, 500).map(_.purge)
      def write() = s.db.commit(insert, Seq(s.lake.written("A", 1).copy(stagedTo = 2L)))
      def purge() = s.db.commit(vacuum, Nil, purges = purges)
      val (first, second) = if (writesFirst) (write(), purge()) else (purge(), write())
      assert(isCommitted(first) && rule(second).contains(Rule.NameChanged))
      s.db.purge()
      assert(s.isThere("A") == writesFirst)
    }
  }

  test("what somebody needs is kept") {
    def kept(before: Scene => Any, after: Scene => Any): Option[String] = {
      val s = new Scene
      before(s)
      s.dropA()
      after(s)
      val found = s.found()
      assert(s.vacuum().isEmpty && s.isThere("A"))
      found.head
    }
    assert(kept(_.begin(), _ => ()).exists(_.contains("began before it was dropped")))
    val named = kept(_ => (), s => s.names.store.names(s.names.key("other")) = s.names.named("A"))
    assert(named.contains("`s`.`other` leads to its folder"))
    assert(kept(_ => (), s => s.lake.foreign("A")).contains("it was written since"))
    // The last commit and the DROP came in one full second.
    assert(kept(_.lake.clock.advance(993), _ => ()).contains("it was written since"))
  }

  test("a table that is not the metastore's to delete, or another metastore's, is kept") {
    val s = new Scene
    val external = s.names.named("A").copy(definition = Json.obj().put("type", "EXTERNAL"))
    s.names.store.names(s.names.key("A")) = external
    assert(isCommitted(s.names.commit(
      s.db,
      NameChange(s.names.key("A"), Some(external), None),
      s.names.drop("B")
    )))
    s.lake.clock.advance(1000)
    val elsewhere = s.names.client(s.names.store.client(id = "other"))
    assert(s.vacuum(elsewhere).isEmpty)
    assert(s.vacuum() == Vector(Purged.Deleted))
    assert(s.isThere("A") && !s.isThere("B"))
  }

  test(
    "what a client left that died anywhere is deleted by the next one, and by no other statement"
  ) {
    val halts = for (after <- Seq(false, true)) yield Iterator.from(1).takeWhile { at =>
      val s = new Scene
      s.dropA()
      assert(isCommitted(s.decide(s.begin())))
      val halting = new HaltingStore(s.lake.store, at, after)
      val dying = s.lake.client(
        options = Lake.Forgetful.copy(catalogs = s.names.store.client()),
        stores = ObjectStores.single(halting)
      )
      try dying.purge()
      catch { case _: Crash => Vector.empty }
      val isDone = !s.isThere("A")
      // Nothing of it can be read unless all can.
      val read = Try(s.lake.states.stateAt(s.lake.path("A"), 1)).map(_ => s.lake.live("A"))
      assert(read.toOption.forall(_ == Set("a1", "a2")) && (at > 1 || read.isSuccess), at)
      s.begin()
      s.db.recover()
      assert(s.isThere("A") != isDone, at)
      assert(s.vacuum().forall(_ == Purged.Deleted), at)
      assert(!s.isThere("A") && s.vacuum().isEmpty && s.names.client().purge().isEmpty, at)
      halting.hasHalted
    }.size
    assert(halts.forall(_ > 8))
  }

  test("what somebody writes, or makes there, between the look and the decision is kept") {
    def purged(
        meanwhile: Scene => Any,
        afterwards: Scene => Any = _ => (),
        by: Scene => Database = _.db): Purged = {
      val s = new Scene
      s.dropA()
      val vacuum = s.begin()
      val purges = s.db.oldDropped(vacuum, 500).map(_.purge)
      meanwhile(s)
      s.lake.clock.advance(1000)
      assert(isCommitted(s.db.commit(vacuum, Nil, purges = purges)))
      afterwards(s)
      by(s).purge().map(_._2).head
    }
    assert(purged(_.lake.foreign("A")) == Purged.Kept("it was written since"))
    val named = purged(_ => (), s => s.names.commit(s.db, s.names.make("N", "A/inside")))
    assert(named == Purged.Kept("entry 3 names or writes it"))
    def longAgo(s: Scene) = {
      s.names.commit(s.db, s.names.make("N", "A/inside"))
      for (_ <- 1 to 5) s.names.rename(s.db, "B", "B", "B")
    }
    val remembered = purged(_ => (), longAgo(_), _.names.client(interval = 2))
    assert(remembered == Purged.Kept("entry 3 names or writes it"))
    assert(purged(_ => ()) == Purged.Deleted)
  }

  test("a table that has another name is kept, also while no metastore shows that name") {
    val s = new Scene
    // It does not make the name of the first entry.
    val away = s.names.client(new ForwardingCatalogs(s.names.store.client()) {
      override def apply(
          entry: CommitEntry,
          making: Making,
          again: NameChange => NameChange): Vector[Throwable] =
        if (entry.number == 1) throw new IllegalStateException("the metastore is away")
        else super.apply(entry, making, again)
    })
    assert(isCommitted(s.names.commit(away, s.names.make("other", "A"))))
    assert(isCommitted(s.names.commit(away, s.names.drop("A"))))
    assert(s.names.places == Map("B" -> "B"))
    s.lake.clock.advance(1000)
    val found = away.oldDropped(s.lake.begin(away), 500).map(_.kept)
    assert(found == Vector(Some("`s`.`other` leads to its folder")))
    assert(s.vacuum().isEmpty && s.names.places == Map("B" -> "B", "other" -> "A"))
  }

  test("a folder in which the timeline lies is kept") {
    val s = new Scene
    val around = s.names.named("A").copy(path = Some(TableRef("/lake")))
    s.names.store.names(s.names.key("R")) = around
    assert(isCommitted(s.names.commit(s.db, NameChange(s.names.key("R"), Some(around), None))))
    s.lake.clock.advance(1000)
    assert(s.found() == Vector(Some("the timeline lies in its folder")))
    assert(s.vacuum().isEmpty && s.isThere("A"))
  }

  test("a table that is made inside the folder meanwhile is a conflict") {
    val s = new Scene
    s.dropA()
    val vacuum = s.begin()
    val purges = s.db.oldDropped(vacuum, 500).map(_.purge)
    assert(isCommitted(s.names.commit(s.db, s.names.make("N", "A/inside"))))
    assert(rule(s.db.commit(vacuum, Nil, purges = purges)).contains(Rule.NameChanged))
  }

  test("a table that others make there after who died is theirs") {
    val s = new Scene
    s.dropA()
    s.decide(s.begin())
    s.lake.clock.advance(1000)
    s.lake.drop("A")
    s.lake.create("A", "theirs")
    assert(s.db.purge().map(_._2) == Vector(Purged.Kept("it was written since")))
    assert(s.lake.live("A") == Set("theirs") && s.db.purge().isEmpty)
  }
}
