package io.lakestep.sql.parse

import scala.jdk.CollectionConverters._

import org.antlr.v4.runtime.{CharStreams, CommonTokenStream, Token}
import org.apache.spark.sql.catalyst.parser.{
  NamedParameterContext, ParameterContext, ParameterHandler, ParseException,
  PositionalParameterContext, SqlBaseLexer
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
        replace(text, markers(text).filter(_.isNamed)) { (_, marker) =>
          literal(marker.text, named)
        }
      case PositionalParameterContext(values) =>
        val found = markers(text).filterNot(_.isNamed)
        if (found.size > values.size) throw failure
        replace(text, found)((index, marker) =>
          literal(marker.text, PositionalParameterContext(Seq(values(index))))
        )
      case _ => throw failure
    }

  /** `start` and `end` count code points, as ANTLR does. */
  private final case class Marker(text: String, start: Int, end: Int) {
    def isNamed: Boolean = text.startsWith(":")
  }

  private def markers(text: String): Vector[Marker] = {
    val upper = text.codePoints.map(Character.toUpperCase(_)).toArray
    val lexer = new SqlBaseLexer(CharStreams.fromString(new String(upper, 0, upper.length)))
    lexer.removeErrorListeners()
    val tokens = new CommonTokenStream(lexer)
    tokens.fill()
    val visible = tokens.getTokens.asScala.filter(_.getChannel == Token.DEFAULT_CHANNEL).toVector
    def marker(from: Token, to: Token): Marker =
      Marker(
        text.substring(
          text.offsetByCodePoints(0, from.getStartIndex),
          text.offsetByCodePoints(0, to.getStopIndex + 1)
        ),
        from.getStartIndex,
        to.getStopIndex + 1
      )
    visible.zip(visible.drop(1)).collect {
      case (colon, name)
          if colon.getType == SqlBaseLexer.COLON && name.getStartIndex == colon.getStopIndex + 1 =>
        marker(colon, name)
      case (question, _) if question.getType == SqlBaseLexer.QUESTION => marker(question, question)
    }
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
