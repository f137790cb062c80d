package io.lakestep.transaction

import java.io.IOException
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Ids, LakestepException}
import io.lakestep.commit.{Lake, ManualClock}
import io.lakestep.log.PinnedHeader
import io.lakestep.overlay.Staging
import io.lakestep.storage.MemoryStore

/** A statement that fails while the store fails, too. */
final class FailedStatementSuite extends AnyFunSuite {

  private class Scene {
    private val dir = Files.createTempDirectory("failed").toRealPath()
    private val clock = new ManualClock
    val store = new MemoryStore(clock)
    val lake = new Lake(store, clock, s"file:$dir") {
      override val ids: Ids = Ids.random
    }
    lake.create("A", "a1")
    // A statement asks the file system whether there is a table.
    Files.createDirectories(dir.resolve("A/_delta_log"))
    val db = lake.client()
    val begun = lake.begin(db)
    val transaction = new Transaction(begun, db)
    transaction.overlayOf(new Path(lake.path("A").uri), new Configuration())
    private val at = lake.states.stateAt(lake.path("A"), 0)
    private val table = transaction.touched.head
    table.learn(TableFacts(
      at.metadataId,
      false,
      None,
      10,
      Some(PinnedHeader(at.metaData, at.protocol, Set.empty))
    ))

    def insert(file: String)(after: => Unit): Unit =
      transaction.runStatement(_ => ()) {
        val version = lake.staged(begun, "A") + 1L
        Staging.of(begun.id).record(table.base.toString, version)
        lake.stage(begun, "A", 0, lake.add(file))
        after
      }

    def condition(body: => Any): String =
      intercept[LakestepException] { body; () }.getCondition
  }

  test("what it staged is taken back, and the transaction goes on") {
    val s = new Scene
    intercept[IOException](s.insert("x")(throw new IOException("failed")))
    s.insert("y")(())
    s.db.commit(s.begun, s.transaction.written)
    assert(s.lake.live("A") == Set("a1", "y"))
  }

  test("what cannot be taken back is neither read nor committed") {
    val s = new Scene
    s.store.failDelete = _ => throw new IOException("no answer")
    intercept[IOException](s.insert("x")(throw new IOException("failed")))
    s.store.failDelete = _ => ()
    assert(s.condition(s.insert("y")(())) == "LAKESTEP_STATEMENT_NOT_UNDONE")
    assert(s.condition(s.transaction.checkUsable()) == "LAKESTEP_STATEMENT_NOT_UNDONE")
    Staging.close(s.begun.id)
    s.db.discard(s.begun, s.transaction.touchedPaths)
    assert(s.lake.live("A") == Set("a1"))
    assert(s.lake.staged(s.begun, "A") == 0)
  }

  test("a staged commit that may still appear stops the transaction") {
    val s = new Scene
    intercept[IOException](s.insert("x") {
      val unclear = new IOException("no answer")
      Staging.of(s.begun.id).doubt(unclear)
      throw unclear
    })
    assert(s.condition(s.insert("y")(())) == "LAKESTEP_STATEMENT_NOT_UNDONE")
  }
}
