package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.{AlterDeltaTableCommand, RestoreTableCommand}
import org.apache.spark.sql.delta.files.TahoeLogFileIndex
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Delta relations that were resolved before their table's overlay was known. */
object OverlayRelation {

  /** The path and file-system options of the Delta table that a resolved leaf reads, if any. */
  def table(plan: LogicalPlan): Option[(Path, Map[String, String])] = plan match {
    case DeltaScan(i: TahoeLogFileIndex) => Some((i.deltaLog.dataPath, i.deltaLog.options))
    case DeltaTableOf(t) => Some((t.deltaLog.dataPath, t.options))
    case _ => None
  }

  /** Whether a leaf that `table` finds names no version. */
  def isOfNewest(plan: LogicalPlan): Boolean = plan match {
    case DeltaScan(i: TahoeLogFileIndex) => !i.isTimeTravelQuery
    case relation: DataSourceV2Relation =>
      DeltaTableOf.unapply(relation).forall(_.timeTravelOpt.isEmpty)
    case _ => true
  }

  /**
   * The same leaf over the table at another path, its overlay for example, with the same output.
   * None if the schema is another one there: then the plan above it, which was resolved against the
   * old one, cannot be kept.
   */
  def at(session: SparkSession, plan: LogicalPlan, overlay: Path): Option[LogicalPlan] =
    plan match {
      case relation @ DeltaScan(index: TahoeLogFileIndex) =>
        val there = relation.catalogTable.map(moved(_, overlay))
        val log = DeltaTableV2(session, overlay, there, options = index.deltaLog.options).deltaLog
        val snapshot = index.versionToUse match {
          case Some(version) => log.getSnapshotAt(version, catalogTableOpt = there)
          case None => log.update(catalogTableOpt = there)
        }
        val found = log.createRelation(
          index.partitionFilters,
          Some(snapshot),
          there,
          isTimeTravelQuery = index.versionToUse.isDefined
        )
        found match {
          case fs: HadoopFsRelation if DeltaScan.dataSchema(relation).contains(fs.dataSchema) =>
            Some(relation.copy(relation = found, catalogTable = there))
          case _ => None
        }
      case DeltaTableOf(table) =>
        moved(table, overlay).map { found =>
          plan match {
            case relation: DataSourceV2Relation => relation.copy(table = found)
            case target: ResolvedTable => target.copy(table = found)
            case command =>
              command.makeCopy(command.productIterator.map {
                case _: DeltaTableV2 => found
                case other => other.asInstanceOf[AnyRef]
              }.toArray)
          }
        }
      case _ => None
    }

  /** The target of a write over a table that the transaction has made, which has columns only there. */
  def ofNew(target: LogicalPlan, overlay: Path): Option[LogicalPlan] = target match {
    case relation @ DeltaTableOf(table) =>
      Option(relation).collect { case r: DataSourceV2Relation =>
        DataSourceV2Relation.create(at(table, overlay), r.catalog, r.identifier, r.options)
      }
    case _ => None
  }

  /** A leaf that holds a table of Delta's connector. */
  private object DeltaTableOf {
    def unapply(leaf: LogicalPlan): Option[DeltaTableV2] = Option(leaf match {
      case relation: DataSourceV2Relation => relation.table
      case target: ResolvedTable => target.table
      case restore: RestoreTableCommand => restore.sourceTable
      case alter: AlterDeltaTableCommand => alter.table
      case _ => null
    }).collect { case table: DeltaTableV2 => table }
  }

  private def moved(table: DeltaTableV2, overlay: Path): Option[DeltaTableV2] = {
    val found = at(table, overlay)
    Option.when(found.schema() == table.schema())(found)
  }

  private def at(table: DeltaTableV2, overlay: Path): DeltaTableV2 =
    table.copy(path = overlay, catalogTable = table.catalogTable.map(moved(_, overlay)))

  private def moved(table: CatalogTable, overlay: Path): CatalogTable =
    table.copy(storage = table.storage.copy(locationUri = Some(overlay.toUri)), stats = None)
}
