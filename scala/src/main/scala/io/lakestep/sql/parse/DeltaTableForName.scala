package io.lakestep.sql.parse

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.delta.lakestep.{Callers, SparkInternals}

/**
 * Inside a transaction `DeltaTable.forName` must go through the catalog, which knows the overlay.
 * Delta does so for names of three parts only; for one or two it asks the session catalog, past
 * every extension. So the parser it calls first gives it three.
 */
private[sql] object DeltaTableForName {

  def isCalling: Boolean = Callers.isDeltaTableForName

  /** Three parts for a table of the session catalog; a path, or a name it does not know, as is. */
  def qualified(session: SparkSession, parts: Seq[String]): Seq[String] = {
    val catalog = session.sessionState.catalog
    val found = parts match {
      case Seq(table) => Some(TableIdentifier(table, Some(catalog.getCurrentDatabase)))
      case Seq(schema, table) => Some(TableIdentifier(table, Some(schema)))
      case _ => None
    }
    found
      .filter(t => t.database.exists(catalog.databaseExists) && catalog.tableExists(t))
      .fold(parts)(t => SparkInternals.sessionCatalogName +: t.nameParts)
  }
}
