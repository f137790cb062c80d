package io.lakestep.storage

import java.io.{FileNotFoundException, IOException, UncheckedIOException}
import java.nio.file.AccessDeniedException

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileStatus, FileSystem, Path}

/**
 * S3 by Hadoop's s3a: S3 itself creates an object only if there is none (`If-None-Match: *`).
 *
 * `create(path, false)` of s3a would not do: it looks, and then puts without a condition.
 */
final class S3Store(configuration: Configuration) extends ConditionalStore(configuration) {

  override protected def listed(fs: FileSystem, folder: Path, from: String): Array[FileStatus] =
    S3Store.listFrom(fs, folder, from)

  override protected def content(fs: FileSystem, file: Path): Array[Byte] =
    S3Store.orElse(S3Object(fs, file))(super.content(fs, file))

  override protected def isFile(fs: FileSystem, file: Path): Boolean =
    S3Store.hasFile(fs, file)

  /** By its key: s3a's own looks for the file before, and for the folder afterwards. */
  override protected def remove(fs: FileSystem, file: Path): Unit =
    S3Store.removeAll(fs, file.getParent, Seq(file))

  override protected def removeFolder(fs: FileSystem, folder: Path): Unit = {
    val found = S3Store.orElse(S3Listing.below(fs, folder))(S3Store.below(fs, folder))
    S3Store.removeAll(fs, folder, found)
  }

  override protected def bucket(fs: FileSystem): String =
    s"${fs.getUri} ${configuration.get("fs.s3a.endpoint", "")}"

  override protected def abandon(out: FSDataOutputStream): Unit = {
    out.abort()
    ()
  }

  override protected def open(fs: FileSystem, target: Path): FSDataOutputStream =
    try
      fs.createFile(target).overwrite(true).recursive()
        .must("fs.option.create.conditional.overwrite", true).build()
    catch {
      case e: IllegalArgumentException =>
        val reason = "this version of s3a has no conditional create; Hadoop 3.4.2 or later has"
        throw withoutPutIfAbsent(target.toString, reason, e)
    }
}

private[lakestep] object S3Store {

  /** Whether there is a file, by one request. */
  def hasFile(fs: FileSystem, file: Path): Boolean =
    orElse(S3Object.exists(fs, file))(fs.exists(file))

  /** Whether anything is in a folder, by one request. */
  def hasFolder(fs: FileSystem, folder: Path): Boolean =
    orElse(S3Listing.hasAny(fs, folder))(fs.exists(folder))

  /** Whether a log has any commit or checkpoint, by one request where that can be had. */
  def hasLog(fs: FileSystem, log: Path): Boolean =
    orElse(S3Listing.hasNumbered(fs, log))(
      fs.exists(log) && fs.listStatus(log).exists(s => s.isFile && s.getPath.getName.head.isDigit)
    )

  /** A file whole, by one request; None where that cannot be had, or where it is longer. */
  def small(fs: FileSystem, file: Path, most: Int): Option[Array[Byte]] =
    ifAny(S3Object(fs, file, most))

  /** The files at any depth below a folder. */
  private def below(fs: FileSystem, folder: Path): Vector[Path] = {
    val files = Vector.newBuilder[Path]
    try {
      val found = fs.listFiles(folder, true)
      while (found.hasNext) files += found.next().getPath
    } catch { case _: FileNotFoundException => () }
    files.result()
  }

  /** Removes files of a folder, all that it can, by as few requests as the store permits. */
  private def removeAll(fs: FileSystem, folder: Path, files: Seq[Path]): Unit =
    if (files.nonEmpty)
      try
        Using.resource(fs.createBulkDelete(fs.makeQualified(folder))) { bulk =>
          val failed = files.map(fs.makeQualified(_)).grouped(bulk.pageSize).toVector
            .flatMap(page => bulk.bulkDelete(page.asJava).asScala)
          failed.headOption.foreach { one =>
            val reason = s"${one.getKey}: ${one.getValue}"
            throw if (reason.contains("AccessDenied")) new AccessDeniedException(reason)
            else new IOException(reason)
          }
        }
      catch { case e: UncheckedIOException => throw e.getCause }

  /** What stands in a folder from a name on; FileNotFoundException if there is no such folder. */
  def listFrom(fs: FileSystem, folder: Path, from: String): Array[FileStatus] =
    orElse(S3Listing(fs, folder, from))(HadoopStore.listFrom(fs, folder, from))

  /** The internals of s3a are others in another version. */
  private def orElse[A](byKey: => Option[A])(asAny: => A): A = ifAny(byKey).getOrElse(asAny)

  private def ifAny[A](byKey: => Option[A]): Option[A] =
    try byKey
    catch { case _: LinkageError => None }
}
