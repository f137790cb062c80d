package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.delta.catalog.DeltaTableV2
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
    case _ => None
  }

  /**
   * The same leaf over the table's overlay, with the same output. None if the overlay's schema is
   * another one: then the plan above it, which was resolved against the old one, cannot be kept.
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
        val moved = catalogTable.map { t =>
          t.copy(storage = t.storage.copy(locationUri = Some(overlay.toUri)), stats = None)
        }
        val log = DeltaTableV2(session, overlay, moved, options = index.deltaLog.options).deltaLog
        val snapshot = index.versionToUse match {
          case Some(version) => log.getSnapshotAt(version, catalogTableOpt = moved)
          case None => log.update(catalogTableOpt = moved)
        }
        val found = log.createRelation(
          index.partitionFilters,
          Some(snapshot),
          moved,
          isTimeTravelQuery = index.versionToUse.isDefined
        )
        found match {
          case fs: HadoopFsRelation if fs.dataSchema == dataSchema =>
            Some(relation.copy(relation = found, catalogTable = moved))
          case _ => None
        }
      case relation @ DataSourceV2Relation(table: DeltaTableV2, _, _, _, _, _) =>
        val moved = table.catalogTable.map { t =>
          t.copy(storage = t.storage.copy(locationUri = Some(overlay.toUri)), stats = None)
        }
        val found = table.copy(path = overlay, catalogTable = moved)
        if (found.schema() == table.schema()) Some(relation.copy(table = found)) else None
      case _ => None
    }
}
