package io.lakestep.overlay

import org.apache.hadoop.fs.{FileStatus, LocatedFileStatus, Path}
import org.apache.hadoop.fs.permission.FsPermission

/**
 * The status of a base file under its overlay path.
 *
 * Owner, group and permission stay with the base status and are asked for only when needed: the
 * local file system finds them by starting a process.
 */
private[overlay] final class OverlayStatus(val base: FileStatus, path: Path)
    extends FileStatus(
      base.getLen,
      base.isDirectory,
      base.getReplication.toInt,
      base.getBlockSize,
      base.getModificationTime,
      base.getAccessTime,
      null,
      null,
      null,
      null,
      path,
      base.hasAcl,
      base.isEncrypted,
      base.isErasureCoded
    ) {
  override def getPermission: FsPermission = base.getPermission
  override def getOwner: String = base.getOwner
  override def getGroup: String = base.getGroup
}

/** As `OverlayStatus`, with the base file's own block locations. */
private[overlay] final class OverlayLocatedStatus(val base: LocatedFileStatus, path: Path)
    extends LocatedFileStatus(
      base.getLen,
      base.isDirectory,
      base.getReplication.toInt,
      base.getBlockSize,
      base.getModificationTime,
      base.getAccessTime,
      null,
      null,
      null,
      null,
      path,
      base.hasAcl,
      base.isEncrypted,
      base.isErasureCoded,
      base.getBlockLocations
    ) {
  override def getPermission: FsPermission = base.getPermission
  override def getOwner: String = base.getOwner
  override def getGroup: String = base.getGroup
}

private[overlay] object OverlayStatus {

  def apply(base: FileStatus, path: Path): FileStatus = base match {
    case located: LocatedFileStatus => new OverlayLocatedStatus(located, path)
    case other => new OverlayStatus(other, path)
  }

  /** The base status behind one of these. */
  def base(status: FileStatus): FileStatus = status match {
    case overlay: OverlayStatus => overlay.base
    case overlay: OverlayLocatedStatus => overlay.base
    case other => other
  }

  private val BlockSizeBytes = 1L << 20

  /** A folder, or an empty file, that exists only in the view. */
  def virtual(path: Path, isFolder: Boolean): FileStatus =
    new FileStatus(0L, isFolder, 1, BlockSizeBytes, 0L, path)
}
