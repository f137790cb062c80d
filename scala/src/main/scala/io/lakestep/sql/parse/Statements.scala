package io.lakestep.sql.parse

import scala.jdk.CollectionConverters._

import org.antlr.v4.runtime.{CharStreams, CommonTokenStream, ParserRuleContext, Token}
import org.antlr.v4.runtime.atn.PredictionMode
import org.antlr.v4.runtime.misc.{Interval, ParseCancellationException}
import org.apache.spark.sql.catalyst.parser.{ParseErrorListener}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

import io.lakestep.Errors
import io.lakestep.commit.{IsolationLevel, TransactionModes}
import io.lakestep.sql.command.{
  BeginTransaction, BlockEnd, CommitTransaction, DescribeTransaction, ExplainConflict, Recover,
  RollbackTransaction, SetTransaction, ShowTransactions, VacuumTransactions
}
import io.lakestep.sql.parser.{LakestepSqlBaseVisitor, LakestepSqlLexer, LakestepSqlParser}
import io.lakestep.sql.parser.LakestepSqlParser._

/** What a text is to Lakestep. */
private[sql] sealed trait ParsedText

private[sql] object ParsedText {

  /** A statement of ours. */
  final case class Ours(plan: LogicalPlan) extends ParsedText

  /** A transaction in one text, with the texts of its statements. */
  final case class Block(begin: BeginTransaction, pieces: Seq[String], end: BlockEnd)
      extends ParsedText

  /** Somebody else's. */
  case object PassThrough extends ParsedText
}

/** The grammar `sql-grammar/LakestepSql.g4` applied to one text. */
private[sql] object Statements {
  import ParsedText.{Block, Ours, PassThrough}

  def parse(text: String): ParsedText = {
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

  private class Visitor extends LakestepSqlBaseVisitor[ParsedText] {

    override def visitPassThrough(ctx: PassThroughContext): ParsedText = PassThrough

    override def visitTransactionBlock(ctx: TransactionBlockContext): ParsedText = {
      val end = ctx.end match {
        case _: BlockCommitContext => BlockEnd.Commit
        case _ => BlockEnd.Rollback
      }
      Block(begin(ctx.begin), ctx.piece.asScala.map(original).toSeq, end)
    }

    override def visitUnfinishedBlock(ctx: UnfinishedBlockContext): ParsedText =
      throw Errors("LAKESTEP_BLOCK_NOT_FINISHED")

    override def visitSavepoints(ctx: SavepointsContext): ParsedText =
      throw Errors("LAKESTEP_STATEMENT_NOT_SUPPORTED.SAVEPOINT", "statement" -> original(ctx))

    override def visitAtomicBlock(ctx: AtomicBlockContext): ParsedText =
      throw Errors("LAKESTEP_STATEMENT_NOT_SUPPORTED.ATOMIC_BLOCK", "statement" -> "BEGIN ATOMIC")

    override def visitBeginTransaction(ctx: BeginTransactionContext): ParsedText =
      Ours(begin(ctx.begin))

    override def visitCommitTransaction(ctx: CommitTransactionContext): ParsedText =
      Ours(CommitTransaction())

    override def visitRollbackTransaction(ctx: RollbackTransactionContext): ParsedText =
      Ours(RollbackTransaction())

    override def visitShowTransactions(ctx: ShowTransactionsContext): ParsedText =
      Ours(ShowTransactions())

    override def visitDescribeTransaction(ctx: DescribeTransactionContext): ParsedText =
      Ours(DescribeTransaction(unquoted(ctx.id)))

    override def visitExplainConflict(ctx: ExplainConflictContext): ParsedText =
      Ours(ExplainConflict(Option(ctx.id).map(unquoted)))

    /** Ids hold nothing that would be escaped. */
    private def unquoted(text: Token): String = text.getText.drop(1).dropRight(1)

    override def visitVacuumTransactions(ctx: VacuumTransactionsContext): ParsedText =
      Ours(VacuumTransactions(Option(ctx.hours).fold(VacuumTransactions.DefaultHours) { hours =>
        hours.getText.toLongOption.getOrElse(
          throw Errors("LAKESTEP_RETENTION_INVALID", "hours" -> hours.getText)
        )
      }))

    override def visitRecover(ctx: RecoverContext): ParsedText = Ours(Recover())

    override def visitSetTransaction(ctx: SetTransactionContext): ParsedText =
      Ours(SetTransaction(modes(ctx.characteristics)))

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
