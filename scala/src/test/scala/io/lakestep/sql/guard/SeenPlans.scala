package io.lakestep.sql.guard

import java.util.{Set => JSet}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

/** An extension for tests, which notes what statements become: the class of each node of their plans. */
final class SeenPlans extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectResolutionRule(_ => SeenPlans)
    extensions.injectPlanNormalizationRule(_ => SeenPlans)
  }
}

object SeenPlans extends Rule[LogicalPlan] {
  private val found = ConcurrentHashMap.newKeySet[String]

  def seen: JSet[String] = found

  override def apply(plan: LogicalPlan): LogicalPlan = {
    note(plan)
    plan
  }

  private def note(plan: LogicalPlan): Unit = {
    found.add(plan.getClass.getName)
    TransactionGuard.inside(plan).foreach(note)
  }
}
