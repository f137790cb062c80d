package io.lakestep.storage

import java.io.IOException
import java.util.Locale
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileSystem

import io.lakestep.Errors

/** Finds the store that keeps a path, or refuses the path. */
trait ObjectStores {

  /**
   * The store for this path.
   *
   * Condition: LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT when no store here can create a file of that
   * scheme only if it is absent.
   */
  def forPath(path: String): ObjectStore
}

object ObjectStores {

  /** One store for every path; for tests and for roots whose store is known. */
  def single(store: ObjectStore): ObjectStores = (_: String) => store

  val S3Schemes: Set[String] = Set("s3a", "s3")
  private[storage] val S3a = "org.apache.hadoop.fs.s3a.S3AFileSystem"

  /** The scheme of a path in lower case, or nothing for an absolute path. */
  def schemeOf(path: String): Option[String] =
    path.indexOf(':') match {
      case colon if colon > 0 && !path.take(colon).contains('/') =>
        Some(path.take(colon).toLowerCase(Locale.ROOT))
      case _ => None
    }
}

/**
 * Stores by scheme: `file` is the local disk, `hdfs` and S3 go through Hadoop, and everything else is
 * refused, because a file system that silently replaces files would lose commits.
 *
 * @param durable whether files on the local disk are forced to the device
 */
final class HadoopObjectStores(configuration: Configuration, durable: Boolean = true)
    extends ObjectStores {

  private val local = new LocalStore(durable)
  private val remote = new ConcurrentHashMap[String, ObjectStore]

  private def defaultScheme: String =
    Option(FileSystem.getDefaultUri(configuration).getScheme).getOrElse("file")

  override def forPath(path: String): ObjectStore =
    ObjectStores.schemeOf(path).getOrElse(defaultScheme) match {
      case "file" => local
      case "hdfs" => remote.computeIfAbsent("hdfs", _ => new HdfsStore(configuration))
      case scheme if isS3a(scheme) =>
        remote.computeIfAbsent("s3a", _ => new S3Store(configuration))
      case other =>
        throw Errors(
          "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
          "path" -> path,
          "reason" -> s"Lakestep knows no atomic create for the scheme $other"
        )
    }

  /** Whether Hadoop's s3a serves the scheme; others that call themselves s3 may create as they like. */
  private def isS3a(scheme: String): Boolean =
    ObjectStores.S3Schemes(scheme) && {
      try FileSystem.getFileSystemClass(scheme, configuration).getName == ObjectStores.S3a
      catch { case _: IOException => false }
    }
}
