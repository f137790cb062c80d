package io.lakestep.overlay

import org.apache.hadoop.fs.Path

import io.lakestep.storage.TemporaryFiles

/** Where in a table an overlay path points; decided by its text alone. */
private[overlay] sealed trait LogPlace

private[overlay] object LogPlace {

  /** Outside any log: data, change files, deletion vectors, and every folder above a log. */
  final case class Data(base: Path) extends LogPlace

  /** A `_delta_log` folder itself. */
  final case class Log(log: Path) extends LogPlace

  /** Directly below a log. */
  final case class InLog(log: Path, name: String) extends LogPlace {
    def base: Path = new Path(log, name)
  }

  /** Further below a log, in the folder `top`. */
  final case class DeepInLog(log: Path, top: String, base: Path) extends LogPlace

  /** The last `_delta_log` of a path counts: a table may lie below a folder of that name. */
  def of(base: Path): LogPlace = {
    def up(path: Path, below: List[String]): LogPlace =
      if (path == null || path.getName.isEmpty) Data(base)
      else if (path.getName == TemporaryFiles.LogFolder) below match {
        case Nil => Log(path)
        case name :: Nil => InLog(path, name)
        case top :: _ => DeepInLog(path, top, base)
      }
      else up(path.getParent, path.getName :: below)
    up(base, Nil)
  }
}
