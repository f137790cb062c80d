package io.lakestep.sql

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Subquery, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.files.TahoeFileIndex
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, LogicalQueryStage}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

/**
 * The root of a query: the Delta tables that it was made for, some of which the optimizer may take
 * out of the plan because the log alone answers (a count) or nothing can match.
 */
final case class StatementTables(child: LogicalPlan, tables: Set[Path]) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): StatementTables =
    copy(child = newChild)
}

/** Notes the tables of a query before any of them is optimized away. */
object NoteStatementTables extends Rule[LogicalPlan] with AdaptiveSparkPlanHelper {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case _: StatementTables | _: Subquery => plan
    case statement if StatementKinds.commands(statement).nonEmpty => plan
    case query =>
      val tables = of(query)
      if (tables.isEmpty) query else StatementTables(query, tables)
  }

  /** Paths of the Delta tables that a plan scans, subqueries and cached data included. */
  def of(plan: LogicalPlan): Set[Path] =
    plan
      .collectWithSubqueries {
        case LogicalRelation(HadoopFsRelation(index: TahoeFileIndex, _, _, _, _, _), _, _, _, _) =>
          Set(index.path)
        case cached: InMemoryRelation =>
          collect(cached.cacheBuilder.cachedPlan) { case s: StatementExec =>
            s.tables
          }.flatten.toSet
        // What adaptive execution has run already when it plans the rest again.
        case stage: LogicalQueryStage => of(stage.logicalPlan)
      }
      .flatten
      .toSet
}
