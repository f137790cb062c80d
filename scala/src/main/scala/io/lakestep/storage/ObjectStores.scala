package io.lakestep.storage

import java.io.IOException
import java.util.Locale
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import io.lakestep.{Errors, LakestepException}

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
  val AzureSchemes: Set[String] = Set("abfs", "abfss")

  /** Every scheme that some store serves. */
  val Schemes: Set[String] = S3Schemes ++ AzureSchemes ++ Set("file", "hdfs", "gs")

  /** The file systems that the stores were made for; others of a scheme may create as they like. */
  private val Classes: Map[String, Set[String]] = Map(
    "s3" -> Set("org.apache.hadoop.fs.s3a.S3AFileSystem"),
    "abfs" -> Set("AzureBlobFileSystem", "SecureAzureBlobFileSystem")
      .map("org.apache.hadoop.fs.azurebfs." + _),
    "gs" -> Set("com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem")
  )

  private[storage] def isServed(kind: String, scheme: String, configuration: Configuration) =
    try Classes(kind)(FileSystem.getFileSystemClass(scheme, configuration).getName)
    catch { case _: IOException => false }

  private val HdfsPort = 8020

  /**
   * The one spelling of a qualified path that has several: `s3a` for `s3`, where s3a serves both,
   * `abfss` for `abfs`, and HDFS without its default port.
   */
  def withoutAlias(path: Path, configuration: Configuration): Path = {
    val uri = path.toUri
    def respelt(scheme: String, authority: String) = new Path(scheme, authority, uri.getPath)
    Option(uri.getScheme).map(_.toLowerCase(Locale.ROOT)) match {
      case Some("s3") if Seq("s3", "s3a").forall(isServed("s3", _, configuration)) =>
        respelt("s3a", uri.getAuthority)
      case Some("abfs") => respelt("abfss", uri.getAuthority)
      case Some("hdfs") if uri.getPort == HdfsPort => respelt("hdfs", uri.getHost)
      case _ => path
    }
  }

  /** The scheme of a path in lower case, or nothing for an absolute path. */
  def schemeOf(path: String): Option[String] =
    path.indexOf(':') match {
      case colon if colon > 0 && !path.take(colon).contains('/') =>
        Some(path.take(colon).toLowerCase(Locale.ROOT))
      case _ => None
    }
}

/**
 * Stores by scheme: `file` is the local disk, `hdfs`, S3, Azure and Google's storage go through
 * Hadoop, and everything else is refused, because a file system that silently replaces files would
 * lose commits.
 *
 * @param durable whether files on the local disk are forced to the device
 */
final class HadoopObjectStores(configuration: Configuration, durable: Boolean = true)
    extends ObjectStores {

  private val local = new LocalStore(durable)
  private val remote = new ConcurrentHashMap[String, ObjectStore]

  private def defaultScheme: String =
    Option(FileSystem.getDefaultUri(configuration).getScheme).getOrElse("file")

  /** Whether `forPath` finds a store. */
  def serves(path: String): Boolean =
    try {
      forPath(path)
      true
    } catch {
      case e: LakestepException if e.getCondition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT" => false
    }

  override def forPath(path: String): ObjectStore = {
    val scheme = ObjectStores.schemeOf(path).getOrElse(defaultScheme)
    def isServed(kind: String) = ObjectStores.isServed(kind, scheme, configuration)
    scheme match {
      case "file" => local
      case "hdfs" =>
        HdfsStore.checkReads(configuration, path)
        remote.computeIfAbsent("hdfs", _ => new HdfsStore(configuration))
      case s if ObjectStores.S3Schemes(s) && isServed("s3") =>
        remote.computeIfAbsent("s3", _ => new S3Store(configuration))
      case s if ObjectStores.AzureSchemes(s) && isServed("abfs") =>
        remote.computeIfAbsent("abfs", _ => new AbfsStore(configuration))
      case "gs" if isServed("gs") =>
        remote.computeIfAbsent("gs", _ => new GcsStore(configuration))
      case other =>
        throw Errors(
          "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
          "path" -> path,
          "reason" -> s"Lakestep knows no atomic create for the scheme $other"
        )
    }
  }
}
