package io.lakestep.storage

import scala.collection.mutable.ArrayBuffer
import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path, RemoteIterator}
import org.apache.hadoop.fs.s3a.{Listing, S3AFileSystem, S3ListRequest}
import org.apache.hadoop.fs.s3a.audit.AuditSpanS3A

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

  private def listed(
      s3a: S3AFileSystem,
      qualified: Path,
      from: String,
      span: AuditSpanS3A): Option[Array[FileStatus]] = {
    val listing = s3a.getListing
    val prefix = s"${s3a.pathToKey(qualified)}/"
    val whole = listing.createListObjectsRequest(prefix, "/", span)
    Option.unless(whole.isV1) {
      // Exclusive: the name itself is to be in it.
      val after = whole.getV2.toBuilder.startAfter(prefix + from.init).build()
      // Its own type is not public before Hadoop 3.5.
      val found: RemoteIterator[_ <: FileStatus] = listing.createFileStatusListingIterator(
        qualified,
        S3ListRequest.v2(after),
        (path: Path) => path.getName >= from,
        new Listing.AcceptAllButSelfAndS3nDirs(qualified),
        span
      )
      val statuses = ArrayBuffer.empty[FileStatus]
      while (found.hasNext) statuses += found.next()
      statuses.toArray
    }
  }

  /** S3 Express lists in no order, and knows no `start-after`. */
  private val Unordered = "fs.s3a.capability.s3express.storage"
}
