package io.lakestep.sql.parse

import scala.jdk.CollectionConverters._

import org.antlr.v4.runtime.{CharStreams, CommonTokenStream, ParserRuleContext, Token}
import org.antlr.v4.runtime.atn.PredictionMode
import org.antlr.v4.runtime.misc.{Interval, ParseCancellationException}
import org.apache.spark.sql.catalyst.parser.{ParseErrorListener}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.SparkParserUtils

import io.lakestep.Errors
import io.lakestep.catalog.{Restored, UndoModes}
import io.lakestep.commit.{IsolationLevel, TransactionModes}
import io.lakestep.sql.command.{
  AssertStatement, BeginTransaction, BlockEnd, CommitTransaction, CreateSnapshot,
  DescribeTransaction, DropSnapshot, ExplainConflict, ForgetBatchKeys, Recover, ReleaseSavepoint,
  Restore, Revert, RollbackToSavepoint, RollbackTransaction, SetSavepoint, SetTransaction,
  ShowAssertions, ShowDroppedTables, ShowSnapshots, ShowTimeline, ShowTransactions, UndropTable,
  VacuumDroppedTables, VacuumTransactions, VerifyDatabase
}
import io.lakestep.sql.parser.{LakestepSqlBaseVisitor, LakestepSqlLexer, LakestepSqlParser}
import io.lakestep.sql.parser.LakestepSqlParser._
import io.lakestep.timeline.{Labels, NamedSnapshots}
import io.lakestep.transaction.{AskedAsOf, AskedBatch}

/** What a text is to Lakestep. */
private[sql] sealed trait ParsedText

private[sql] object ParsedText {

  /** A statement of ours. */
  final case class Ours(plan: LogicalPlan) extends ParsedText

  /** A transaction in one text, with the texts of its statements. */
  final case class Block(begin: BeginTransaction, pieces: Seq[String], end: BlockEnd)
      extends ParsedText

  /** `BEGIN ATOMIC … END`, as the text of a script of Spark's: without the word, and in the same places. */
  final case class Atomic(script: String) extends ParsedText

  /** Somebody else's. */
  case object PassThrough extends ParsedText
}

/** The grammar `sql-grammar/LakestepSql.g4` applied to one text. */
private[sql] object Statements {
  import ParsedText.{Atomic, Block, Ours, PassThrough}

  private def tokensOf(text: String): CommonTokenStream = {
    val lexer = new LakestepSqlLexer(CharStreams.fromString(text))
    lexer.removeErrorListeners()
    lexer.addErrorListener(ParseErrorListener)
    new CommonTokenStream(lexer)
  }

  /** What a text is made of, without comments; the positions count code points. */
  def tokens(text: String): Vector[Token] = {
    val all = tokensOf(text)
    all.fill()
    all.getTokens.asScala.toVector
      .filter(t => t.getChannel == Token.DEFAULT_CHANNEL && t.getType != Token.EOF)
  }

  def parse(text: String): ParsedText = {
    val tokens = tokensOf(text)
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

    override def visitSetSavepoint(ctx: SetSavepointContext): ParsedText =
      Ours(SetSavepoint(named(ctx.name)))

    override def visitRollbackToSavepoint(ctx: RollbackToSavepointContext): ParsedText =
      Ours(RollbackToSavepoint(named(ctx.rollbackTo.name)))

    override def visitReleaseSavepoint(ctx: ReleaseSavepointContext): ParsedText =
      Ours(ReleaseSavepoint(named(ctx.name)))

    override def visitAtomicBlock(ctx: AtomicBlockContext): ParsedText = {
      val input = ctx.start.getInputStream
      def text(from: Int, to: Int) = if (from > to) "" else input.getText(Interval.of(from, to))
      val word = ctx.atomic
      Atomic(
        text(0, word.getStartIndex - 1) + " " * word.getText.length +
          text(word.getStopIndex + 1, input.size - 1)
      )
    }

    override def visitBeginTransaction(ctx: BeginTransactionContext): ParsedText =
      Ours(begin(ctx.begin))

    override def visitCommitTransaction(ctx: CommitTransactionContext): ParsedText =
      Ours(CommitTransaction())

    override def visitRollbackTransaction(ctx: RollbackTransactionContext): ParsedText =
      Ours(RollbackTransaction())

    override def visitShowTransactions(ctx: ShowTransactionsContext): ParsedText =
      Ours(ShowTransactions(ofAll = ctx.all != null))

    override def visitShowTimeline(ctx: ShowTimelineContext): ParsedText = {
      def number(typed: IdentifierContext): Option[Long] = Option(typed).map(t =>
        t.getText.toLongOption.getOrElse(
          throw Errors("LAKESTEP_TIMELINE_RANGE_INVALID", "number" -> t.getText)
        )
      )
      val range = Option(ctx.timelineRange)
      Ours(
        ShowTimeline(
          range.flatMap(r => number(r.from)),
          range.flatMap(r => number(r.to)),
          range.flatMap(r => number(r.last))
        )
      )
    }

    override def visitDescribeTransaction(ctx: DescribeTransactionContext): ParsedText =
      Ours(DescribeTransaction(unquoted(ctx.id)))

    override def visitExplainConflict(ctx: ExplainConflictContext): ParsedText =
      Ours(ExplainConflict(Option(ctx.id).map(unquoted)))

    /** Ids hold nothing that would be escaped. */
    private def unquoted(text: Token): String = text.getText.drop(1).dropRight(1)

    override def visitVacuumTransactions(ctx: VacuumTransactionsContext): ParsedText =
      Ours(VacuumTransactions(hours(ctx.hours)))

    override def visitVacuumDroppedTables(ctx: VacuumDroppedTablesContext): ParsedText =
      Ours(VacuumDroppedTables(hours(ctx.hours)))

    private def hours(ctx: IdentifierContext): Long =
      Option(ctx).fold(VacuumTransactions.DefaultHours) { typed =>
        typed.getText.toLongOption.filter(_ <= Long.MaxValue / VacuumTransactions.HourMs).getOrElse(
          throw Errors("LAKESTEP_RETENTION_INVALID", "hours" -> typed.getText)
        )
      }

    override def visitRecover(ctx: RecoverContext): ParsedText = Ours(Recover())

    override def visitUndropTable(ctx: UndropTableContext): ParsedText =
      Ours(UndropTable(parts(ctx.target)))

    override def visitShowDroppedTables(ctx: ShowDroppedTablesContext): ParsedText =
      Ours(ShowDroppedTables())

    override def visitAssertion(ctx: AssertionContext): ParsedText = Ours(
      AssertStatement(
        original(ctx.what),
        noRows = ctx.no != null,
        Option(ctx.name).map(named),
        Option(ctx.message).map(text),
        isImmediate = ctx.now != null
      )
    )

    override def visitShowAssertions(ctx: ShowAssertionsContext): ParsedText =
      Ours(ShowAssertions())

    override def visitCreateSnapshot(ctx: CreateSnapshotContext): ParsedText = {
      val name = snapshot(ctx.name)
      if (!NamedSnapshots.isName(name))
        throw Errors("LAKESTEP_SNAPSHOT_NAME_INVALID", "snapshot" -> name)
      Ours(
        CreateSnapshot(
          name,
          Option(ctx.asOf).map(asOf),
          Option(ctx.days).map { days =>
            days.getText.toLongOption.filter(d => d > 0 && d < 100000)
              .getOrElse(throw Errors("LAKESTEP_SNAPSHOT_DAYS_INVALID", "days" -> days.getText))
          },
          Option(ctx.comment).map(text)
        )
      )
    }

    override def visitDropSnapshot(ctx: DropSnapshotContext): ParsedText =
      Ours(DropSnapshot(snapshot(ctx.name), ifExists = ctx.EXISTS != null))

    override def visitShowSnapshots(ctx: ShowSnapshotsContext): ParsedText = Ours(ShowSnapshots())

    override def visitVerifyDatabase(ctx: VerifyDatabaseContext): ParsedText =
      Ours(VerifyDatabase(Option(ctx.asOf).map(asOf)))

    override def visitRevertTransaction(ctx: RevertTransactionContext): ParsedText =
      Ours(Revert(text(ctx.id), modes(ctx.undoModes)))

    override def visitRestore(ctx: RestoreContext): ParsedText = {
      val what = ctx.restored match {
        case s: RestoredSchemaContext => Restored.Schema(parts(s.name))
        case t: RestoredTablesContext =>
          Restored.Tables(t.qualifiedName.asScala.map(parts).toSeq)
        case _ => Restored.Database
      }
      val to = Option(ctx.before).map(b => AskedAsOf.Before(text(b.id))).getOrElse {
        val point = ctx.restorePoint
        if (point.number != null) AskedAsOf.Version(point.number.getText)
        else if (point.time != null) AskedAsOf.Timestamp(text(point.time))
        else AskedAsOf.Snapshot(snapshot(point.snapshot))
      }
      Ours(Restore(what, to, modes(ctx.undoModes)))
    }

    private def modes(ctx: UndoModesContext): UndoModes =
      UndoModes(isDry = ctx.dry != null, keepsKeys = ctx.keep != null)

    private def parts(ctx: QualifiedNameContext): Seq[String] =
      ctx.identifier.asScala.map(named).toSeq

    override def visitForgetBatchKeys(ctx: ForgetBatchKeysContext): ParsedText =
      Ours(ForgetBatchKeys(text(ctx.query)))

    override def visitSetTransaction(ctx: SetTransactionContext): ParsedText =
      Ours(SetTransaction(modes(ctx.characteristics)))

    private def begin(ctx: BeginContext): BeginTransaction = {
      BeginTransaction(
        Option(ctx.name).map(named),
        Option(ctx.characteristics).fold(TransactionModes())(modes),
        Option(ctx.batch).map { batch =>
          val number = batch.number.getText
          AskedBatch(
            number.toLongOption
              .getOrElse(throw Errors("LAKESTEP_BATCH_NUMBER_INVALID", "batch" -> number)),
            Option(batch.query).map(text)
          )
        },
        Option(ctx.labels).fold(Labels.none)(labels),
        Option(ctx.asOf).map(asOf)
      )
    }

    private def asOf(ctx: AsOfContext): AskedAsOf =
      if (ctx.number != null) AskedAsOf.Version(ctx.number.getText)
      else if (ctx.time != null) AskedAsOf.Timestamp(text(ctx.time))
      else AskedAsOf.Snapshot(snapshot(ctx.snapshot))

    private def snapshot(ctx: SnapshotNameContext): String =
      Option(ctx.STRING).fold(named(ctx.identifier))(literal => text(literal.getSymbol))

    private def labels(ctx: LabelsContext): Labels = {
      val tags = Option(ctx.tags).toSeq.flatMap(_.tag.asScala)
      Labels(Option(ctx.comment).map(text), tags.map(t => text(t.key) -> text(t.value)))
    }

    private def text(literal: Token): String =
      SparkParserUtils.unescapeSQLString(literal.getText)

    private def named(ctx: IdentifierContext): String = {
      val quoted = original(ctx)
      if (quoted.startsWith("`")) quoted.substring(1, quoted.length - 1).replace("``", "`")
      else quoted
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
