package io.lakestep.sql.guard

import org.apache.spark.sql.catalyst.analysis.{FakeLocalCatalog, ResolvedIdentifier}
import org.apache.spark.sql.catalyst.expressions.VariableReference
import org.apache.spark.sql.catalyst.plans.logical.{Command, CreateVariable, SetVariable}

/** Commands about variables of a script, which end with it. */
private[sql] object ScriptVariables {

  def apply(command: Command): Boolean = command match {
    case create: CreateVariable =>
      create.children.nonEmpty && create.children.forall {
        case name: ResolvedIdentifier => name.catalog == FakeLocalCatalog
        case _ => false
      }
    case set: SetVariable =>
      set.targetVariables.nonEmpty && set.targetVariables.forall {
        case variable: VariableReference => variable.catalog == FakeLocalCatalog
        case _ => false
      }
    case _ => false
  }
}
