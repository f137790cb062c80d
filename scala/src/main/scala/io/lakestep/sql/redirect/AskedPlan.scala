package io.lakestep.sql.redirect

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

/** A statement as it came to the analyzer, kept on what becomes of it. */
private[sql] object AskedPlan {

  private val Tag = TreeNodeTag[LogicalPlan]("lakestep.asked")

  def of(plan: LogicalPlan): Option[LogicalPlan] = plan.getTagValue(Tag)

  /** The first one counts: a plan that was noted already is made of a redirected one. */
  def note(asked: LogicalPlan, plan: LogicalPlan): Unit =
    if (of(plan).isEmpty) plan.setTagValue(Tag, of(asked).getOrElse(asked))
}
