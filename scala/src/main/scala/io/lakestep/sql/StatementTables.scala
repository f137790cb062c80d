package io.lakestep.sql

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Subquery, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.files.{TahoeBatchFileIndex, TahoeFileIndex, TahoeLogFileIndex}
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, LogicalQueryStage}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

/**
 * The root of a query: the Delta tables that it was made for, some of which the optimizer may take
 * out of the plan because the log alone answers (a count) or nothing can match.
 *
 * @param scans how often each table is read, as far as later commits could change what is read
 */
final case class StatementTables(child: LogicalPlan, tables: Set[Path], scans: Map[Path, Int])
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): StatementTables =
    copy(child = newChild)
}

/** The scan of a Delta table. */
private[sql] object DeltaScan {
  def unapply(scan: LogicalRelation): Option[TahoeFileIndex] = scan.relation match {
    case HadoopFsRelation(index: TahoeFileIndex, _, _, _, _, _) => Some(index)
    case _ => None
  }
}

object StatementTables {

  /** Not a version that was named, nor files that a command of Delta picked by its own condition. */
  def mayChange(index: TahoeFileIndex): Boolean = index match {
    case log: TahoeLogFileIndex => !log.isTimeTravelQuery
    case prepared: PreparedDeltaFileIndex => prepared.versionScanned.isEmpty
    case _: TahoeBatchFileIndex => false
    case _ => true
  }
}

/** Notes the tables of a query before any of them is optimized away. */
object NoteStatementTables extends Rule[LogicalPlan] with AdaptiveSparkPlanHelper {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case _: StatementTables | _: Subquery => plan
    case statement if StatementKinds.commands(statement).nonEmpty => plan
    case query =>
      val tables = of(query)
      if (tables.isEmpty) query
      else
        StatementTables(query, tables, scans(query).groupMapReduce(identity)(_ => 1)(_ + _))
  }

  /** Paths of the Delta tables that a plan scans, subqueries and cached data included. */
  def of(plan: LogicalPlan): Set[Path] = found(plan)(_ => true).toSet

  private def scans(plan: LogicalPlan): Seq[Path] = found(plan)(StatementTables.mayChange)

  private def found(plan: LogicalPlan)(counts: TahoeFileIndex => Boolean): Seq[Path] =
    plan.collectWithSubqueries {
      case DeltaScan(index) => if (counts(index)) Seq(index.path) else Nil
      case cached: InMemoryRelation =>
        collect(cached.cacheBuilder.cachedPlan) { case s: StatementExec => s.tables }.flatten
      // What adaptive execution has run already when it plans the rest again.
      case stage: LogicalQueryStage => found(stage.logicalPlan)(counts)
    }.flatten
}
