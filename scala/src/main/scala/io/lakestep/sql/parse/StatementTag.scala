package io.lakestep.sql.parse

import org.apache.spark.sql.catalyst.expressions.{CallMethodViaReflection, UserDefinedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan, ScriptTransformation}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

import io.lakestep.sql.command.{StatementOfTransaction, TransactionCommand}
import io.lakestep.sql.guard.{CommandCatalogue, Decision, TransactionGuard}

/** A statement as the parser read it. The plan that is made of it carries it along as a tag. */
final class StatementTag(val parsed: LogicalPlan)

private[sql] object StatementTag {

  private val Tag = TreeNodeTag[StatementTag]("lakestep.typed")

  def note(parsed: LogicalPlan): Unit = parsed.setTagValue(Tag, new StatementTag(parsed))

  def of(plan: LogicalPlan): Option[StatementTag] = plan.getTagValue(Tag)

  /** One that changes tables or the session, and calls nothing of the user's. */
  def redoable(plan: LogicalPlan): Option[StatementTag] = plan match {
    case own: StatementOfTransaction => of(own)
    case _: TransactionCommand => None
    case command: Command
        if CommandCatalogue.decide(command) == Decision.Staged ||
          CommandCatalogue.decide(command) == Decision.Harmless =>
      of(plan).filterNot(_ => callsUser(command))
    case _ => None
  }

  private def callsUser(node: LogicalPlan): Boolean =
    node.isInstanceOf[ScriptTransformation] || node.expressions.exists(_.exists {
      case _: UserDefinedExpression | _: CallMethodViaReflection => true
      case _ => false
    }) || TransactionGuard.inside(node).exists(callsUser)
}
