package io.lakestep.storage

import java.io.FileNotFoundException

import scala.util.Using

import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.fs.s3a.{Invoker, S3AFileSystem, S3ARetryPolicy}

/**
 * An object of S3 by one GET. s3a's `open` asks HEAD first, and a stream that is given a status may
 * answer from what it kept: what may have changed must be asked for, and one answer does.
 */
private[storage] object S3Object {

  /**
   * Its whole content, or None where s3a must decrypt it, or where it is longer than `most`;
   * FileNotFoundException if there is none.
   */
  def apply(fs: FileSystem, file: Path, most: Int = Int.MaxValue): Option[Array[Byte]] = fs match {
    case s3a: S3AFileSystem if !s3a.isCSEEnabled =>
      val qualified = s3a.makeQualified(file)
      Using.resource(s3a.createSpan("op_open", qualified.toString, null)) { _ =>
        val key = s3a.pathToKey(qualified)
        val request = s3a.getRequestFactory.newGetObjectRequestBuilder(key).build()
        val client = s3a.getS3AInternals.getAmazonS3Client("Lakestep reads a file whole")
        retried(s3a, qualified) {
          Using.resource(client.getObject(request)) { content =>
            val isLonger = Option(content.response.contentLength).exists(_ > most)
            if (isLonger) content.abort()
            Option.unless(isLonger)(content.readAllBytes())
          }
        }
      }
    case _ => None
  }

  /** What asks the client, repeated as s3a repeats its own; what fails is what s3a would throw. */
  def retried[A](s3a: S3AFileSystem, path: Path)(ask: => A): A =
    new Invoker(new S3ARetryPolicy(s3a.getConf), Invoker.NO_OP)
      .retry("read", path.toString, true, () => ask)

  /** Whether it is there, by one HEAD; None where that cannot be asked. */
  def exists(fs: FileSystem, file: Path): Option[Boolean] = fs match {
    case s3a: S3AFileSystem =>
      try {
        s3a.getS3AInternals.getObjectMetadata(file)
        Some(true)
      } catch { case _: FileNotFoundException => Some(false) }
    case _ => None
  }
}
