package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.RestoreTableCommand
import org.apache.spark.sql.delta.files.TahoeLogFileIndex
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Delta relations that were resolved before their table's overlay was known. */
object OverlayRelation {

  /** The path and file-system options of the Delta table that a resolved leaf reads, if any. */
  def table(plan: LogicalPlan): Option[(Path, Map[String, String])] = plan match {
    case LogicalRelation(HadoopFsRelation(i: TahoeLogFileIndex, _, _, _, _, _), _, _, _, _) =>
      Some((i.deltaLog.dataPath, i.deltaLog.options))
    case DataSourceV2Relation(t: DeltaTableV2, _, _, _, _, _) =>
      Some((t.deltaLog.dataPath, t.options))
    case ResolvedTable(_, _, t: DeltaTableV2, _) => Some((t.deltaLog.dataPath, t.options))
    case RestoreTableCommand(t) => Some((t.deltaLog.dataPath, t.options))
    case _ => None
  }

  /** Whether a leaf that `table` finds names no version. */
  def isOfNewest(plan: LogicalPlan): Boolean = plan match {
    case LogicalRelation(HadoopFsRelation(i: TahoeLogFileIndex, _, _, _, _, _), _, _, _, _) =>
      !i.isTimeTravelQuery
    case DataSourceV2Relation(t: DeltaTableV2, _, _, _, _, _) => t.timeTravelOpt.isEmpty
    case _ => true
  }

  /**
   * The same leaf over the table at another path, its overlay for example, with the same output.
   * None if the schema is another one there: then the plan above it, which was resolved against the
   * old one, cannot be kept.
   */
  def at(session: SparkSession, plan: LogicalPlan, overlay: Path): Option[LogicalPlan] =
    plan match {
      case relation @ LogicalRelation(
            HadoopFsRelation(index: TahoeLogFileIndex, _, dataSchema, _, _, _),
            _,
            catalogTable,
            _,
            _
          ) =>
        val there = catalogTable.map(moved(_, overlay))
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
          case fs: HadoopFsRelation if fs.dataSchema == dataSchema =>
            Some(relation.copy(relation = found, catalogTable = there))
          case _ => None
        }
      case relation @ DataSourceV2Relation(table: DeltaTableV2, _, _, _, _, _) =>
        moved(table, overlay).map(found => relation.copy(table = found))
      case target @ ResolvedTable(_, _, table: DeltaTableV2, _) =>
        moved(table, overlay).map(found => target.copy(table = found))
      case RestoreTableCommand(table) => moved(table, overlay).map(RestoreTableCommand(_))
      case _ => None
    }

  private def moved(table: DeltaTableV2, overlay: Path): Option[DeltaTableV2] = {
    val found = table.copy(path = overlay, catalogTable = table.catalogTable.map(moved(_, overlay)))
    Option.when(found.schema() == table.schema())(found)
  }

  private def moved(table: CatalogTable, overlay: Path): CatalogTable =
    table.copy(storage = table.storage.copy(locationUri = Some(overlay.toUri)), stats = None)
}
