package io.lakestep.catalog

import org.apache.spark.sql.catalyst.catalog.ExternalCatalog
import org.apache.spark.sql.types.StructType

/** Before Spark 4.1 a catalog has no such call. */
trait AlterTableSchemaCall extends ExternalCatalog {
  protected def base: ExternalCatalog

  def alterTableSchema(schema: String, table: String, data: StructType): Unit =
    base.alterTableDataSchema(schema, table, data)
}
