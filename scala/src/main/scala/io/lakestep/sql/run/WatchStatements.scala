package io.lakestep.sql.run

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis.AnalysisContext
import org.apache.spark.sql.catalyst.plans.logical.{Command, CommandResult, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule

import org.apache.spark.sql.delta.lakestep.{Callers, DeltaReference, SparkInternals}
import io.lakestep.sql.command.{
  BeginTransaction, CommitTransaction, RollbackToSavepoint, RollbackTransaction,
  StatementOfTransaction, SetTransaction, TransactionCommand
}
import io.lakestep.sql.parse.StatementTag
import io.lakestep.transaction.{SessionEnvironment, SessionState, Transaction, Transactions}

/**
 * Tells the open transaction which statements were typed, and whether anybody may have seen a
 * result: of a query, of a DataFrame, of the frame that an UPDATE gave back. What is typed and does
 * not end as a statement that can be run again counts as seen, and so does all that comes by Spark
 * Connect, which hands every result on.
 */
private[lakestep] object WatchStatements {

  def inject(extensions: SparkSessionExtensions): Unit = {
    extensions.injectCheckRule(session => plan => atEnd(session, plan))
    extensions.injectPlanNormalizationRule(new AtExecution(_))
  }

  /** To run before anything else of an analysis. */
  def atStart(session: SparkSession): Rule[LogicalPlan] = new AtStart(session)

  def ended(
      session: SparkSession,
      transaction: Transaction,
      statement: StatementTag): Unit = {
    if (Callers.isConnect) transaction.typed.see()
    transaction.typed.end(
      statement,
      () => { SparkInternals.frame(session, statement.parsed).queryExecution.commandExecuted; () }
    )
  }

  private final class AtStart(session: SparkSession) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      if (isOfFrame(plan))
        watched(session).foreach(_.failure.check(isInner = Callers.isInAnalysis))
      for (statement <- StatementTag.of(plan) if !isInView; transaction <- watched(session)) {
        if (!plan.isInstanceOf[RollbackToSavepoint])
          transaction.failure.check(statement, Callers.isInAnalysis)
        transaction.failure.analysing(statement, Callers.isInAnalysis)
        transaction.typed.begin(statement, transaction.savepoint(SessionEnvironment.of(session)))
      }
      plan
    }
  }

  private def atEnd(session: SparkSession, plan: LogicalPlan): Unit = {
    for {
      statement <- StatementTag.of(plan)
      if !plan.isInstanceOf[Command] || plan.isInstanceOf[StatementOfTransaction]
      transaction <- watched(session)
    } transaction.failure.isAnalysed(statement)
    if (StatementTag.of(plan).isEmpty && !isOwn(plan))
      // Also called for each subquery of a statement.
      for (transaction <- watched(session) if shows(plan) || plan.isInstanceOf[Command])
        transaction.typed.seeApart()
  }

  private final class AtExecution(session: SparkSession) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      if (!plan.isInstanceOf[Command] && !isOwn(plan))
        for (transaction <- watched(session)) {
          // Where a function was put in its place, the plan is not told by its tag any more.
          transaction.failure.isRun()
          if (shows(plan)) transaction.typed.see()
        }
      plan
    }
  }

  /** The open transaction, unless this is a part of a statement that runs. */
  private def watched(session: SparkSession): Option[Transaction] =
    Transactions.state(session) match {
      case SessionState.Open(transaction) if !transaction.isBusy => Some(transaction)
      case _ => None
    }

  /** A query of a Delta table, or the rows that a command gave back. */
  private def shows(plan: LogicalPlan): Boolean = plan.collectWithSubqueries {
    case node if node.isInstanceOf[CommandResult] || DeltaReference.in(node).nonEmpty => ()
  }.nonEmpty

  /** BEGIN and its like show nothing of a table; what tells of transactions does. */
  private def isOwn(plan: LogicalPlan): Boolean = plan match {
    case result: CommandResult => isOwn(result.commandLogicalPlan)
    case _: BeginTransaction | _: CommitTransaction | _: RollbackTransaction | _: SetTransaction |
        _: StatementOfTransaction => true
    case _ => false
  }

  /** A command that came without a text: of a DataFrame. */
  private def isOfFrame(plan: LogicalPlan): Boolean = plan match {
    case _: TransactionCommand => false
    case command: Command => StatementTag.of(command).isEmpty
    case _ => false
  }

  private def isInView: Boolean = AnalysisContext.get.nestedViewDepth > 0
}
