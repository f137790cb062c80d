package io.lakestep.storage

import java.io.IOException
import java.util.Locale

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

/**
 * What there is to know of the stores that paths name by their scheme.
 *
 * @param schemes as Hadoop spells them
 * @param classes the file systems that our store was made for, as others of a scheme may create files
 *   as they like; any, where there are none
 * @param isAtomicWithDelta whether Delta's own log store creates a commit file only if there is none
 * @param mustBeVouchedFor whether somebody has to say that no client without Lakestep writes there
 */
sealed abstract class StoreKind(
    val schemes: Set[String],
    classes: Set[String],
    val isAtomicWithDelta: Boolean,
    val mustBeVouchedFor: Boolean) {

  /** Whether our store serves what Hadoop is configured to use for a scheme of this kind. */
  def serves(scheme: String, configuration: Configuration): Boolean = classes.isEmpty || {
    try classes(FileSystem.getFileSystemClass(scheme, configuration).getName)
    catch { case _: IOException => false }
  }
}

object StoreKind {

  case object Local extends StoreKind(
        Set("file"),
        Set.empty,
        isAtomicWithDelta = false,
        mustBeVouchedFor = false
      )

  case object Hdfs extends StoreKind(
        Set("hdfs"),
        Set.empty,
        isAtomicWithDelta = false,
        mustBeVouchedFor = false
      )

  case object S3 extends StoreKind(
        Set("s3a", "s3"),
        Set("org.apache.hadoop.fs.s3a.S3AFileSystem"),
        isAtomicWithDelta = false,
        mustBeVouchedFor = true
      )

  case object Azure extends StoreKind(
        Set("abfs", "abfss"),
        Set("AzureBlobFileSystem", "SecureAzureBlobFileSystem")
          .map("org.apache.hadoop.fs.azurebfs." + _),
        isAtomicWithDelta = true,
        mustBeVouchedFor = false
      )

  case object Google extends StoreKind(
        Set("gs"),
        Set("com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"),
        isAtomicWithDelta = true,
        mustBeVouchedFor = false
      )

  val all: Vector[StoreKind] = Vector(Local, Hdfs, S3, Azure, Google)

  /** Every scheme that some store serves. */
  val schemes: Set[String] = all.flatMap(_.schemes).toSet

  def of(scheme: String): Option[StoreKind] = all.find(_.schemes(scheme))

  /** Of a path that has a scheme. */
  def of(path: Path): Option[StoreKind] = Option(path.toUri.getScheme).flatMap(of)

  /** The scheme of a path in lower case, or nothing for an absolute path. */
  def schemeOf(path: String): Option[String] =
    path.indexOf(':') match {
      case colon if colon > 0 && !path.take(colon).contains('/') =>
        Some(path.take(colon).toLowerCase(Locale.ROOT))
      case _ => None
    }

  private[storage] val HdfsPort = 8020

  /**
   * The one spelling of a qualified path that has several: `s3a` for `s3`, where s3a serves both,
   * `abfss` for `abfs`, and HDFS without its default port.
   */
  def withoutAlias(path: Path, configuration: Configuration): Path = {
    val uri = path.toUri
    def respelt(scheme: String, authority: String) = new Path(scheme, authority, uri.getPath)
    Option(uri.getScheme).map(_.toLowerCase(Locale.ROOT)) match {
      case Some("s3") if S3.schemes.forall(S3.serves(_, configuration)) =>
        respelt("s3a", uri.getAuthority)
      case Some("abfs") => respelt("abfss", uri.getAuthority)
      case Some("hdfs") if uri.getPort == HdfsPort => respelt("hdfs", uri.getHost)
      case _ => path
    }
  }
}
