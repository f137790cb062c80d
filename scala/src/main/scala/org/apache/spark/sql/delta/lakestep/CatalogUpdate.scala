package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.hooks.UpdateCatalogFactory
import org.apache.spark.sql.delta.sources.DeltaSQLConf

/**
 * Schema and properties of a table as the metastore knows them, brought up to date as Delta's hook does
 * after each commit, and on its threads (`spark.databricks.delta.catalog.update.enabled`).
 */
object CatalogUpdate {

  def isOn(session: SparkSession): Boolean =
    session.sessionState.conf.getConf(DeltaSQLConf.DELTA_UPDATE_CATALOG_ENABLED)

  def apply(session: SparkSession, name: TableIdentifier, table: Path): Unit = {
    val known = session.sessionState.catalog.getTableMetadata(name)
    UpdateCatalogFactory.getUpdateCatalogHook(known, session)
      .executeOnWrite(session, DeltaLog.forTable(session, table).update())
  }
}
