package io.lakestep.log

import io.lakestep.storage.TemporaryFiles.OwnFolder

/** What a name directly below `_delta_log` stands for. */
sealed trait LogFileName {

  /** Whether such a file is mostly small, and read from its beginning to its end. */
  def isSmall: Boolean = this match {
    case _: LogFileName.Commit | _: LogFileName.Derived | LogFileName.LastCheckpoint => true
    case _ => false
  }
}

object LogFileName {

  /** `<version>.json` */
  final case class Commit(version: Long) extends LogFileName

  /** A checkpoint of any form, or one part of it. */
  final case class Checkpoint(version: Long) extends LogFileName

  /** Any other file about the versions up to this one: `.crc`, `<from>.<to>.compacted.json`, … */
  final case class Derived(version: Long) extends LogFileName

  /** The hint that names the newest checkpoint. */
  case object LastCheckpoint extends LogFileName

  /** Never shown through an overlay: our own folder, unfinished and coordinated commits. */
  case object Hidden extends LogFileName

  /** Shown as it is: files and folders that are not about one version, such as `_sidecars`. */
  case object Other extends LogFileName

  val SidecarFolder = "_sidecars"

  private val CommitName = "([0-9]{1,20})\\.json".r
  private val CheckpointName = "([0-9]{1,20})\\.checkpoint(?:\\..*)?\\.(?:parquet|json)".r
  private val CompactedName = "[0-9]{1,20}\\.([0-9]{1,20})\\.compacted\\..*".r
  private val DerivedName = "([0-9]{1,20})\\..*".r

  def apply(name: String): LogFileName = name match {
    case CommitName(v) => number(v).fold[LogFileName](Hidden)(Commit)
    case CheckpointName(v) => number(v).fold[LogFileName](Hidden)(Checkpoint)
    case CompactedName(v) => number(v).fold[LogFileName](Hidden)(Derived)
    case DerivedName(v) => number(v).fold[LogFileName](Hidden)(Derived)
    case "_last_checkpoint" => LastCheckpoint
    case OwnFolder | "_staged_commits" => Hidden
    case dotted if dotted.startsWith(".") => Hidden
    case _ => Other
  }

  private def number(digits: String): Option[Long] = digits.toLongOption

  /** The file name of a commit. */
  def commitName(version: Long): String = f"$version%020d.json"

  /** The version of a commit file. */
  def version(commit: String): Long = apply(commit) match {
    case Commit(version) => version
    case _ => throw new IllegalArgumentException(s"$commit is no commit file")
  }
}
