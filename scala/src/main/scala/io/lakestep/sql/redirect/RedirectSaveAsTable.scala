package io.lakestep.sql.redirect

import org.apache.spark.sql.{SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, ResolvedIdentifier}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ReplaceTableAsSelect}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{SupportsV1OverwriteWithSaveAsTable, TableCatalog}
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.sources.DeltaDataSource
import org.apache.spark.sql.execution.datasources.{DataSourceUtils, SaveIntoDataSourceCommand}

import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.Transactions

/**
 * `df.write.mode("overwrite").saveAsTable(existing)` inside a transaction.
 *
 * Spark plans it as REPLACE TABLE AS SELECT, with an option by which Delta knows that it overwrites
 * rows and keeps the table. That is what `df.write.mode("overwrite").save(path)` does, which stages
 * and touches no metastore. A new table stays what it is, and is refused.
 */
final case class RedirectSaveAsTable(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case replace: ReplaceTableAsSelect if replace.query.resolved && Transactions.isOpen(session) =>
      val save = for {
        table <- RedirectSaveAsTable.target(replace)
        if OverlayPath.isOverlay(table.path)
        layout <- layout(replace)
      } yield SaveIntoDataSourceCommand(
        replace.query,
        new DeltaDataSource,
        replace.writeOptions.filterNot(_._1.equalsIgnoreCase("path")) ++ layout +
          ("path" -> table.path.toString),
        SaveMode.Overwrite
      )
      save.getOrElse(plan)
    case other => other
  }

  /** `partitionBy` as `save` states it; None for what `save` cannot say (buckets, `clusterBy`). */
  private def layout(replace: ReplaceTableAsSelect): Option[Map[String, String]] = {
    val transforms = replace.partitioning
    if (transforms.isEmpty) Some(Map.empty)
    else if (transforms.exists(_.name() != "identity")) None
    else {
      val columns = transforms.flatMap(_.references()).map(_.fieldNames().mkString("."))
      val key = DataSourceUtils.PARTITIONING_COLUMNS_KEY
      Some(Map(key -> DataSourceUtils.encodePartitioningColumns(columns)))
    }
  }
}

object RedirectSaveAsTable {

  /** The table that there is already, and that a `saveAsTable` overwrites. */
  private[sql] def target(plan: LogicalPlan): Option[DeltaTableV2] = plan match {
    case replace: ReplaceTableAsSelect if isSaveAsTable(replace) =>
      replace.name match {
        case ResolvedIdentifier(catalog: TableCatalog, identifier) =>
          try Some(catalog.loadTable(identifier)).collect { case table: DeltaTableV2 => table }
          catch { case _: NoSuchTableException => None }
        case _ => None
      }
    case _ => None
  }

  private def isSaveAsTable(replace: ReplaceTableAsSelect): Boolean =
    replace.writeOptions.exists { case (key, value) =>
      key.equalsIgnoreCase(SupportsV1OverwriteWithSaveAsTable.OPTION_NAME) && value == "true"
    }
}
