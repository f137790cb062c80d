package io.lakestep.storage

import scala.collection.mutable.ArrayBuffer
import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path, PathFilter, RemoteIterator}
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

  /** Whether anything is in the folder; None where s3a cannot be asked so. */
  def hasAny(fs: FileSystem, folder: Path): Option[Boolean] = fs match {
    case s3a: S3AFileSystem =>
      Using.resource(s3a.createSpan("op_exists", folder.toString, null)) { span =>
        found(s3a, s3a.makeQualified(folder), span, _ => true)(_.maxKeys(2)).map(_.hasNext)
      }
    case _ => None
  }

  private def listed(
      s3a: S3AFileSystem,
      qualified: Path,
      from: String,
      span: AuditSpanS3A): Option[Array[FileStatus]] = {
    // Exclusive: the name itself is to be in it.
    val after = s"${s3a.pathToKey(qualified)}/${from.init}"
    found(s3a, qualified, span, _.getName >= from)(_.startAfter(after)).map { files =>
      val statuses = ArrayBuffer.empty[FileStatus]
      while (files.hasNext) statuses += files.next()
      statuses.toArray
    }
  }

  private def found(s3a: S3AFileSystem, qualified: Path, span: AuditSpanS3A, isWanted: PathFilter)(
      asked: ListObjectsV2Request.Builder => ListObjectsV2Request.Builder)
      : Option[RemoteIterator[_ <: FileStatus]] = {
    val listing = s3a.getListing
    val whole =
      listing.createListObjectsRequest(s"${s3a.pathToKey(qualified)}/", "/", span)
    Option.unless(whole.isV1) {
      // Its own type is not public before Hadoop 3.5.
      listing.createFileStatusListingIterator(
        qualified,
        S3ListRequest.v2(asked(whole.getV2.toBuilder).build()),
        isWanted,
        new Listing.AcceptAllButSelfAndS3nDirs(qualified),
        span
      )
    }
  }

  /** S3 Express lists in no order, and knows no `start-after`. */
  private val Unordered = "fs.s3a.capability.s3express.storage"
}
