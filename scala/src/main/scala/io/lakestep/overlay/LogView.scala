package io.lakestep.overlay

import java.io.{FileNotFoundException, IOException}

import scala.util.{Try, Using}

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import io.lakestep.Errors
import io.lakestep.log.LogFileName
import io.lakestep.storage.{HadoopStores, TemporaryFiles}

/**
 * A table's log as a chain shows it: the base log up to the pin, then the staged commits.
 *
 * Every answer comes from the store at that moment, but for what the driver of an open transaction
 * remembers ([[StagedListings]]).
 *
 * @param log the base `_delta_log`
 */
private[overlay] final class LogView(chain: Chain, log: Path, fs: FileSystem) {

  import LogFileName._

  /** What the transaction of this driver remembers, which has staged the only segment. */
  private val staging: Option[Staging] = chain.segments match {
    case Vector(segment) => Staging.find(segment)
    case _ => None
  }

  private def table: String = log.getParent.toString

  /** The log up to the pin, or its copy. */
  private val below: Path = chain.below(log)

  /**
   * Name and status of everything in the log, in the order of names; the paths are the store's.
   *
   * `_last_checkpoint` is left out: whether it is shown takes reading it, and nobody who lists a
   * log needs it there.
   */
  def list(): Vector[(String, FileStatus)] =
    shown(statuses(below).filter(isListed), stagedCommits())

  /**
   * The same for files alone, from a name on. Nothing is asked of the base log where the name
   * stands above the pin.
   */
  def listFrom(name: String): Vector[(String, FileStatus)] = {
    val base = if (isAbovePin(name)) Vector.empty else belowPin(name)
    shown(base, stagedCommits().filter(_._1 >= name))
  }

  /** Lists the base log from a name on, for who will ask for it. */
  private def ahead(name: String): Unit = {
    belowPin(name)
    staging.foreach(_.listedAhead(table))
  }

  private def belowPin(name: String): Vector[FileStatus] =
    remembered(_.listedBelow(table, chain.pin, name))(files(below, name).filter(isListed)) {
      (staging, epoch, found) => staging.sawBelow(epoch, table, chain.pin, name, found)
    }

  /** What the transaction remembers, else what the store says, which it learns. */
  private def remembered[A](known: Staging => Option[A])(ask: => A)(
      learn: (Staging, Long, A) => Unit): A =
    staging.fold(ask) { memory =>
      known(memory).getOrElse {
        val epoch = memory.epoch
        val found = ask
        learn(memory, epoch, found)
        found
      }
    }

  private def shown(
      base: Vector[FileStatus],
      staged: Map[String, FileStatus]): Vector[(String, FileStatus)] = {
    val visible = base.map(s => s.getPath.getName -> s)
    if (visible.isEmpty && chain.kept.isDefined)
      throw Errors("LAKESTEP_SNAPSHOT_DROPPED", "table" -> table)
    if (visible.isEmpty && staged.isEmpty && !hasLog) throw notFound(log)
    (visible ++ staged).sortBy(_._1)
  }

  private def isListed(status: FileStatus): Boolean = {
    val name = status.getPath.getName
    LogFileName(name) != LastCheckpoint && isVisible(name)
  }

  /** Whether every version that a name stands for, and that follows it, is above the pin. */
  private def isAbovePin(name: String): Boolean = LogFileName(name) match {
    case Commit(version) => version > chain.pin
    case Checkpoint(version) => version > chain.pin
    case Derived(version) => version > chain.pin
    case _ => false
  }

  /** Whether a log is to be seen at all: a table that is not yet published has staged commits. */
  def hasLog: Boolean =
    if (chain.pin < 0) stagedCommits().nonEmpty
    else staging.exists(_.hasListedBelow(table)) || HadoopStores.hasFolder(fs, log)

  /** Where the file of this name really is; nothing if the view does not hold it. */
  def locate(name: String): Option[FileStatus] = LogFileName(name) match {
    case Commit(version) if version > chain.pin =>
      def staged = chain.segments.reverseIterator
        .flatMap(segment => status(new Path(StagingFolder.ofLog(log, segment), name)))
        .nextOption().map(timed(version, _))
      remembered(_.status(table, version).map(Option(_)))(staged) { (staging, epoch, found) =>
        staging.saw(epoch, table, found.map(version -> _))
      }
    case _ if isVisible(name) => status(new Path(below, name))
    case _ => None
  }

  /** As `locate`, but where only one place is possible nobody looks whether the file is there. */
  def whereabouts(name: String): Option[Path] = LogFileName(name) match {
    case Commit(version) if version > chain.pin =>
      chain.segments match {
        case Vector(segment) => Some(new Path(StagingFolder.ofLog(log, segment), name))
        case _ => locate(name).map(_.getPath)
      }
    case _ => Option.when(isVisible(name))(new Path(below, name))
  }

  /** The content of `_last_checkpoint`, where it names a checkpoint that the view holds. */
  def lastCheckpoint(): Option[Array[Byte]] = {
    // A checkpoint that is younger than the listing would be missing there.
    staging.foreach(_.forgetBelow(table))
    val file = new Path(below, "_last_checkpoint")
    try {
      val bytes = HadoopStores.inOneRequest(fs, file)
        .getOrElse(Using.resource(fs.open(file))(_.readAllBytes()))
      val version = Try(LogView.json.readTree(bytes).path("version").asLong(Long.MaxValue))
      Option.when(version.toOption.exists(_ <= chain.pin))(bytes)
    } catch { case _: FileNotFoundException => None }
  }

  private def isVisible(name: String): Boolean = LogFileName(name) match {
    case Commit(version) => version <= chain.pin
    case Checkpoint(version) => version <= chain.pin
    case Derived(version) => version <= chain.pin
    case LastCheckpoint => chain.pin >= 0 && lastCheckpoint().isDefined
    case Hidden => false
    case Other => chain.pin >= 0
  }

  /** A later segment's commit stands before an earlier one's of the same version. */
  private def stagedCommits(): Map[String, FileStatus] = {
    def listed = chain.segments
      .flatMap(segment => files(StagingFolder.ofLog(log, segment), StagingFolder.First))
      .flatMap(s => versionOf(s).filter(_ > chain.pin).map(timed(_, s)))
    remembered(_.statuses(table, chain.pin))(listed) { (staging, epoch, found) =>
      staging.saw(epoch, table, found.flatMap(status => versionOf(status).map(_ -> status)))
    }.map(s => s.getPath.getName -> s).toMap
  }

  private def timed(version: Long, status: FileStatus): FileStatus =
    staging.fold(status)(_.timed(table, version, status))

  private def versionOf(status: FileStatus): Option[Long] =
    LogFileName(status.getPath.getName) match {
      case Commit(version) => Some(version)
      case _ => None
    }

  private def files(folder: Path, from: String): Vector[FileStatus] =
    try LogListing(fs, folder, from)
    catch { case _: FileNotFoundException => Vector.empty }

  private def statuses(folder: Path): Vector[FileStatus] =
    try fs.listStatus(folder).toVector
    catch { case _: FileNotFoundException => Vector.empty }

  private def status(file: Path): Option[FileStatus] =
    try Some(fs.getFileStatus(file))
    catch { case _: FileNotFoundException => None }

  private def notFound(path: Path): IOException =
    new FileNotFoundException(s"No such file or directory: $path (chain ${chain.text})")
}

private[lakestep] object LogView {
  private val json = new ObjectMapper

  /** Lists the log of an overlay's table, up to the pin and from a name on, for who will ask for it. */
  def listAhead(overlay: Path, fs: FileSystem, name: String): Unit = {
    val OverlayPath(chain, base) = OverlayPath.parse(overlay)
    new LogView(chain, new Path(base, TemporaryFiles.LogFolder), fs).ahead(name)
  }
}
