package io.lakestep.sql

import scala.jdk.CollectionConverters._

import org.antlr.v4.runtime.{CharStreams, CommonTokenStream, ParserRuleContext, Token}
import org.antlr.v4.runtime.atn.PredictionMode
import org.antlr.v4.runtime.misc.{Interval, ParseCancellationException}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{
  HybridParameterContext, NamedParameterContext, ParameterContext, ParameterHandler,
  ParseErrorListener, ParseException, ParserInterface, PositionalParameterContext
}
import org.apache.spark.sql.catalyst.plans.logical.{CompoundBody, LogicalPlan, SingleStatement}
import org.apache.spark.sql.catalyst.trees.{CurrentOrigin, Origin}
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}
import org.apache.spark.sql.types.{DataType, StructType}

import io.lakestep.Errors
import io.lakestep.catalog.BindCatalogs
import io.lakestep.commit.{IsolationLevel, TransactionModes}
import io.lakestep.session.Sessions
import io.lakestep.sql.parser.{LakestepSqlBaseVisitor, LakestepSqlLexer, LakestepSqlParser}
import io.lakestep.sql.parser.LakestepSqlParser._

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
      case PassThrough => typed(delegate.parsePlan(sqlText))
      case Block(begin, pieces, end) =>
        block(sqlText, begin, pieces.map(p => BlockPiece(p, piece(p)(delegate.parsePlan))), end)
      case Command(plan) => plan
    }

  override def parsePlanWithParameters(
      sqlText: String,
      parameters: ParameterContext): LogicalPlan =
    if (isEmpty(parameters)) withoutParameters(sqlText, parameters)
    else {
      val text = variables.substitute(sqlText)
      Statements.parse(text) match {
        case PassThrough => typed(delegate.parsePlan(substitute(text, parameters)))
        case Block(begin, pieces, end) =>
          parameters match {
            case _: NamedParameterContext =>
              val plans = pieces.map { p =>
                BlockPiece(p, piece(substitute(p, parameters))(delegate.parsePlan))
              }
              block(sqlText, begin, plans, end)
            case _ => throw Errors("LAKESTEP_POSITIONAL_PARAMETERS_IN_BLOCK")
          }
        case Command(plan) => plan
      }
    }

  /**
   * Spark parses every text with a (possibly empty) context so that an unbound marker is an
   * error. Delta's statements may hold a `:` that is no marker, so only texts that Delta's parser
   * passes on reach that check, as in a session without Lakestep.
   */
  private def withoutParameters(sqlText: String, parameters: ParameterContext): LogicalPlan =
    Statements.parse(variables.substitute(sqlText)) match {
      case PassThrough => typed(delegate.parsePlanWithParameters(sqlText, parameters))
      case _ => parsePlan(sqlText)
    }

  /** A statement that the open transaction may have to run again. */
  private def typed(plan: LogicalPlan): LogicalPlan = {
    if (Sessions.isOpen(session)) TypedStatement.note(plan)
    plan
  }

  /** A statement of a block: one of ours that neither begins nor ends it, or another. */
  private def piece(text: String)(parse: String => LogicalPlan): LogicalPlan =
    Statements.parse(text) match {
      case Command(plan) => plan
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
    case HybridParameterContext(args, _) => args.isEmpty
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
      if (Sessions.isOpen(session)) DeltaTableForName.qualified(session, parts) else parts
    } else parts
  }

  override def parseQuery(sqlText: String): LogicalPlan = delegate.parseQuery(sqlText)

  override def parseRoutineParam(sqlText: String): StructType =
    delegate.parseRoutineParam(sqlText)

  override def parseTableSchema(sqlText: String): StructType = delegate.parseTableSchema(sqlText)

  override def parseDataType(sqlText: String): DataType = delegate.parseDataType(sqlText)
}

/** What a text is to Lakestep. */
private[sql] sealed trait Statement
private[sql] case object PassThrough extends Statement
private[sql] final case class Command(plan: LogicalPlan) extends Statement
private[sql] final case class Block(begin: BeginTransaction, pieces: Seq[String], end: BlockEnd)
    extends Statement

/** The grammar `sql-grammar/LakestepSql.g4` applied to one text. */
private[sql] object Statements {

  def parse(text: String): Statement = {
    val lexer = new LakestepSqlLexer(CharStreams.fromString(text))
    lexer.removeErrorListeners()
    lexer.addErrorListener(ParseErrorListener)
    val tokens = new CommonTokenStream(lexer)
    val parser = new LakestepSqlParser(tokens)
    parser.removeErrorListeners()
    parser.addErrorListener(ParseErrorListener)
    val visitor = new Visitor
    try {
      parser.getInterpreter.setPredictionMode(PredictionMode.SLL)
      visitor.visit(parser.singleStatement())
    } catch {
      case _: ParseCancellationException =>
        tokens.seek(0)
        parser.reset()
        parser.getInterpreter.setPredictionMode(PredictionMode.LL)
        visitor.visit(parser.singleStatement())
    }
  }

  private class Visitor extends LakestepSqlBaseVisitor[Statement] {

    override def visitPassThrough(ctx: PassThroughContext): Statement = PassThrough

    override def visitTransactionBlock(ctx: TransactionBlockContext): Statement = {
      val end = ctx.end match {
        case _: BlockCommitContext => BlockEnd.Commit
        case _ => BlockEnd.Rollback
      }
      Block(begin(ctx.begin), ctx.piece.asScala.map(original).toSeq, end)
    }

    override def visitUnfinishedBlock(ctx: UnfinishedBlockContext): Statement =
      throw Errors("LAKESTEP_BLOCK_NOT_FINISHED")

    override def visitSavepoints(ctx: SavepointsContext): Statement =
      throw Errors("LAKESTEP_STATEMENT_NOT_SUPPORTED.SAVEPOINT", "statement" -> original(ctx))

    override def visitAtomicBlock(ctx: AtomicBlockContext): Statement =
      throw Errors("LAKESTEP_STATEMENT_NOT_SUPPORTED.ATOMIC_BLOCK", "statement" -> "BEGIN ATOMIC")

    override def visitBeginTransaction(ctx: BeginTransactionContext): Statement =
      Command(begin(ctx.begin))

    override def visitCommitTransaction(ctx: CommitTransactionContext): Statement =
      Command(CommitTransaction())

    override def visitRollbackTransaction(ctx: RollbackTransactionContext): Statement =
      Command(RollbackTransaction())

    override def visitShowTransactions(ctx: ShowTransactionsContext): Statement =
      Command(ShowTransactions())

    override def visitDescribeTransaction(ctx: DescribeTransactionContext): Statement =
      Command(DescribeTransaction(unquoted(ctx.id)))

    override def visitExplainConflict(ctx: ExplainConflictContext): Statement =
      Command(ExplainConflict(Option(ctx.id).map(unquoted)))

    /** Ids hold nothing that would be escaped. */
    private def unquoted(text: Token): String = text.getText.drop(1).dropRight(1)

    override def visitVacuumTransactions(ctx: VacuumTransactionsContext): Statement =
      Command(VacuumTransactions(Option(ctx.hours).fold(VacuumTransactions.DefaultHours) { hours =>
        hours.getText.toLongOption.getOrElse(
          throw Errors("LAKESTEP_RETENTION_INVALID", "hours" -> hours.getText)
        )
      }))

    override def visitRecover(ctx: RecoverContext): Statement = Command(Recover())

    override def visitSetTransaction(ctx: SetTransactionContext): Statement =
      Command(SetTransaction(modes(ctx.characteristics)))

    private def begin(ctx: BeginContext): BeginTransaction = {
      val name = Option(ctx.name).map { name =>
        val quoted = original(name)
        if (quoted.startsWith("`")) quoted.substring(1, quoted.length - 1).replace("``", "`")
        else quoted
      }
      BeginTransaction(name, Option(ctx.characteristics).fold(TransactionModes())(modes))
    }

    private def modes(ctx: CharacteristicsContext): TransactionModes = {
      def once[T](values: Seq[T]): Option[T] =
        if (values.size > 1)
          throw Errors("LAKESTEP_TRANSACTION_MODE_TWICE", "modes" -> original(ctx))
        else values.headOption
      val said = ctx.characteristic.asScala.toSeq
      TransactionModes(
        isolation = once(said.collect { case mode: IsolationModeContext =>
          mode.level match {
            case _: SerializableLevelContext => IsolationLevel.Serializable
            case _ => IsolationLevel.Snapshot
          }
        }),
        readOnly = once(said.collect {
          case _: ReadOnlyModeContext => true
          case _: ReadWriteModeContext => false
        })
      )
    }

    /** ANTLR counts code points, so its indexes are none of a Java string. */
    private def original(ctx: ParserRuleContext): String =
      ctx.start.getInputStream.getText(Interval.of(ctx.start.getStartIndex, ctx.stop.getStopIndex))
  }
}
