package io.lakestep.testing

import java.io.{FileInputStream, FileOutputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, LocalFileSystem, Path}

import io.lakestep.commit.CommitSteps
import io.lakestep.timeline.{CommitEntry, EntryTable, Outcome, RolledBack}
import io.lakestep.log.TableRef

/**
 * Halts a client at the steps of a commit that it was ordered to, until it is told to go on.
 *
 * `spark.lakestep.commit.observer=io.lakestep.testing.HaltingObserver`. The orders are looked up at
 * every step, so a running client can get others: system properties, else environment variables.
 *
 *  - `lakestep.halt.at` / `LAKESTEP_HALT_AT`: `step:k`, separated by commas. `step` is a method of
 *    [[CommitSteps]], `k` counts its calls from 1 since these orders were given, `*` is every one.
 *  - `lakestep.halt.folder` / `LAKESTEP_HALT_FOLDER`: a folder with two named pipes. A halted client
 *    writes the line `step:k` into `at`, and goes on when it has read a line from `go`.
 *
 * One thread of a client is halted at a time. Both pipes block, so nobody polls or sleeps.
 */
final class HaltingObserver extends CommitSteps {
  import HaltingObserver.reached

  override def beforeRequested(transaction: String): Unit = reached("beforeRequested")
  override def requested(transaction: String): Unit = reached("requested")
  override def bound(tablePath: TableRef): Unit = reached("bound")
  override def pinned(transaction: String, tablePath: TableRef, version: Long): Unit =
    reached("pinned")
  override def flattened(transaction: String, tablePath: TableRef): Unit = reached("flattened")
  override def timelineRead(transaction: String, next: Long): Unit = reached("timelineRead")
  override def helped(transaction: String): Unit = reached("helped")
  override def validated(transaction: String): Unit = reached("validated")
  override def beforeOrder(entry: CommitEntry): Unit = reached("beforeOrder")
  override def ordered(entry: CommitEntry): Unit = reached("ordered")
  override def beforePublish(
      entry: CommitEntry,
      table: EntryTable,
      part: Int,
      slot: Long): Unit = reached("beforePublish")
  override def published(entry: CommitEntry, table: EntryTable, part: Int, slot: Long): Unit =
    reached("published")
  override def beforeDecision(entry: CommitEntry, outcome: Outcome): Unit =
    reached("beforeDecision")
  override def decided(entry: CommitEntry, outcome: Outcome): Unit = reached("decided")
  override def beforeSettle(entry: CommitEntry, table: EntryTable, slot: Long): Unit =
    reached("beforeSettle")
  override def settled(entry: CommitEntry, table: EntryTable, slot: Long): Unit =
    reached("settled")
  override def beforeRolledBack(entry: CommitEntry): Unit = reached("beforeRolledBack")
  override def rolledBack(entry: CommitEntry, end: RolledBack): Unit = reached("rolledBack")
  override def beforeNames(entry: CommitEntry): Unit = reached("beforeNames")
  override def namesMade(entry: CommitEntry): Unit = reached("namesMade")
  override def snapshotPut(name: String): Unit = reached("snapshotPut")
  override def cutPut(tablePath: TableRef): Unit = reached("cutPut")
  override def logCopied(tablePath: TableRef): Unit = reached("logCopied")
  override def beforeCleanUp(transaction: String): Unit = reached("beforeCleanUp")
  override def beforeChecksums(tablePath: TableRef): Unit = reached("beforeChecksums")
  override def checksumsPut(tablePath: TableRef): Unit = reached("checksumsPut")
}

/**
 * The local disk, on which clients also halt before they list a Delta log, and before they delete a
 * file of one: steps `list` and `delete`.
 *
 * The settings `fs.file.impl`, this class, and `fs.file.impl.disable.cache` of a session turn it on.
 */
final class HaltingFileSystem extends LocalFileSystem {

  override def listStatus(path: Path): Array[FileStatus] = {
    if (path.getName == "_delta_log") HaltingObserver.reached("list")
    super.listStatus(path)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    if (path.getParent.getName == "_delta_log" && path.getName.head.isDigit)
      HaltingObserver.reached("delete")
    super.delete(path, recursive)
  }
}

object HaltingObserver {

  private val calls = new ConcurrentHashMap[(Orders, String), AtomicInteger]

  private[testing] def reached(step: String): Unit = Orders.now.foreach { orders =>
    val call = calls.computeIfAbsent((orders, step), _ => new AtomicInteger).incrementAndGet()
    if (orders.at(s"$step:$call") || orders.at(s"$step:*")) halt(orders.folder, s"$step:$call")
  }

  private def halt(folder: String, where: String): Unit = synchronized {
    Using.resource(new FileOutputStream(s"$folder/at"))(_.write(s"$where\n".getBytes(UTF_8)))
    Using.resource(new FileInputStream(s"$folder/go")) { go =>
      Iterator.continually(go.read()).find(byte => byte == '\n' || byte < 0)
    }
    ()
  }

  private final case class Orders(folder: String, at: Set[String])

  private object Orders {
    def now: Option[Orders] =
      for {
        folder <- setting("lakestep.halt.folder")
        at <- setting("lakestep.halt.at")
      } yield Orders(folder, at.split(',').map(_.trim).toSet)

    private def setting(property: String): Option[String] =
      sys.props
        .get(property)
        .orElse(sys.env.get(property.toUpperCase.replace('.', '_')))
        .filter(_.nonEmpty)
  }
}
