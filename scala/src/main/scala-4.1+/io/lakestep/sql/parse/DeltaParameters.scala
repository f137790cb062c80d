package io.lakestep.sql.parse

import org.apache.spark.sql.catalyst.parser.{
  NamedParameterContext, ParameterContext, ParameterHandler, ParseException,
  PositionalParameterContext
}

/**
 * Parameters in statements that only Delta's parser knows (`OPTIMIZE t WHERE day = :day`). Spark
 * finds the markers of a text by parsing it, which fails there; so they are found by its lexer,
 * and each becomes the literal that Spark would put in its place.
 */
private[sql] object DeltaParameters {

  /** The text with literals for markers; `failure` is thrown where Delta has no such markers. */
  def substitute(text: String, parameters: ParameterContext, failure: ParseException): String =
    parameters match {
      case named: NamedParameterContext =>
        replace(text, Marker.all(text).filter(_.isNamed)) { (_, marker) =>
          literal(marker.text, named)
        }
      case PositionalParameterContext(values) =>
        val found = Marker.all(text).filterNot(_.isNamed)
        if (found.size > values.size) throw failure
        replace(text, found)((index, marker) =>
          literal(marker.text, PositionalParameterContext(Seq(values(index))))
        )
      case _ => throw failure
    }

  private def literal(marker: String, parameters: ParameterContext): String =
    ParameterHandler.substituteParameters(s"SELECT $marker", parameters)._1.stripPrefix("SELECT ")

  private def replace(text: String, markers: Vector[Marker])(
      value: (Int, Marker) => String): String =
    markers.zipWithIndex.foldRight(text) { case ((marker, index), done) =>
      val start = done.offsetByCodePoints(0, marker.start)
      val end = done.offsetByCodePoints(0, marker.end)
      s"${done.substring(0, start)} ${value(index, marker)} ${done.substring(end)}"
    }
}
