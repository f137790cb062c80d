package io.lakestep.sql.run

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{CommandResult, LogicalPlan, ReturnAnswer}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec

import org.apache.spark.sql.delta.lakestep.DeltaHousekeeping
import io.lakestep.Errors
import io.lakestep.overlay.OverlayPath
import io.lakestep.sql.command.{
  InspectionCommand, StatementOfTransaction, TransactionCommand, UndropTable
}
import io.lakestep.sql.guard.{CommandCatalogue, Decision, ScriptVariables, StatementKinds}
import io.lakestep.sql.read.{NoteStatementTables, ReadSets, ReadsTables, StatementTables}
import io.lakestep.sql.parse.StatementTag
import io.lakestep.transaction.{
  InternalClones, PlannedReads, StagingWatch, Transaction, Transactions
}

/**
 * The root of a physical plan that reads Delta tables or runs a command. Each time the plan is
 * executed it compares what the plan was made for with the session's transaction now, so that
 *  - a DataFrame planned outside the open transaction is refused inside it, and one planned inside
 *    is refused once that transaction has ended;
 *  - a command that fails inside leaves the transaction as it was before it.
 */
private[sql] trait StatementRoot extends UnaryExecNode with ReadsTables {

  def client: SparkSession

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def nodeName: String = "Statement"
  override protected def stringArgs: Iterator[Any] = Iterator.empty

  /** The open transaction, if this may run now. */
  protected def checked(): Option[Transaction] = {
    val open = belonging()
    for (transaction <- open; path <- judged) transaction.checkPinned(path)
    open
  }

  /** The open transaction, if the plan was made for it; asks no store. */
  protected def belonging(): Option[Transaction] = {
    val open = Transactions.open(client)
    open.foreach(_.checkUsable())
    judged.foreach { path =>
      open match {
        case Some(transaction) if !transaction.owns(path) =>
          throw Errors(
            "LAKESTEP_DATAFRAME_FROM_OUTSIDE",
            "table" -> shown(path),
            "transaction" -> transaction.id
          )
        case None if OverlayPath.isOverlay(path) =>
          throw Errors("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION", "table" -> shown(path))
        case _ =>
      }
    }
    open
  }

  /** Data that Spark caches is read, and judged, by the statements that use it. */
  private def judged: Set[Path] =
    if (InternalClones.contains(client)) Set.empty else tables.filterNot(OverlayPath.isFixed)

  protected def shown(path: Path): String =
    OverlayPath.baseOf(path).toString
}

/** A query. */
private[sql] trait QueryRoot extends StatementRoot {

  /** What it reads of the transaction that was open when it was planned, if one was. */
  def reads: Option[PlannedReads]

  override protected def belonging(): Option[Transaction] = {
    val open = super.belonging()
    for (transaction <- open) {
      transaction.failure.checkFailed()
      reads.foreach(transaction.checkPlanned)
    }
    open
  }

  /** Before each action. Spark keeps what `execute` gave, so `toPandas` and its like ask no second time. */
  override def resetMetrics(): Unit = {
    belonging()
    super.resetMetrics()
  }

  /** @param lends whether rows are read after it has returned */
  private def reading[T](lends: Boolean)(query: SparkPlan => T): T =
    checked().fold(LostFiles.explained(client, child)(query(child))) { transaction =>
      transaction.readers.during(lends) {
        // It may have ended before it knew of this reader.
        belonging()
        try LostFiles.explained(client, child)(ShownPaths.inFailure(query(child)))
        catch {
          case NonFatal(failure) =>
            transaction.failure.failed(failure)
            throw failure
        }
      }
    }

  override def executeCollect(): Array[InternalRow] = reading(lends = false)(_.executeCollect())
  override def executeToIterator(): Iterator[InternalRow] =
    reading(lends = true)(_.executeToIterator())
  override def executeTake(n: Int): Array[InternalRow] = reading(lends = false)(_.executeTake(n))
  override def executeTail(n: Int): Array[InternalRow] = reading(lends = false)(_.executeTail(n))
  override protected def doExecute(): RDD[InternalRow] = reading(lends = true)(_.execute())
}

/** The query of a user. Of Spark's class for commands: adaptive execution works below it, not around it. */
final case class UserQueryExec(
    child: SparkPlan,
    tables: Set[Path],
    @transient client: SparkSession,
    @transient reads: Option[PlannedReads])
    extends V2CommandExec
    with QueryRoot {

  override protected def run(): Seq[InternalRow] = executeCollect().toSeq

  override protected def withNewChildInternal(newChild: SparkPlan): UserQueryExec =
    copy(child = newChild)
}

/**
 * A subquery, data that is cached, and what is left of a query when adaptive execution plans it again:
 * Spark looks for adaptive execution at the top of those.
 */
final case class InnerQueryExec(
    child: SparkPlan,
    tables: Set[Path],
    @transient client: SparkSession,
    @transient reads: Option[PlannedReads])
    extends QueryRoot {

  override protected def withNewChildInternal(newChild: SparkPlan): InnerQueryExec =
    copy(child = newChild)
}

/**
 * A command. Adaptive execution leaves one of Spark's own class alone, and else would run it on a
 * thread of its own when it has a subquery.
 *
 * @param isStatement whether it is one of an open transaction
 */
final case class CommandStatementExec(
    child: SparkPlan,
    tables: Set[Path],
    isStatement: Boolean,
    @transient client: SparkSession,
    @transient typed: Option[StatementTag])
    extends V2CommandExec
    with StatementRoot {

  override protected def run(): Seq[InternalRow] = checked() match {
    case Some(transaction) if isStatement =>
      val isTyped = !transaction.isBusy
      val rows =
        ShownPaths.inFailure(transaction.runStatement(DeltaHousekeeping.forget(client, _)) {
          StagingWatch.during(transaction)(child.executeCollect())
        })
      if (isTyped) typed.foreach(WatchStatements.ended(client, transaction, _))
      rows.toSeq.map(ShownPaths(_, output.map(_.dataType)))
    case _ => child.executeCollect().toSeq
  }

  override protected def withNewChildInternal(newChild: SparkPlan): CommandStatementExec =
    copy(child = newChild)
}

/** Puts a [[StatementRoot]] on top of every plan that reads Delta tables or is a command. */
final case class StatementStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ReturnAnswer(StatementTables(query, tables, scans)) =>
      Transactions.open(session).foreach(ReadSets.query(_, query, scans))
      val isInner = InternalClones.contains(session) || isPlannedAgain(query)
      planned(query)(if (isInner) innerOf(tables)
      else UserQueryExec(_, tables, session, reads(tables)))
    case ReturnAnswer(root) =>
      root match {
        case _: TransactionCommand | _: CommandResult =>
        // Refuses every statement after a failed COMMIT, also one without tables.
        case query if !InspectionCommand.isShownBy(query) => Transactions.open(session)
        case _ =>
      }
      OneStatementTransaction.plan(session, root).fold(judged(root))(Seq(_))
    case StatementTables(query, _, _) => Seq(planLater(query))
    case _ => Nil
  }

  private def judged(root: LogicalPlan): Seq[SparkPlan] = {
    val commands = StatementKinds.commands(root)
    commands.foreach { command =>
      BeforeOutsideStatement(session, command)
      if (!command.isInstanceOf[TransactionCommand])
        Transactions.open(session).foreach { transaction =>
          // What fails from here on is noted where it runs.
          if (!transaction.isBusy) transaction.failure.isRun()
          transaction.failure.checkFailed()
          ReadSets.command(transaction, command)
          ReadSets.query(transaction, command, NoteStatementTables.notedOf(command))
          def isOfSession = !ScriptVariables(command) && !command.isInstanceOf[UndropTable]
          if (CommandCatalogue.decide(command) == Decision.Harmless && isOfSession)
            transaction.changesSession()
        }
    }
    val isStatement = root match {
      case _: TransactionCommand if !root.isInstanceOf[StatementOfTransaction] => false
      case _ => commands.nonEmpty && Transactions.isOpen(session)
    }
    val tables = NoteStatementTables.of(root)
    val run = SparingVacuum.in(root)
    if (tables.isEmpty && !isStatement && (run eq root)) Nil
    else if (commands.isEmpty) planned(root)(innerOf(tables))
    else
      planned(run)(
        CommandStatementExec(_, tables, isStatement, session, StatementTag.redoable(root))
      )
  }

  private def innerOf(tables: Set[Path]): SparkPlan => SparkPlan =
    InnerQueryExec(_, tables, session, reads(tables))

  private def reads(tables: Set[Path]): Option[PlannedReads] =
    Transactions.open(session).map(_.planned(tables))

  /** By adaptive execution, what is left of a query. */
  private def isPlannedAgain(query: LogicalPlan): Boolean =
    query.exists(_.isInstanceOf[LogicalQueryStage])

  private def planned(root: LogicalPlan)(statement: SparkPlan => SparkPlan): Seq[SparkPlan] = {
    val planner = session.asInstanceOf[classic.SparkSession].sessionState.planner
    planner.SpecialLimits(ReturnAnswer(root)).map(statement)
  }
}
