package io.lakestep.overlay

import java.io.{FileNotFoundException, IOException}

import scala.util.{Try, Using}

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

/**
 * A table's log as a chain shows it: the base log up to the pin, then the staged commits.
 *
 * Holds nothing but its arguments; every answer comes from the store at that moment.
 *
 * @param log the base `_delta_log`
 */
private[overlay] final class LogView(chain: Chain, log: Path, fs: FileSystem) {

  import LogEntry._

  /**
   * Name and status of everything in the log from a name on, in the order of names; the paths are
   * the store's.
   *
   * `_last_checkpoint` is left out: whether it is shown takes reading it, and nobody who lists a
   * log needs it there.
   */
  def list(from: String): Vector[(String, FileStatus)] = {
    val staged = stagedCommits().filter(_._1 >= from)
    val below = statuses(log).filter { s =>
      val name = s.getPath.getName
      name >= from && LogEntry(name) != LastCheckpoint && isVisible(name)
    }
    if (below.isEmpty && staged.isEmpty && !hasLog) throw notFound(log)
    (below.map(s => s.getPath.getName -> s) ++ staged).sortBy(_._1)
  }

  /** Whether a log is to be seen at all: a table that is not yet published has staged commits. */
  def hasLog: Boolean =
    if (chain.pin >= 0) exists(log) else stagedCommits().nonEmpty

  /** Where the file of this name really is; nothing if the view does not hold it. */
  def locate(name: String): Option[FileStatus] = LogEntry(name) match {
    case Commit(version) if version > chain.pin =>
      chain.segments.reverseIterator
        .flatMap(segment => status(new Path(StagingFolder.ofLog(log, segment), name)))
        .nextOption()
    case _ if isVisible(name) => status(new Path(log, name))
    case _ => None
  }

  /** The content of `_last_checkpoint`, where it names a checkpoint that the view holds. */
  def lastCheckpoint(): Option[Array[Byte]] = {
    val file = new Path(log, "_last_checkpoint")
    try {
      val bytes = Using.resource(fs.open(file))(_.readAllBytes())
      val version = Try(LogView.json.readTree(bytes).path("version").asLong(Long.MaxValue))
      Option.when(version.toOption.exists(_ <= chain.pin))(bytes)
    } catch { case _: FileNotFoundException => None }
  }

  private def isVisible(name: String): Boolean = LogEntry(name) match {
    case Commit(version) => version <= chain.pin
    case Checkpoint(version) => version <= chain.pin
    case Derived(version) => version <= chain.pin
    case LastCheckpoint => chain.pin >= 0 && lastCheckpoint().isDefined
    case Hidden => false
    case Other => chain.pin >= 0
  }

  /** A later segment's commit stands before an earlier one's of the same version. */
  private def stagedCommits(): Map[String, FileStatus] =
    chain.segments
      .flatMap(segment => statuses(StagingFolder.ofLog(log, segment)))
      .filter(s =>
        LogEntry(s.getPath.getName) match {
          case Commit(version) => version > chain.pin
          case _ => false
        }
      )
      .map(s => s.getPath.getName -> s)
      .toMap

  private def statuses(folder: Path): Vector[FileStatus] =
    try fs.listStatus(folder).toVector
    catch { case _: FileNotFoundException => Vector.empty }

  private def status(file: Path): Option[FileStatus] =
    try Some(fs.getFileStatus(file))
    catch { case _: FileNotFoundException => None }

  private def exists(file: Path): Boolean = status(file).isDefined

  private def notFound(path: Path): IOException =
    new FileNotFoundException(s"No such file or directory: $path (chain ${chain.text})")
}

private object LogView {
  private val json = new ObjectMapper
}
