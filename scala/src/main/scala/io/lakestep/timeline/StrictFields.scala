package io.lakestep.timeline

import scala.jdk.CollectionConverters._
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.{Errors, Json, LakestepException, Versions}

/**
 * Reads the fields of a timeline file strictly.
 *
 * Condition for anything missing or of another type: LAKESTEP_TIMELINE_CORRUPT, naming the file.
 */
private[timeline] final class StrictFields(file: String, val tree: ObjectNode) {

  def string(name: String): String = optString(name).getOrElse(throw missing(name))
  def long(name: String): Long = optLong(name).getOrElse(throw missing(name))
  def int(name: String): Int = {
    val value = long(name)
    if (value.isValidInt) value.toInt else throw missing(name)
  }

  def flag(name: String): Boolean = optFlag(name).getOrElse(throw missing(name))

  def optFlag(name: String): Option[Boolean] = present(name).map { n =>
    if (n.isBoolean) n.asBoolean else throw missing(name)
  }

  def optString(name: String): Option[String] = present(name).map { n =>
    if (n.isTextual) n.asText else throw missing(name)
  }

  def optLong(name: String): Option[Long] = present(name).map(integer(name, _))

  private def integer(name: String, node: JsonNode): Long =
    if (node.canConvertToLong && node.isIntegralNumber) node.asLong else throw missing(name)

  def child(name: String): StrictFields = optChild(name).getOrElse(throw missing(name))

  def optChild(name: String): Option[StrictFields] = optObject(name).map(new StrictFields(file, _))

  /** All fields of the object, which are texts. */
  def texts: Map[String, String] = tree.fieldNames.asScala.map(n => n -> string(n)).toMap

  def optObject(name: String): Option[ObjectNode] = present(name).map {
    case o: ObjectNode => o
    case _ => throw missing(name)
  }

  def objects(name: String): Vector[ObjectNode] = elements(name).map {
    case o: ObjectNode => o
    case _ => throw missing(name)
  }

  def children(name: String): Vector[StrictFields] = objects(name).map(new StrictFields(file, _))

  def optChildren(name: String): Option[Vector[StrictFields]] =
    present(name).map(_ => children(name))

  def optStrings(name: String): Option[Vector[String]] = present(name).map(_ => strings(name))

  def strings(name: String): Vector[String] =
    elements(name).map(n => if (n.isTextual) n.asText else throw missing(name))

  /** Condition: LAKESTEP_TIMELINE_FEATURE_UNKNOWN, when the file requires more than is known. */
  def checkFeatures(required: Vector[String], known: Set[String]): Unit = {
    val unknown = required.filterNot(known)
    if (unknown.nonEmpty) throw unknownFeatures(unknown.mkString(", "))
  }

  /** The file may say which version has put it: that one knows what it needs. */
  def unknownFeatures(features: String): LakestepException = {
    val writer = present(StrictFields.Writer).filter(_.isTextual)
    Errors(
      "LAKESTEP_TIMELINE_FEATURE_UNKNOWN",
      "file" -> file,
      "features" -> features,
      "version" -> Versions.lakestep,
      "wanted" -> writer.fold("a newer version")(w => s"version ${w.asText} or a newer one")
    )
  }

  def optLongs(name: String): Vector[Long] =
    present(name).fold(Vector.empty[Long])(_ => elements(name).map(integer(name, _)))

  def longLists(name: String): Vector[Vector[Long]] =
    elements(name).map { list =>
      if (list.isArray) list.elements.asScala.map(integer(name, _)).toVector
      else throw missing(name)
    }

  private def elements(name: String): Vector[JsonNode] =
    present(name).filter(_.isArray).getOrElse(throw missing(name)).elements.asScala.toVector

  private def present(name: String): Option[JsonNode] =
    Option(tree.get(name)).filterNot(_.isNull)

  private def missing(name: String): LakestepException =
    StrictFields.corrupt(file, s"its field $name is missing or of another type")
}

private[timeline] object StrictFields {
  val RequiredFeatures = "requiredFeatures"

  /** The version of Lakestep that has put the file: an older one names it to its user. */
  val Writer = "writer"

  def parse(file: String, bytes: Array[Byte]): StrictFields =
    try new StrictFields(file, Json.parse(bytes))
    catch {
      case NonFatal(e) =>
        throw Errors.caused(
          "LAKESTEP_TIMELINE_CORRUPT",
          e,
          "file" -> file,
          "reason" -> "it is not whole JSON"
        )
    }

  private val Sum = "sum"

  /** The bytes of a file that holds the hash of its own content. */
  def summed(node: ObjectNode): Array[Byte] = {
    node.put(Sum, Json.blake3(Json.text(node)))
    (Json.text(node) + "\n").getBytes(UTF_8)
  }

  /** Such a file, whose hash is that of its content. */
  def parseSummed(file: String, bytes: Array[Byte]): StrictFields = {
    val fields = parse(file, bytes)
    val sum = fields.string(Sum)
    fields.tree.remove(Sum)
    if (Json.blake3(Json.text(fields.tree)) != sum)
      throw corrupt(file, "the hash that it holds is not that of its content")
    fields
  }

  def corrupt(file: String, reason: String): LakestepException =
    Errors("LAKESTEP_TIMELINE_CORRUPT", "file" -> file, "reason" -> reason)
}
