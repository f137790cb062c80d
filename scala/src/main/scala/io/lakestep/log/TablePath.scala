package io.lakestep.log

import java.nio.ByteBuffer
import java.util.UUID

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.storage.StoreKind

/** Where the files of a table are, as paths for an `ObjectStore`. */
object TablePath {

  /** The path without a trailing slash; `file:///a` and `file:/a` are one. */
  def normalise(path: String): String = {
    val short =
      if (path.startsWith("file:///")) "file:/" + path.drop("file:///".length) else path
    if (short.length > 1 && short.endsWith("/")) normalise(short.dropRight(1)) else short
  }

  def log(table: String): String = s"${normalise(table)}/_delta_log"

  def slot(table: String, version: Long): String = s"${log(table)}/${slotName(version)}"

  def slotName(version: Long): String = f"$version%020d.json"

  /** The one file that says which timeline the table belongs to. */
  def binding(table: String): String = s"${log(table)}/_lakestep/timeline.json"

  /** The folder with one folder for each segment. */
  def stagings(table: String): String = s"${log(table)}/_lakestep"

  /** Where the temporary files of stores stand, for whatever is put into the log or below it. */
  def temporary(table: String): String = s"${stagings(table)}/tmp"

  /** The folder with the staged commits of a segment. */
  def staging(table: String, segment: String): String = s"${stagings(table)}/$segment"

  def stagedSlot(table: String, segment: String, version: Long): String =
    s"${staging(table, segment)}/${slotName(version)}"

  /** The net actions of a segment, by their hash. */
  def netActions(table: String, segment: String, hash: String): String =
    s"${staging(table, segment)}/commit-$hash.json"

  /** The data file that a `path` of an action names. */
  def dataFile(table: String, actionPath: String): String =
    if (StoreKind.schemeOf(actionPath).isDefined) actionPath
    else if (actionPath.startsWith("/")) plain(table, actionPath)
    else s"${normalise(table)}/${plain(table, actionPath)}"

  /**
   * The table's folders that hold the names of folders on the way to a file: new partitions, for
   * example. None for a file in the table's own folder, or outside of it.
   */
  def foldersAbove(table: String, file: String): Vector[String] = {
    val top = normalise(table)
    if (!file.startsWith(s"$top/")) Vector.empty
    else {
      val folders = file.drop(top.length + 1).split('/').dropRight(1).toVector
      folders.inits.drop(1).map(inner => (top +: inner).mkString("/")).toVector
    }
  }

  /** The file of a deletion vector; nothing for one that is kept inside the log. */
  def deletionVectorFile(table: String, dv: ObjectNode): Option[String] = {
    val text = dv.path("pathOrInlineDv").asText
    dv.path("storageType").asText match {
      case "p" => Some(dataFile(table, text))
      case "u" if text.length >= 20 =>
        val (prefix, encoded) = text.splitAt(text.length - 20)
        val folder = if (prefix.isEmpty) "" else s"$prefix/"
        Some(s"${normalise(table)}/${folder}deletion_vector_${uuid(encoded)}.bin")
      case _ => None
    }
  }

  /** Paths in actions are URL-encoded; a table path without a scheme is not. */
  private def plain(table: String, actionPath: String): String =
    if (StoreKind.schemeOf(table).isDefined) actionPath
    else
      try Option(new java.net.URI(actionPath).getPath).getOrElse(actionPath)
      catch { case _: java.net.URISyntaxException => actionPath }

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
