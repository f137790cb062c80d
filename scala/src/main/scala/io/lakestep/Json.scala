package io.lakestep

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import org.apache.commons.codec.binary.Hex
import org.apache.commons.codec.digest.Blake3

/** JSON as trees, its canonical text, and the hash that names a text. */
object Json {

  private val mapper: ObjectMapper =
    JsonMapper.builder().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS).build()

  def obj(): ObjectNode = mapper.createObjectNode()

  def array(): ArrayNode = mapper.createArrayNode()

  /** The one object that the text holds; throws `IOException` for anything else. */
  def parse(bytes: Array[Byte]): ObjectNode = mapper.readTree(bytes) match {
    case node: ObjectNode => node
    case _ => throw new java.io.IOException("not a JSON object")
  }

  def parse(text: String): ObjectNode = parse(text.getBytes(UTF_8))

  /** The texts of which an array consists, where the text is such an array. */
  def texts(text: String): Option[Vector[String]] =
    Try(mapper.readTree(text)).toOption.collect {
      case array: ArrayNode if array.elements.asScala.forall(_.isTextual) =>
        array.elements.asScala.map(_.asText).toVector
    }

  /** One line, fields in the order in which they were put. */
  def text(node: JsonNode): String = mapper.writeValueAsString(node)

  /** One line, the fields of every object sorted by name: equal trees give equal texts. */
  def canonical(node: JsonNode): String = text(sorted(node))

  private def sorted(node: JsonNode): JsonNode = node match {
    case o: ObjectNode =>
      val result = obj()
      o.fieldNames.asScala.toVector.sorted.foreach(f => result.set[JsonNode](f, sorted(o.get(f))))
      result
    case a: ArrayNode =>
      val result = array()
      a.elements.asScala.foreach(e => result.add(sorted(e)))
      result
    case other => other
  }

  /** BLAKE3, 256 bits, as 64 lower-case hexadecimal digits. */
  def blake3(bytes: Array[Byte]): String = Hex.encodeHexString(Blake3.hash(bytes))

  def blake3(text: String): String = blake3(text.getBytes(UTF_8))
}
