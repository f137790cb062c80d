package io.lakestep.sql.parse

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{
  HybridParameterContext, NamedParameterContext, ParameterContext, ParameterHandler, ParseException,
  ParserInterface, PositionalParameterContext
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf

import io.lakestep.Errors
import io.lakestep.sql.command.{AssertStatement, BlockPiece}

/**
 * Spark 4.1 and newer hand the parameters of a text (`spark.sql(text, args)`) to the parser. They are
 * substituted here and not handed on, because Delta's parser between this one and Spark's drops them.
 */
class LakestepParser(session: SparkSession, delegate: ParserInterface)
    extends TextParser(session, delegate) {

  override protected def boundLater(text: String): Seq[Marker] =
    if (isLegacy) Marker.all(text) else Nil

  private def isLegacy = SQLConf.get.legacyParameterSubstitutionConstantsOnly

  override def parsePlanWithParameters(
      sqlText: String,
      parameters: ParameterContext): LogicalPlan = failing {
    if (isEmpty(parameters)) withoutParameters(sqlText, parameters)
    else {
      val text = variables.substitute(sqlText)
      Statements.parse(text) match {
        case ParsedText.PassThrough => typed(text, delegate.parsePlan(substitute(text, parameters)))
        case ParsedText.Atomic(script) =>
          checkNamed(parameters)
          atomic(sqlText, script)(substitute(_, parameters))
        case ParsedText.Block(begin, pieces, end) =>
          checkNamed(parameters)
          val plans = pieces.map { p =>
            BlockPiece(p, piece(substitute(p, parameters))(delegate.parsePlan))
          }
          block(sqlText, begin, plans, end)
        case ParsedText.Ours(_: AssertStatement) =>
          val filled = substitute(text, parameters)
          Statements.parse(filled) match {
            case ParsedText.Ours(plan) => ours(filled, plan)
            case _ => delegate.parsePlan(filled)
          }
        case ParsedText.Ours(plan) => ours(text, plan)
      }
    }
  }

  private def checkNamed(parameters: ParameterContext): Unit = parameters match {
    case _: NamedParameterContext => ()
    case _ => throw Errors("LAKESTEP_POSITIONAL_PARAMETERS_IN_BLOCK")
  }

  /**
   * Spark parses every text with a (possibly empty) context so that an unbound marker is an
   * error. Delta's statements may hold a `:` that is no marker, so only texts that Delta's parser
   * passes on reach that check, as in a session without Lakestep.
   */
  private def withoutParameters(sqlText: String, parameters: ParameterContext): LogicalPlan =
    Statements.parse(variables.substitute(sqlText)) match {
      case ParsedText.PassThrough =>
        typed(sqlText, delegate.parsePlanWithParameters(sqlText, parameters))
      case _ => parsePlan(sqlText)
    }

  private def substitute(text: String, parameters: ParameterContext): String =
    if (isLegacy) text
    else {
      try substituteBySpark(text, parameters)
      catch {
        case failure: ParseException => DeltaParameters.substitute(text, parameters, failure)
      }
    }

  /**
   * Spark 4.1.0 cuts a text at the wrong places behind a character of two UTF-16 units, so characters that
   * are neither in the text nor in a value stand for these meanwhile.
   */
  private def substituteBySpark(text: String, parameters: ParameterContext): String = {
    val wide = text.codePoints.toArray.filter(Character.isSupplementaryCodePoint(_)).distinct
    val taken = if (wide.isEmpty) "" else text + values(parameters).map(_.sql).mkString
    val free = ('\ue000' to '\uf8ff').iterator.filter(taken.indexOf(_) < 0)
    val standIns = wide.toSeq.map(c => (new String(Character.toChars(c)), free.next().toString))
    val narrow = standIns.foldLeft(text) { case (t, (from, to)) => t.replace(from, to) }
    val done = ParameterHandler.substituteParameters(narrow, parameters)._1
    standIns.foldLeft(done) { case (t, (to, from)) => t.replace(from, to) }
  }

  private def isEmpty(parameters: ParameterContext): Boolean = values(parameters).isEmpty

  private def values(parameters: ParameterContext): Seq[Expression] = parameters match {
    case NamedParameterContext(params) => params.values.toSeq
    case PositionalParameterContext(params) => params
    case hybrid: HybridParameterContext => hybrid.args
  }
}
