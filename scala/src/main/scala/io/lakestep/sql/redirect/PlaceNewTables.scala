package io.lakestep.sql.redirect

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.commands.{
  CloneDeltaSource, CloneTableCommand, CreateDeltaTableCommand
}

import org.apache.spark.sql.delta.lakestep.OverlayCloneSource
import io.lakestep.catalog.MakingTable
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.Transactions

/**
 * CLONE, and CREATE TABLE LIKE before Spark 4.2: Delta's analysis says where the new table lies, so it is here
 * that it goes to its overlay. The files of a clone are those of the source itself.
 */
final case class PlaceNewTables(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case create: CreateDeltaTableCommand => ofBase(placed(create))
    case other => other
  }

  private def placed(create: CreateDeltaTableCommand): CreateDeltaTableCommand =
    Option.when(create.existingTableOpt.isEmpty)(create)
      .flatMap(c => MakingTable.placed(session, c.table, c.tableByPath))
      .fold(create) { table =>
        val place = new Path(table.location)
        val identifier =
          if (create.tableByPath) TableIdentifier(place.toString, Some("delta"))
          else table.identifier
        create.copy(
          table = table.copy(identifier = identifier),
          query = create.query.map {
            case clone: CloneTableCommand => clone.copy(targetPath = place)
            case other => other
          }
        )
      }

  private def ofBase(create: CreateDeltaTableCommand): CreateDeltaTableCommand =
    create.query.collect { case clone: CloneTableCommand => clone -> clone.sourceTable }.collect {
      case (clone, source: CloneDeltaSource) if OverlayPath.isOverlay(source.dataPath) =>
        Transactions.open(session).foreach(_.names.hasClones = true)
        val read = new OverlayCloneSource(source, OverlayPath.parse(source.dataPath).base)
        create.copy(query = Some(clone.copy(sourceTable = read)))
    }.getOrElse(create)
}
