package io.lakestep.log

import java.nio.charset.StandardCharsets.UTF_8

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.{Errors, Json}
import io.lakestep.storage.ObjectStore

/** A commit file of a log, as a listing shows it. */
final case class ListedCommit(version: Long, sizeBytes: Long, modifiedMs: Long)

/**
 * A commit of a log.
 *
 * @param hash BLAKE3 of its file, known of what has a mark and was read from a slot, or put there
 */
final case class LogCommit(version: Long, actions: Vector[Action], hash: Option[String] = None) {
  lazy val info: Option[CommitInfo] = actions.collectFirst { case c: CommitInfo => c }
  lazy val mark: Option[CommitMark] = info.flatMap(_.mark)
  lazy val files: Vector[FileAction] = actions.collect { case f: FileAction => f }
  def changesData: Boolean = files.exists(_.dataChange)

  /** The high-water mark of row ids after this commit, when it moved it. */
  lazy val rowIdHighWaterMark: Option[Long] = RowTracking.highWaterMark(actions)
}

/**
 * What a log held when it was listed, from a version on.
 *
 * @param slots commit files from the asked version on, in order; there may be holes
 * @param checkpoints versions of the checkpoints from the asked version on, in order
 */
final case class LogTail(from: Long, slots: Vector[ListedCommit], checkpoints: Vector[Long]) {

  /** The newest version, or nothing when nothing is left from the asked version on. */
  lazy val head: Option[Long] =
    Seq(slots.lastOption.map(_.version), checkpoints.lastOption).flatten.maxOption

  private lazy val byVersion: Map[Long, ListedCommit] = slots.map(s => s.version -> s).toMap

  def slot(version: Long): Option[ListedCommit] = byVersion.get(version)

  /** Whether every commit from `version` to the head is still there. */
  def isCompleteFrom(version: Long): Boolean =
    head.forall(h => version > h || (version to h).forall(byVersion.contains))

  /** The first version of the unbroken run of commits up to the head; the head when its is gone. */
  def firstOfRun: Option[Long] = head.map { h =>
    Iterator.iterate(h)(_ - 1).takeWhile(v => byVersion.contains(v)).foldLeft(h)((_, v) => v)
  }

  def hasCheckpointFrom(version: Long): Boolean = checkpoints.lastOption.exists(_ >= version)
}

/** The log of one table: its commits and checkpoints, read through an `ObjectStore`. */
final class TableLog(store: ObjectStore, val table: TableRef) {
  import TableLog._

  /**
   * Commits and checkpoints from `version` on. A commit that was made while the folder was being
   * listed and is missing before a later one is looked up by itself, so a hole means: cleaned up.
   */
  def tail(version: Long): LogTail = {
    val from = version.max(0L)
    val files = store.list(table.log, f"$from%020d")
    val named = files.map(f => f -> LogFileName(f.name))
    val slots = named.collect { case (f, LogFileName.Commit(v)) =>
      ListedCommit(v, f.sizeBytes, f.modifiedMs)
    }
    val checkpoints = named.collect { case (_, LogFileName.Checkpoint(v)) => v }.distinct
    LogTail(from, fillHoles(slots), checkpoints)
  }

  private def fillHoles(slots: Vector[ListedCommit]): Vector[ListedCommit] =
    slots.foldLeft(Vector.empty[ListedCommit]) { (known, next) =>
      known.lastOption match {
        case Some(last) if next.version > last.version + 1 =>
          (known ++ lookUp(last.version + 1, next.version)) :+ next
        case _ => known :+ next
      }
    }

  @tailrec
  private def lookUp(
      version: Long,
      until: Long,
      found: Vector[ListedCommit] = Vector.empty): Vector[ListedCommit] =
    if (version >= until) found
    else {
      val name = LogFileName.commitName(version)
      store.list(table.log, name).headOption.filter(_.name == name) match {
        case Some(f) =>
          lookUp(version + 1, until, found :+ ListedCommit(version, f.sizeBytes, f.modifiedMs))
        case None => found
      }
    }

  /** Whether anything is left of the log. */
  def isGone: Boolean =
    !store.list(table.log, "0").map(f => LogFileName(f.name)).exists {
      case _: LogFileName.Commit | _: LogFileName.Checkpoint => true
      case _ => false
    }

  /** The commit in a slot, or nothing when the slot is empty. Condition: LAKESTEP_LOG_CORRUPT. */
  def read(version: Long): Option[LogCommit] =
    store.get(table.slot(version)).map { bytes =>
      val commit = LogCommit(version, parse(table.slot(version), bytes))
      if (commit.mark.isDefined) commit.copy(hash = Some(Json.blake3(bytes))) else commit
    }

  /** The in-commit timestamp of a commit, where it has one. */
  def timeOf(version: Long): Option[Long] =
    read(version).flatMap(_.info).flatMap(_.inCommitTimestampMs)

  /** A staged commit of a segment, or nothing when it is missing. Condition: LAKESTEP_LOG_CORRUPT. */
  def readStaged(segment: String, version: Long): Option[LogCommit] = {
    val file = table.stagedSlot(segment, version)
    store.get(file).map(bytes => LogCommit(version, parse(file, bytes)))
  }
}

object TableLog {

  /** The actions of a file of JSON lines. Condition: LAKESTEP_LOG_CORRUPT, naming the file. */
  def parse(file: String, bytes: Array[Byte]): Vector[Action] =
    try new String(bytes, UTF_8).linesIterator.filterNot(_.isBlank).map(Action.parse).toVector
    catch {
      case NonFatal(e) =>
        val reason = String.valueOf(e.getMessage).takeWhile(_ != '\n')
        throw Errors.caused("LAKESTEP_LOG_CORRUPT", e, "file" -> file, "reason" -> reason)
    }

  def text(actions: Seq[Action]): Array[Byte] =
    actions.map(a => Json.text(a.node)).mkString("", "\n", "\n").getBytes(UTF_8)
}
