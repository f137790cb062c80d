package io.lakestep.sql.guard

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand

import org.apache.spark.sql.delta.lakestep.{Callers, DeltaReference}
import io.lakestep.{Errors, LakestepConf, LakestepException}
import io.lakestep.transaction.{MicroBatch, Transactions}

/**
 * Refuses, before it has done anything, every plan that cannot be part of the open transaction of
 * its session. While no transaction is open it does nothing, unless the session asks for one: then
 * it refuses every plan that writes. So it does, whatever is open, in a session outside the batch of
 * a stream that a transaction holds.
 *
 * Three things are refused: a node that [[CommandCatalogue]] refuses, a node that holds a Delta
 * table by its own path instead of the overlay's, and one that holds it by a connector of Delta's
 * that nobody can watch. Nodes inside commands are judged as well.
 *
 * Three places are needed, as no single one sees every plan (docs/protocol/guard.md):
 *   1. the end of the analysis, for each statement and each DataFrame operation;
 *   1. the start of the analysis, for the nodes on which Spark acts during the analysis;
 *   1. the start of the execution, for a DataFrame analysed before BEGIN: Spark does not analyse
 *      it again. The rule runs before cached data is looked up, so a cached table is seen too.
 *
 * @param isInTransaction thread-safe and cheap: it is asked for every plan of every session
 * @param isReadOnly whether that transaction may write nothing
 * @param isRequired whether a session without a transaction may write nothing
 * @param isOutsideBatch whether the thread is in a batch that is a transaction of another session
 */
final class TransactionGuard(
    isInTransaction: SparkSession => Boolean,
    isReadOnly: SparkSession => Boolean,
    isRequired: SparkSession => Boolean,
    isOutsideBatch: SparkSession => Boolean) {

  /** How a plan that writes, and its statement, are refused where no transaction holds them. */
  private type RefuseWrite = (LogicalPlan, String) => Nothing

  def inject(extensions: SparkSessionExtensions): Unit = {
    extensions.injectCheckRule(session => plan => check(session, plan))
    extensions.injectPlanNormalizationRule(session => new AtExecution(session))
  }

  /** To run before anything else of an analysis. */
  def atStart(session: SparkSession): Rule[LogicalPlan] = new AtStart(session)

  /** Throws if the session has an open transaction of which `plan` cannot be a part. */
  def check(session: SparkSession, plan: LogicalPlan): Unit =
    refusingWrites(session) match {
      case Some(refuse) => refuseWrites(plan, refuse)
      case None => if (isInTransaction(session)) failing(session)(judge(session, plan))
    }

  private def refusingWrites(session: SparkSession): Option[RefuseWrite] =
    if (isOutsideBatch(session)) Some((_, statement) => throw MicroBatch.outside(statement))
    else
      Option.when(!isInTransaction(session) && isRequired(session)) {
        refuseOutside(session, _, _)
      }

  /** What is refused is a statement that failed. */
  private def failing(session: SparkSession)(body: => Unit): Unit =
    try body
    catch {
      case refusal: LakestepException =>
        Transactions.failed(session, refusal)
        throw refusal
    }

  private final class AtStart(session: SparkSession) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      val refusing = refusingWrites(session)
      if (refusing.isEmpty && isInTransaction(session)) failing(session) {
        plan.foreach(node => CommandCatalogue.decideEarly(node).foreach(refuse(node, _)))
        // No plan says so, and Spark 4.0.1 drops the table before it makes the one that is refused.
        if (Callers.isSaveAsTable)
          throw Errors(
            "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.CREATE_TABLE",
            "statement" -> "saveAsTable",
            "target" -> StatementName.subject(plan)
          )
      }
      refusing.foreach { refuse =>
        plan.foreach { node =>
          if (CommandCatalogue.decideEarly(node).exists(isWrite(node, _)))
            refuse(node, StatementName.of(node))
        }
        if (Callers.isSaveAsTable) refuse(plan, "saveAsTable")
      }
      plan
    }
  }

  private final class AtExecution(session: SparkSession) extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      if (!Callers.isRecaching) check(session, plan)
      plan
    }
  }

  private def refuseWrites(node: LogicalPlan, refuse: RefuseWrite): Unit = {
    if (isWrite(node, CommandCatalogue.decide(node))) refuse(node, StatementName.of(node))
    TransactionGuard.inside(node).foreach(refuseWrites(_, refuse))
  }

  /** Whether a node changes something by itself that others can see. */
  private def isWrite(node: LogicalPlan, decision: Decision): Boolean = decision match {
    case Decision.Staged => true
    case Decision.Refused("STREAMING") => node match {
        case stream: WriteToStream => StatementKinds.commitsBatches(stream)
        case _ => false
      }
    case Decision.Refused("UNKNOWN_COMMAND") => node.isInstanceOf[Command]
    case Decision.Refused(_) => true
    case _ => node match {
        case own: OwnWrite => own.writes
        case _ => false
      }
  }

  private def refuseOutside(
      session: SparkSession,
      node: LogicalPlan,
      statement: String): Nothing = {
    // A wrong setting is told as such.
    LakestepConf.RequireTransaction.from(session.conf.getOption)
    throw Errors(
      "LAKESTEP_TRANSACTION_REQUIRED",
      "statement" -> statement,
      "target" -> StatementName.subject(node)
    )
  }

  private def judge(session: SparkSession, node: LogicalPlan): Unit = {
    CommandCatalogue.decide(node) match {
      case Decision.Refused("VACUUM") if Transactions.permitsVacuum(session) =>
      case refused: Decision.Refused => refuse(node, refused)
      case Decision.Staged if isReadOnly(session) =>
        throw Errors("LAKESTEP_READ_ONLY_TRANSACTION", "statement" -> StatementName.of(node))
      case _ =>
    }
    val tables = DeltaReference.in(node)
    if (tables.exists(_.byKernel)) refuse(node, Decision.Refused("KERNEL_CONNECTOR"))
    tables.filterNot(_.isOverlay).foreach(refuse(session, node, _))
    TransactionGuard.inside(node).foreach(judge(session, _))
  }

  private def refuse(node: LogicalPlan, refused: Decision.Refused): Nothing =
    throw Errors(
      s"LAKESTEP_UNSUPPORTED_IN_TRANSACTION.${refused.reason}",
      "statement" -> StatementName.of(node),
      "target" -> StatementName.subject(node)
    )

  private def refuse(session: SparkSession, node: LogicalPlan, base: DeltaReference): Nothing =
    node match {
      case _: SaveIntoDataSourceCommand if !base.exists(session) =>
        refuse(node, Decision.Refused("CREATE_TABLE"))
      case _ =>
        throw Errors(
          "LAKESTEP_BASE_TABLE_IN_TRANSACTION",
          "statement" -> StatementName.of(node),
          "table" -> base.display
        )
    }
}

private[sql] object TransactionGuard {

  /**
   * Every plan that runs when `node` runs. Commands keep plans in fields that are neither children
   * nor inner children (the target of DELETE, the table of a V2 write).
   */
  def inside(node: LogicalPlan): Seq[LogicalPlan] = node match {
    // EXPLAIN and DESCRIBE QUERY analyse their plan by themselves, and so meet this rule again.
    case _: SupervisingCommand => Nil
    // Has run already; its plan is kept for display.
    case _: CommandResult => Nil
    case _ =>
      val held = node match {
        case command: Command => command.productIterator.flatMap(plans)
        case _ => Iterator.empty
      }
      val inner = node.innerChildren.iterator.collect { case plan: LogicalPlan => plan }
      (node.children ++ node.subqueries ++ inner ++ held).distinctBy(System.identityHashCode)
  }

  private def plans(value: Any): Seq[LogicalPlan] = value match {
    case plan: LogicalPlan => Seq(plan)
    case Some(plan: LogicalPlan) => Seq(plan)
    case _ => Nil
  }
}
