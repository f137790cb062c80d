package io.lakestep.sql.parse

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.parser.{
  HybridParameterContext, NamedParameterContext, ParameterContext, ParameterHandler, ParseException,
  ParserInterface, PositionalParameterContext
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf

import io.lakestep.Errors
import io.lakestep.sql.command.BlockPiece

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
      parameters: ParameterContext): LogicalPlan =
    if (isEmpty(parameters)) withoutParameters(sqlText, parameters)
    else {
      val text = variables.substitute(sqlText)
      Statements.parse(text) match {
        case ParsedText.PassThrough => typed(text, delegate.parsePlan(substitute(text, parameters)))
        case ParsedText.Block(begin, pieces, end) =>
          parameters match {
            case _: NamedParameterContext =>
              val plans = pieces.map { p =>
                BlockPiece(p, piece(substitute(p, parameters))(delegate.parsePlan))
              }
              block(sqlText, begin, plans, end)
            case _ => throw Errors("LAKESTEP_POSITIONAL_PARAMETERS_IN_BLOCK")
          }
        case ParsedText.Ours(plan) => plan
      }
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
      try ParameterHandler.substituteParameters(text, parameters)._1
      catch {
        case failure: ParseException => DeltaParameters.substitute(text, parameters, failure)
      }
    }

  private def isEmpty(parameters: ParameterContext): Boolean = parameters match {
    case NamedParameterContext(params) => params.isEmpty
    case PositionalParameterContext(params) => params.isEmpty
    case hybrid: HybridParameterContext => hybrid.args.isEmpty
  }
}
