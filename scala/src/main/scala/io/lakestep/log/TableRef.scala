package io.lakestep.log

import java.nio.ByteBuffer
import java.util.UUID

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.storage.{StoreKind, TemporaryFiles}
import scala.annotation.tailrec

/**
 * The address of a table, in one spelling; and, of all code, the only place that knows where the files
 * of a table lie, those of its log, and Lakestep's own in it. Every result is a path for an
 * `ObjectStore`.
 *
 * @param uri without a slash at its end; `file:///a` is `file:/a`
 */
final class TableRef private (val uri: String) {

  def log: String = s"$uri/${TemporaryFiles.LogFolder}"

  def slot(version: Long): String = s"$log/${LogFileName.commitName(version)}"

  /** The folder around a managed table that a transaction has made. */
  def ownParent: Option[String] = uri.split('/').toVector match {
    case folders @ _ :+ parent :+ _ if TableRef.isOwnParent(parent) =>
      Some(folders.init.mkString("/"))
    case _ => None
  }

  /** The folder with one folder for each segment, and with the binding. */
  def ownFolder: String = s"$log/${TemporaryFiles.OwnFolder}"

  /** The one file that says which timeline the table belongs to. */
  def binding: String = s"$ownFolder/timeline.json"

  /** Where the temporary files of stores stand, for whatever is put into the log or below it. */
  def temporary: String = s"$ownFolder/${TemporaryFiles.Folder}"

  /** The folder with the staged commits of a segment. */
  def staging(segment: String): String = s"$ownFolder/$segment"

  def stagedSlot(segment: String, version: Long): String =
    s"${staging(segment)}/${LogFileName.commitName(version)}"

  /** The net actions of a segment, by their hash. */
  def netActions(segment: String, hash: String): String =
    s"${staging(segment)}/${TableRef.NetActions}$hash.json"

  /** Says which copy of the log was made for a named snapshot. */
  def kept(snapshot: String): String = s"$keptFolder/$snapshot.json"

  def keptFolder: String = s"$ownFolder/${TableRef.Kept}"

  /** The folder of such a copy. */
  def keptCopy(copy: String): String = s"$keptFolder/$copy"

  /** The data file that a `path` of an action names. */
  def dataFile(actionPath: String): String =
    if (StoreKind.schemeOf(actionPath).isDefined) actionPath
    else if (actionPath.startsWith("/")) plain(actionPath)
    else s"$uri/${plain(actionPath)}"

  /**
   * The table's folders that hold the names of folders on the way to a file: new partitions, for
   * example. None for a file in the table's own folder, or outside of it.
   */
  def foldersAbove(file: String): Vector[String] =
    if (!file.startsWith(s"$uri/")) Vector.empty
    else {
      val folders = file.drop(uri.length + 1).split('/').dropRight(1).toVector
      folders.inits.drop(1).map(inner => (uri +: inner).mkString("/")).toVector
    }

  /** The file of a deletion vector; nothing for one that is kept inside the log. */
  def deletionVectorFile(dv: ObjectNode): Option[String] = {
    val text = dv.path("pathOrInlineDv").asText
    dv.path("storageType").asText match {
      case "p" => Some(dataFile(text))
      case "u" if text.length >= 20 =>
        val (prefix, encoded) = text.splitAt(text.length - 20)
        val folder = if (prefix.isEmpty) "" else s"$prefix/"
        Some(s"$uri/${folder}deletion_vector_${TableRef.uuid(encoded)}.bin")
      case _ => None
    }
  }

  /** Paths in actions are URL-encoded; a table path without a scheme is not. */
  private def plain(actionPath: String): String =
    if (StoreKind.schemeOf(uri).isDefined) actionPath
    else
      try Option(new java.net.URI(actionPath).getPath).getOrElse(actionPath)
      catch { case _: java.net.URISyntaxException => actionPath }

  override def equals(other: Any): Boolean = other match {
    case that: TableRef => uri == that.uri
    case _ => false
  }

  override def hashCode: Int = uri.hashCode

  /** As messages and files write it. */
  override def toString: String = uri
}

object TableRef {

  /** The scheme of a table as a transaction sees it. */
  val OverlayScheme = "lakestep"

  /** What the folders are named after in which new managed tables lie. */
  val OwnParent = "lakestep-"

  private val OwnParentName = s"$OwnParent[a-z][0-9a-f]{12}-[0-9]+".r
  private def isOwnParent(folder: String) = OwnParentName.matches(folder)

  /** What the names of net actions begin with. */
  val NetActions = "commit-"

  /** The folder of the copies of logs. */
  val Kept = "kept"

  def apply(path: String): TableRef = new TableRef(normalised(path))

  @tailrec
  private def normalised(path: String): String = {
    val short =
      if (path.startsWith("file:///")) "file:/" + path.drop("file:///".length) else path
    if (short.length > 1 && short.endsWith("/")) normalised(short.dropRight(1)) else short
  }

  private val Base85 =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

  /** Source: Delta's PROTOCOL.md, "Deletion Vector Descriptor Schema" (Z85 of a UUID). */
  private def uuid(encoded: String): UUID = {
    val bytes = ByteBuffer.allocate(16)
    encoded.grouped(5).foreach { block =>
      bytes.putInt(block.foldLeft(0L)((sum, c) => sum * 85 + Base85.indexOf(c.toInt)).toInt)
    }
    bytes.flip()
    new UUID(bytes.getLong, bytes.getLong)
  }
}
