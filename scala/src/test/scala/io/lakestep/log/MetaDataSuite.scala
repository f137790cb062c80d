package io.lakestep.log

import io.lakestep.Json

import org.scalatest.funsuite.AnyFunSuite

/** Under which metadata rows that were written under another may stand. */
class MetaDataSuite extends AnyFunSuite {

  private def metaData(properties: Map[String, String], field: String): MetaData = {
    val body = Json.obj().put("schemaString", s"""{"type":"struct","fields":[$field]}""")
    body.putArray("partitionColumns")
    val configuration = body.putObject("configuration")
    properties.foreach { case (key, value) => configuration.put(key, value) }
    MetaData(body)
  }

  private def column(metadata: String = ""): String =
    s"""{"name":"n","type":"string","nullable":true,"metadata":{$metadata}}"""

  private val open = metaData(Map.empty, column())

  test("rows fit under the same metadata, and under one with further properties") {
    assert(open.isFitFor(open))
    assert(open.isFitFor(metaData(Map("my.key" -> "1"), column(""""comment":"c""""))))
  }

  test("rows do not fit under a CHECK constraint that they were not checked by") {
    val checked = metaData(Map("delta.constraints.pos" -> "n > 0"), column())
    assert(!open.isFitFor(checked))
    assert(!metaData(Map("delta.constraints.pos" -> "n > 1"), column()).isFitFor(checked))
    assert(checked.isFitFor(checked))
    assert(checked.isFitFor(open))
  }

  test("rows do not fit under another length, condition or expression of their column") {
    for (key <- Seq("__CHAR_VARCHAR_TYPE_STRING", "delta.invariants", "delta.generationExpression"))
      assert(!open.isFitFor(metaData(Map.empty, column(s""""$key":"x""""))))
  }
}
