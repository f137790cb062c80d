package io.lakestep.catalog

import java.util.{HashMap => JHashMap, Map => JMap}

import org.apache.spark.sql.connector.catalog.{Identifier, Table, TableCatalog, TableInfo}
import org.apache.spark.sql.delta.catalog.{DeltaCatalog, DeltaTableV2}

/** CREATE TABLE LIKE since Spark 4.2. */
trait CreateTableLikeCall extends DeltaCatalog {

  /** Makes a table in the open transaction, if there is one. */
  protected def making[T](ident: Identifier, properties: JMap[String, String])(
      make: (Identifier, JMap[String, String]) => T): T

  override def createTableLike(ident: Identifier, info: TableInfo, source: Table): Table = {
    val asked = new JHashMap[String, String](info.properties)
    // Whatever is asked for, Delta makes a Delta table.
    if (source.isInstanceOf[DeltaTableV2]) asked.put(TableCatalog.PROP_PROVIDER, "delta")
    making(ident, asked) { (target, properties) =>
      val located = new TableInfo.Builder().withColumns(info.columns)
        .withPartitions(info.partitions).withConstraints(info.constraints)
        .withProperties(properties).build()
      super.createTableLike(target, located, source)
    }
  }
}
