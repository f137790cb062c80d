package io.lakestep.sql.parse

import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.{CompoundBody, LogicalPlan, SingleStatement}
import org.apache.spark.sql.catalyst.trees.{CurrentOrigin, Origin}
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.{DataType, StructType}

import org.apache.spark.sql.delta.lakestep.Callers
import io.lakestep.Errors
import io.lakestep.catalog.BindCatalogs
import io.lakestep.commit.{AsOf, TransactionModes}
import io.lakestep.sql.command.{
  BeginTransaction, BlockEnd, BlockPiece, StatementOfTransaction, TransactionBlock
}
import io.lakestep.transaction.Transactions

/**
 * Parses Lakestep's statements and hands every other text to `delegate` unchanged. Has no side
 * effects: Spark Connect parses one text several times.
 *
 * What Spark's lines do in ways of their own, parameters above all, is in `LakestepParser`.
 */
private[parse] abstract class TextParser(session: SparkSession, delegate: ParserInterface)
    extends ParserInterface {

  /** The parameters of a text that Spark fills in after it is parsed. */
  protected def boundLater(text: String): Seq[Marker]

  protected val variables = new VariableSubstitution

  override def parsePlan(sqlText: String): LogicalPlan = failing(parsed(sqlText))

  /** A text that cannot be parsed is a statement that failed. */
  protected def failing(parse: => LogicalPlan): LogicalPlan =
    try parse
    catch {
      case NonFatal(e) =>
        val failure = outsideQuery(e).getOrElse(e)
        Transactions.failed(session, failure)
        throw failure
    }

  /** What Delta's parser says where a statement that is no query names a state of the database. */
  private def outsideQuery(failure: Throwable): Option[Throwable] = failure match {
    case e: NumberFormatException =>
      // For input string: "db:42", or with the quotes of the statement.
      Option(e.getMessage).flatMap(_.split('"').lift(1)).map(_.trim.replaceAll("^'|'$", ""))
        .filter(AsOf.inQuery(_).isDefined)
        .map(asked => Errors.caused("LAKESTEP_AS_OF_OUTSIDE_QUERY", e, "asked" -> asked))
    case _ => None
  }

  private def parsed(sqlText: String): LogicalPlan =
    Statements.parse(variables.substitute(sqlText)) match {
      case ParsedText.PassThrough => typed(sqlText, delegate.parsePlan(sqlText))
      case ParsedText.Block(begin, pieces, end) =>
        block(sqlText, begin, pieces.map(p => BlockPiece(p, piece(p)(delegate.parsePlan))), end)
      case ParsedText.Atomic(script) => atomic(sqlText, script)(identity)
      case ParsedText.Ours(plan) => ours(sqlText, plan)
    }

  /** @param filled puts values for the parameters of a text */
  protected def atomic(sqlText: String, script: String)(filled: String => String): LogicalPlan = {
    val parsed =
      try new AtomicScript(filled, delegate.parsePlan, piece(_)(delegate.parsePlan)).parse(script)
      catch { case failure: ParseException => throw failure.withCommand(sqlText) }
    val begin = BeginTransaction(None, TransactionModes())
    block(sqlText, begin, Seq(BlockPiece(script, parsed)), BlockEnd.Commit)
  }

  protected def ours(text: String, plan: LogicalPlan): LogicalPlan = plan match {
    case own: StatementOfTransaction => typed(text, own)
    case other => other
  }

  /** A statement that the open transaction may have to run again. */
  protected def typed(text: String, plan: LogicalPlan): LogicalPlan = {
    if (Transactions.isOpen(session) && boundLater(text).isEmpty) StatementTag.note(plan)
    plan
  }

  /** A statement of a block: one of ours that neither begins nor ends it, or another. */
  protected def piece(text: String)(parse: String => LogicalPlan): LogicalPlan =
    Statements.parse(text) match {
      case ParsedText.Ours(plan) => plan
      case ParsedText.Atomic(_) =>
        throw Errors("LAKESTEP_STATEMENT_IN_BLOCK", "statement" -> "BEGIN ATOMIC")
      case _ => parse(text)
    }

  /**
   * A script of one statement. Spark runs a script once and keeps its result as rows, also behind
   * Spark Connect, which would send any other plan to be executed again for each action.
   */
  protected def block(
      sqlText: String,
      begin: BeginTransaction,
      pieces: Seq[BlockPiece],
      end: BlockEnd): LogicalPlan = {
    if (Callers.isExecuteImmediate) throw Errors("LAKESTEP_BLOCK_IN_EXECUTE_IMMEDIATE")
    val origin = Origin(
      sqlText = Some(sqlText),
      startIndex = Some(0),
      stopIndex = Some(sqlText.length - 1)
    )
    val statement = CurrentOrigin.withOrigin(origin) {
      val names = pieces.flatMap(p => boundLater(p.text)).filter(_.isNamed).map(_.text.drop(1).trim)
      SingleStatement(TransactionBlock(begin, pieces, end, names.distinct))
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
