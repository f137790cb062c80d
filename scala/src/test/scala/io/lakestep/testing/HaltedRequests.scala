package io.lakestep.testing

import org.apache.hadoop.conf.Configuration

import io.lakestep.commit.{
  CommitSteps, CommitOutcome, Crash, HaltingStore, Lake, ManualClock, RecoveryReport, TwoTables
}
import io.lakestep.log.ForeignWriters
import io.lakestep.storage.{HadoopStores, ObjectStore, ObjectStores}
import io.lakestep.timeline.{CommitEntry, EntryTable}

/**
 * A transaction over two tables whose client halts at a request; another client finishes it. Run
 * again and again, each time on new tables and at a later request, until nothing halts any more.
 *
 * As a program: the folder, every how many requests, and settings of Hadoop as `key=value`. Prints
 * how often a client was halted in a commit and in a rollback, and the same of tables with fences
 * (`lakestep.foreignWriters` = reserve).
 */
private[lakestep] object HaltedRequests {

  def main(arguments: Array[String]): Unit = {
    val configuration = new Configuration
    arguments.drop(2).foreach { setting =>
      val (key, value) = setting.splitAt(setting.indexOf('='))
      configuration.set(key, value.drop(1))
    }
    val (base, every) = (arguments(0), arguments(1).toInt)
    val store = new HadoopStores(configuration).forPath(base)
    val halts = for (fences <- Seq(false, true); conflict <- Seq(false, true))
      yield run(store, s"$base/$fences-$conflict", every, conflict, fences)
    println(s"HALTED ${halts.mkString(" ")}")
    // Clients of a store may leave threads behind.
    System.exit(0)
  }

  /**
   * @param conflict whether a foreign commit between two publishes makes it a rollback
   * @param fences whether the tables are fenced before they are published
   * @return how often a client was halted; throws `AssertionError` for half a transaction
   */
  def run(
      store: ObjectStore,
      base: String,
      every: Int,
      conflict: Boolean,
      fences: Boolean): Int =
    Iterator.iterate(1)(_ + every).map { at =>
      Seq(false, true).count { after =>
        isHalted(store, s"$base/$at-$after", at, after, conflict, fences)
      }
    }.takeWhile(_ > 0).sum

  private def isHalted(
      store: ObjectStore,
      base: String,
      at: Int,
      after: Boolean,
      conflict: Boolean,
      fences: Boolean): Boolean = {
    val halting = new HaltingStore(store, at, after)
    val mode = if (fences) ForeignWriters.Reserve else ForeignWriters.Allow
    val scene = new TwoTables(
      lake = new Lake(store, new ManualClock, base),
      properties = Map(ForeignWriters.Property -> mode)
    )
    val lake = scene.lake
    val outcome =
      try Some(scene.run(
          if (conflict) rewritesB(lake) else CommitSteps.Silent,
          ObjectStores.single(halting)
        ))
      catch { case _: Crash => None }
    val helper = lake.client()
    assert(helper.recover().failed.isEmpty, base)
    for (table <- Seq("A", "B")) {
      val state = lake.states.stateAt(lake.path(table), lake.head(table))
      assert(!ForeignWriters.isFenced(state.protocol), base)
    }
    val (a, b) = (lake.live("A"), lake.live("B"))
    val isWhole = a == Set("a2") && b == Set("b2")
    val isNothing = a == Set("a1") && (b == Set("b1") || (conflict && b == Set("b3")))
    assert(isWhole || isNothing, s"$base: $a, $b")
    outcome.foreach {
      case _: CommitOutcome.Committed => assert(isWhole, base)
      case _: CommitOutcome.Conflicted => assert(isNothing, base)
      case _ => ()
    }
    assert(helper.recover() == RecoveryReport(Vector.empty, Vector.empty), base)
    val next = lake.begin(helper)
    Seq("A", "B").foreach(t => lake.stage(next, t, lake.head(t), lake.add("later")))
    val written = Seq("A", "B").map(t => lake.written(t, lake.head(t)))
    assert(helper.commit(next, written).isInstanceOf[CommitOutcome.Committed], base)
    halting.hasHalted
  }

  /** A writer of its own, that no request of the client counts. */
  private def rewritesB(lake: Lake): CommitSteps = new CommitSteps {
    private var isDone = false
    override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
      if (t.name == "A" && !isDone) {
        isDone = true
        lake.foreign("B", lake.remove("b1"), lake.add("b3"))
        ()
      }
  }
}
