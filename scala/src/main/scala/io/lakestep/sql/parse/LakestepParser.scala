package io.lakestep.sql.parse

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{
  HybridParameterContext, NamedParameterContext, ParameterContext, ParameterHandler, ParseException,
  ParserInterface, PositionalParameterContext
}
import org.apache.spark.sql.catalyst.plans.logical.{CompoundBody, LogicalPlan, SingleStatement}
import org.apache.spark.sql.catalyst.trees.{CurrentOrigin, Origin}
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}
import org.apache.spark.sql.types.{DataType, StructType}

import io.lakestep.Errors
import io.lakestep.catalog.BindCatalogs
import io.lakestep.sql.command.{BeginTransaction, BlockEnd, BlockPiece, TransactionBlock}
import io.lakestep.transaction.Transactions

/**
 * Parses Lakestep's statements and hands every other text to `delegate` unchanged. Has no side
 * effects: Spark Connect parses one text several times.
 *
 * Parameters (`spark.sql(text, args)`) are substituted here and not handed on, because Delta's
 * parser between this one and Spark's drops them.
 */
class LakestepParser(session: SparkSession, delegate: ParserInterface) extends ParserInterface {

  private val variables = new VariableSubstitution

  override def parsePlan(sqlText: String): LogicalPlan =
    Statements.parse(variables.substitute(sqlText)) match {
      case ParsedText.PassThrough => typed(delegate.parsePlan(sqlText))
      case ParsedText.Block(begin, pieces, end) =>
        block(sqlText, begin, pieces.map(p => BlockPiece(p, piece(p)(delegate.parsePlan))), end)
      case ParsedText.Ours(plan) => plan
    }

  override def parsePlanWithParameters(
      sqlText: String,
      parameters: ParameterContext): LogicalPlan =
    if (isEmpty(parameters)) withoutParameters(sqlText, parameters)
    else {
      val text = variables.substitute(sqlText)
      Statements.parse(text) match {
        case ParsedText.PassThrough => typed(delegate.parsePlan(substitute(text, parameters)))
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
      case ParsedText.PassThrough => typed(delegate.parsePlanWithParameters(sqlText, parameters))
      case _ => parsePlan(sqlText)
    }

  /** A statement that the open transaction may have to run again. */
  private def typed(plan: LogicalPlan): LogicalPlan = {
    if (Transactions.isOpen(session)) StatementTag.note(plan)
    plan
  }

  /** A statement of a block: one of ours that neither begins nor ends it, or another. */
  private def piece(text: String)(parse: String => LogicalPlan): LogicalPlan =
    Statements.parse(text) match {
      case ParsedText.Ours(plan) => plan
      case _ => parse(text)
    }

  private def substitute(text: String, parameters: ParameterContext): String =
    if (SQLConf.get.legacyParameterSubstitutionConstantsOnly) text
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

  /**
   * A script of one statement. Spark runs a script once and keeps its result as rows, also behind
   * Spark Connect, which would send any other plan to be executed again for each action.
   */
  private def block(
      sqlText: String,
      begin: BeginTransaction,
      pieces: Seq[BlockPiece],
      end: BlockEnd): LogicalPlan = {
    val origin = Origin(
      sqlText = Some(sqlText),
      startIndex = Some(0),
      stopIndex = Some(sqlText.length - 1)
    )
    val statement = CurrentOrigin.withOrigin(origin) {
      SingleStatement(TransactionBlock(begin, pieces, end))
    }
    CompoundBody(Seq(statement), Some("lakestep_block"), isScope = true)
  }

  override def parseExpression(sqlText: String): Expression = delegate.parseExpression(sqlText)

  override def parseTableIdentifier(sqlText: String): TableIdentifier =
    delegate.parseTableIdentifier(sqlText)

  override def parseFunctionIdentifier(sqlText: String): FunctionIdentifier =
    delegate.parseFunctionIdentifier(sqlText)

  override def parseMultipartIdentifier(sqlText: String): Seq[String] = {
    val parts = delegate.parseMultipartIdentifier(sqlText)
    if (DeltaTableForName.isCalling) {
      // What follows is no statement, which would do so.
      BindCatalogs.of(session)
      if (Transactions.isOpen(session)) DeltaTableForName.qualified(session, parts) else parts
    } else parts
  }

  override def parseQuery(sqlText: String): LogicalPlan = delegate.parseQuery(sqlText)

  override def parseRoutineParam(sqlText: String): StructType =
    delegate.parseRoutineParam(sqlText)

  override def parseTableSchema(sqlText: String): StructType = delegate.parseTableSchema(sqlText)

  override def parseDataType(sqlText: String): DataType = delegate.parseDataType(sqlText)
}
