package io.lakestep.sql.parse

import scala.jdk.CollectionConverters._

import org.antlr.v4.runtime.{CharStreams, CommonTokenStream, Token}
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer

/**
 * Where a statement takes a parameter, `:name` or `?`. `start` and `end` count code points, as ANTLR
 * does.
 */
private[parse] final case class Marker(text: String, start: Int, end: Int) {
  def isNamed: Boolean = text.startsWith(":")
}

private[parse] object Marker {

  /**
   * All of a text, found by Spark's lexer: only Delta's parser may know the statement. A name may stand
   * apart from its colon, as it does in types (`STRUCT<a: INT>`) as well: these come with `apart`.
   */
  def all(text: String, apart: Boolean = false): Vector[Marker] = {
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
          if colon.getType == SqlBaseLexer.COLON &&
            (apart || name.getStartIndex == colon.getStopIndex + 1) =>
        marker(colon, name)
      case (question, _) if question.getType == SqlBaseLexer.QUESTION => marker(question, question)
    }
  }
}
