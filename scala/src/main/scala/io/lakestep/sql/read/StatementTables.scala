package io.lakestep.sql.read

import java.util.concurrent.atomic.AtomicLong

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Subquery, UnaryNode}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.delta.files.{TahoeBatchFileIndex, TahoeFileIndex, TahoeLogFileIndex}
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper, LogicalQueryStage}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

import org.apache.spark.sql.delta.lakestep.{DeltaReference, DeltaScan}
import io.lakestep.sql.guard.StatementKinds
import io.lakestep.transaction.Transactions

/**
 * The root of a query: the Delta tables that it was made for, some of which the optimizer may take
 * out of the plan because the log alone answers (a count) or nothing can match.
 *
 * @param scans those of each table, by name, as far as later commits could change what is read
 */
final case class StatementTables(
    child: LogicalPlan,
    tables: Set[Path],
    scans: Map[Path, Set[String]])
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(newChild: LogicalPlan): StatementTables =
    copy(child = newChild)
}

/** The root of a physical plan, which knows the Delta tables that are read below it. */
private[sql] trait ReadsTables extends SparkPlan {
  def tables: Set[Path]
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

/**
 * Notes the tables of a statement before any of them is optimized away. In a SERIALIZABLE transaction
 * each scan gets a name, as an optimizer also copies scans.
 */
final case class NoteStatementTables(session: SparkSession) extends Rule[LogicalPlan] {
  import NoteStatementTables._

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case _: StatementTables | _: Subquery => plan
    case command if StatementKinds.commands(command).nonEmpty =>
      if (command.getTagValue(Noted).isEmpty && Transactions.areReadsRecorded(session)) {
        val named = withNames(command)
        named.setTagValue(Noted, scans(named))
        named
      } else command
    case query =>
      val tables = of(query)
      if (tables.isEmpty) query
      else {
        val named = if (Transactions.areReadsRecorded(session)) withNames(query) else query
        StatementTables(named, tables, scans(named))
      }
  }
}

object NoteStatementTables extends AdaptiveSparkPlanHelper {

  private val Name = "lakestep.scan"
  private val Noted = TreeNodeTag[Map[Path, Set[String]]]("lakestep.scans")
  private val names = new AtomicLong

  /** Paths of the Delta tables that a plan reads, subqueries and cached data included. */
  def of(plan: LogicalPlan): Set[Path] = found(plan)(_ => true).map(_._1).toSet

  def nameOf(scan: LogicalRelation): String = scan.relation match {
    case fs: HadoopFsRelation => fs.options.getOrElse(Name, "")
    case _ => ""
  }

  /** What was noted of a command before it was optimized. */
  def notedOf(command: LogicalPlan): Map[Path, Set[String]] =
    command.getTagValue(Noted).getOrElse(Map.empty)

  private def withNames(plan: LogicalPlan): LogicalPlan = plan.transformDownWithSubqueries {
    case scan @ DeltaScan(_) =>
      scan.relation match {
        case fs: HadoopFsRelation if !fs.options.contains(Name) =>
          val options = fs.options + (Name -> names.incrementAndGet().toString)
          scan.copy(relation = fs.copy(options = options)(fs.sparkSession))
        case _ => scan
      }
  }

  private def scans(plan: LogicalPlan): Map[Path, Set[String]] =
    found(plan)(StatementTables.mayChange).groupMap(_._1)(_._2).view.mapValues(_.toSet).toMap

  /** Each table with the name of the scan; of cached data and of a change feed no scan has it. */
  private def found(plan: LogicalPlan)(counts: TahoeFileIndex => Boolean): Seq[(Path, String)] =
    plan.collectWithSubqueries {
      case scan @ DeltaScan(index) => if (counts(index)) Seq(index.path -> nameOf(scan)) else Nil
      case other @ (_: LogicalRelation | _: DataSourceV2Relation) =>
        DeltaReference.in(other).map(_.path -> "other")
      case cached: InMemoryRelation =>
        collect(cached.cacheBuilder.cachedPlan) { case s: ReadsTables => s.tables }.flatten
          .map(_ -> "cached")
      // What adaptive execution has run already when it plans the rest again.
      case stage: LogicalQueryStage => found(stage.logicalPlan)(counts)
    }.flatten
}
