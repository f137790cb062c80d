package io.lakestep.overlay

import org.apache.hadoop.fs.Path

/** What a name directly below `_delta_log` stands for, as far as an overlay must know. */
private[overlay] sealed trait LogEntry

private[overlay] object LogEntry {

  /** `<version>.json` */
  final case class Commit(version: Long) extends LogEntry

  /** A checkpoint of any form, or one part of it. */
  final case class Checkpoint(version: Long) extends LogEntry

  /** Any other file about the versions up to this one: `.crc`, `<from>.<to>.compacted.json`, … */
  final case class Derived(version: Long) extends LogEntry

  /** The hint that names the newest checkpoint. */
  case object LastCheckpoint extends LogEntry

  /** Never shown through an overlay: our own folder, unfinished and coordinated commits. */
  case object Hidden extends LogEntry

  /** Shown as it is: files and folders that are not about one version, such as `_sidecars`. */
  case object Other extends LogEntry

  val LogFolder = "_delta_log"
  val OwnFolder = "_lakestep"
  val SidecarFolder = "_sidecars"

  private val CommitName = "([0-9]{1,20})\\.json".r
  private val CheckpointName = "([0-9]{1,20})\\.checkpoint\\..*".r
  private val CompactedName = "[0-9]{1,20}\\.([0-9]{1,20})\\.compacted\\..*".r
  private val DerivedName = "([0-9]{1,20})\\..*".r

  def apply(name: String): LogEntry = name match {
    case CommitName(v) => version(v).fold[LogEntry](Hidden)(Commit)
    case CheckpointName(v) => version(v).fold[LogEntry](Hidden)(Checkpoint)
    case CompactedName(v) => version(v).fold[LogEntry](Hidden)(Derived)
    case DerivedName(v) => version(v).fold[LogEntry](Hidden)(Derived)
    case "_last_checkpoint" => LastCheckpoint
    case OwnFolder | "_staged_commits" => Hidden
    case dotted if dotted.startsWith(".") => Hidden
    case _ => Other
  }

  private def version(digits: String): Option[Long] = digits.toLongOption

  /** The file name of a commit. */
  def commitName(version: Long): String = f"$version%020d.json"

  /** The version of a commit file. */
  def version(commit: Path): Long = apply(commit.getName) match {
    case Commit(version) => version
    case _ => throw new IllegalArgumentException(s"$commit is no commit file")
  }

  /** Whether the path is that of a commit file, directly below a `_delta_log`. */
  def isCommit(path: Path): Boolean =
    path.getParent != null && path.getParent.getName == LogFolder &&
      apply(path.getName).isInstanceOf[Commit]
}
