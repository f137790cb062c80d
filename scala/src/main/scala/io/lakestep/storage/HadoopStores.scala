package io.lakestep.storage

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import io.lakestep.Errors

/**
 * Stores by scheme: `file` is the local disk, `hdfs`, S3, Azure and Google's storage go through
 * Hadoop, and everything else is refused, because a file system that silently replaces files would
 * lose commits.
 *
 * @param durable whether files on the local disk are forced to the device
 */
final class HadoopStores(configuration: Configuration, durable: Boolean = true)
    extends ObjectStores {

  private val local = new LocalStore(durable)
  private val remote = new ConcurrentHashMap[StoreKind, ObjectStore]

  private def defaultScheme: String =
    Option(FileSystem.getDefaultUri(configuration).getScheme).getOrElse("file")

  override def forPath(path: String): ObjectStore = {
    val scheme = StoreKind.schemeOf(path).getOrElse(defaultScheme)
    StoreKind.of(scheme).filter(_.serves(scheme, configuration)) match {
      case Some(StoreKind.Local) => local
      case Some(kind) =>
        if (kind == StoreKind.Hdfs) HdfsStore.checkReads(configuration, path)
        remote.computeIfAbsent(kind, made)
      case None =>
        throw Errors(
          "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
          "path" -> path,
          "reason" -> s"Lakestep knows no atomic create for the scheme $scheme"
        )
    }
  }

  private def made(kind: StoreKind): ObjectStore = kind match {
    case StoreKind.Local => local
    case StoreKind.Hdfs => new HdfsStore(configuration)
    case StoreKind.S3 => new S3Store(configuration)
    case StoreKind.Azure => new AbfsStore(configuration)
    case StoreKind.Google => new GcsStore(configuration)
  }
}

object HadoopStores {

  /** Whether folders are more than the beginnings of names. */
  def hasFolders(fs: FileSystem): Boolean = !StoreKind.S3.schemes(fs.getUri.getScheme)

  /** A file whole, where one request can tell; None where it cannot, or where the file is longer than 8 MiB. */
  def inOneRequest(fs: FileSystem, file: Path): Option[Array[Byte]] =
    if (hasFolders(fs)) None else S3Store.small(fs, file, most = 8 << 20)

  /** Whether there is a file, by one request where that can be had. */
  def hasFile(fs: FileSystem, file: Path): Boolean =
    if (hasFolders(fs)) fs.exists(file) else S3Store.hasFile(fs, file)

  /** Whether there is a folder: on S3, where the names of its files say so, by one request. */
  def hasFolder(fs: FileSystem, folder: Path): Boolean =
    if (hasFolders(fs)) fs.exists(folder) else S3Store.hasFolder(fs, folder)

  /** On S3, where a log is no folder: whether it has any commit or checkpoint, by one request. */
  def hasLog(fs: FileSystem, log: Path): Boolean = S3Store.hasLog(fs, log)
}
