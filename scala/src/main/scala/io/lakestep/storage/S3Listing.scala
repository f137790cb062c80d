package io.lakestep.storage

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path, RemoteIterator}
import org.apache.hadoop.fs.s3a.{Listing, S3AFileSystem, S3ListRequest}
import org.apache.hadoop.fs.s3a.audit.AuditSpanS3A
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request

/**
 * A listing of S3 that begins at a name (`start-after`). s3a's own lists a folder whole, a thousand
 * files a request, and a timeline grows by two with every commit.
 *
 * Source: Delta, `S3LogStoreUtil`, which goes into folders below as well.
 */
private[storage] object S3Listing {

  /**
   * What stands in the folder from the name on, also of a server that knows no `start-after`. None
   * where s3a cannot be asked so.
   */
  def apply(fs: FileSystem, folder: Path, from: String): Option[Array[FileStatus]] = fs match {
    case s3a: S3AFileSystem if from.nonEmpty && !s3a.hasPathCapability(folder, Unordered) =>
      Using.resource(s3a.createSpan("op_list_status", folder.toString, null)) { span =>
        listed(s3a, s3a.makeQualified(folder), from, span)
      }
    case _ => None
  }

  /** Whether anything is in the folder, by one request; None where s3a cannot be asked so. */
  def hasAny(fs: FileSystem, folder: Path): Option[Boolean] = fs match {
    case s3a: S3AFileSystem =>
      Using.resource(s3a.createSpan("op_exists", folder.toString, null)) { span =>
        asked(s3a, s3a.makeQualified(folder), Slash, span).map { request =>
          val client = s3a.getS3AInternals.getAmazonS3Client("Lakestep looks for a folder")
          val one = request.maxKeys(1).build()
          val found = S3Object.retried(s3a, folder)(client.listObjectsV2(one))
          !found.contents.isEmpty || !found.commonPrefixes.isEmpty || found.isTruncated
        }
      }
    case _ => None
  }

  /**
   * Whether the folder has a file whose name begins with a digit, as commits and checkpoints do, and nothing
   * else in a log, by one request; None where s3a, or the server, cannot be asked so.
   */
  def hasNumbered(fs: FileSystem, folder: Path): Option[Boolean] = fs match {
    case s3a: S3AFileSystem if !s3a.hasPathCapability(folder, Unordered) =>
      val qualified = s3a.makeQualified(folder)
      Using.resource(s3a.createSpan("op_exists", folder.toString, null)) { span =>
        asked(s3a, qualified, Slash, span).flatMap { request =>
          val client = s3a.getS3AInternals.getAmazonS3Client("Lakestep looks for a log")
          val prefix = s"${s3a.pathToKey(qualified)}/"
          // In the order of names a slash, which is in none, stands between dots and digits.
          val first = request.maxKeys(1).startAfter(prefix + Slash).build()
          val found = S3Object.retried(s3a, folder)(client.listObjectsV2(first))
          val names = found.contents.asScala.map(_.key.stripPrefix(prefix))
          // A server that knows no `start-after` has shown what comes before.
          Option.unless(names.exists(_ < "0"))(names.exists(_.head.isDigit))
        }
      }
    case _ => None
  }

  /** The files at any depth below a folder, a thousand a request; None where s3a cannot be asked so. */
  def below(fs: FileSystem, folder: Path): Option[Vector[Path]] = fs match {
    case s3a: S3AFileSystem =>
      val qualified = s3a.makeQualified(folder)
      Using.resource(s3a.createSpan("op_list_files", folder.toString, null)) { span =>
        asked(s3a, qualified, delimiter = null, span).map { request =>
          val client = s3a.getS3AInternals.getAmazonS3Client("Lakestep deletes a folder")
          val prefix = s"${s3a.pathToKey(qualified)}/"
          S3Object.retried(s3a, folder) {
            client.listObjectsV2Paginator(request.build()).contents.asScala.map(_.key).toVector
          }.filterNot(_.endsWith(Slash)).map(key => new Path(qualified, key.stripPrefix(prefix)))
        }
      }
    case _ => None
  }

  private def listed(
      s3a: S3AFileSystem,
      qualified: Path,
      from: String,
      span: AuditSpanS3A): Option[Array[FileStatus]] = {
    asked(s3a, qualified, Slash, span).map { request =>
      // Exclusive: the name itself is to be in it.
      val after = s"${s3a.pathToKey(qualified)}/${from.init}"
      // Its own type is not public before Hadoop 3.5.
      val found: RemoteIterator[_ <: FileStatus] = s3a.getListing.createFileStatusListingIterator(
        qualified,
        S3ListRequest.v2(request.startAfter(after).build()),
        (path: Path) => path.getName >= from,
        new Listing.AcceptAllButSelfAndS3nDirs(qualified),
        span
      )
      val statuses = ArrayBuffer.empty[FileStatus]
      while (found.hasNext) statuses += found.next()
      statuses.toArray
    }
  }

  private def asked(
      s3a: S3AFileSystem,
      qualified: Path,
      delimiter: String,
      span: AuditSpanS3A): Option[ListObjectsV2Request.Builder] = {
    val prefix = s"${s3a.pathToKey(qualified)}/"
    val whole = s3a.getListing.createListObjectsRequest(prefix, delimiter, span)
    Option.unless(whole.isV1)(whole.getV2.toBuilder)
  }

  private val Slash = "/"

  /** S3 Express lists in no order, and knows no `start-after`. */
  private val Unordered = "fs.s3a.capability.s3express.storage"
}
