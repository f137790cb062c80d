package io.lakestep.catalog

import org.apache.spark.sql.catalyst.catalog.ExternalCatalog
import org.apache.spark.sql.types.StructType

/** Since Spark 4.1. */
trait AlterTableSchemaCall extends ExternalCatalog {
  protected def base: ExternalCatalog

  def alterTableSchema(schema: String, table: String, data: StructType): Unit =
    base.alterTableSchema(schema, table, data)
}
