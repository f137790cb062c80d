package io.lakestep.storage

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

  /** What stands in a folder from a name on; FileNotFoundException if there is no such folder. */
  def listFrom(fs: FileSystem, folder: Path, from: String): Array[FileStatus] = {
    def whole = HadoopStore.listFrom(fs, folder, from)
    try S3Listing(fs, folder, from).getOrElse(whole)
    // The internals of s3a are others in another version.
    catch { case _: LinkageError => whole }
  }
}
