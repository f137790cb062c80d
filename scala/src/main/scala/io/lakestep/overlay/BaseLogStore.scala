package io.lakestep.overlay

import java.io.FileNotFoundException
import java.lang.{Boolean => JBoolean}
import java.util.{Iterator => JIterator}

import io.delta.storage.{
  AzureLogStore, CloseableIterator, GCSLogStore, HDFSLogStore, LogStore, S3SingleDriverLogStore
}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import io.lakestep.storage.ObjectStores

/**
 * Delta's log store for the schemes of base tables: Delta's own, except that a commit file is
 * created by our put-if-absent, and only if `BaseWriteGuard` lets it.
 *
 * Delta's own looks whether the file exists and then renames over it, so that two processes on one
 * disk can both believe to have made a version.
 */
class BaseLogStore(configuration: Configuration) extends LogStore(configuration) {

  private val onFiles = new HDFSLogStore(configuration)
  private lazy val onS3 = new S3SingleDriverLogStore(configuration)
  private lazy val onAzure = new AzureLogStore(configuration)
  private lazy val onGoogle = new GCSLogStore(configuration)

  /** Delta's own store for a path. */
  private def delta(path: Path): LogStore =
    path.toUri.getScheme match {
      case null => onFiles
      case s if ObjectStores.S3Schemes(s) => onS3
      case s if ObjectStores.AzureSchemes(s) => onAzure
      case "gs" => onGoogle
      case _ => onFiles
    }

  override def read(path: Path, hadoopConf: Configuration): CloseableIterator[String] =
    delta(path).read(path, hadoopConf)

  override def write(
      path: Path,
      actions: JIterator[String],
      overwrite: JBoolean,
      hadoopConf: Configuration): Unit =
    if (overwrite || !LogEntry.isCommit(path))
      delta(path).write(path, actions, overwrite, hadoopConf)
    else {
      BaseWriteGuard.check(path)
      val fs = path.getFileSystem(hadoopConf)
      if (!fs.exists(path.getParent))
        throw new FileNotFoundException(s"No such file or directory: ${path.getParent}")
      CommitFile.create(fs.makeQualified(path), path, actions, hadoopConf)
    }

  override def listFrom(path: Path, hadoopConf: Configuration): JIterator[FileStatus] = {
    BaseWriteGuard.checkList(path)
    delta(path).listFrom(path, hadoopConf)
  }

  override def resolvePathOnPhysicalStorage(path: Path, hadoopConf: Configuration): Path =
    delta(path).resolvePathOnPhysicalStorage(path, hadoopConf)

  override def isPartialWriteVisible(path: Path, hadoopConf: Configuration): JBoolean =
    delta(path).isPartialWriteVisible(path, hadoopConf)
}
