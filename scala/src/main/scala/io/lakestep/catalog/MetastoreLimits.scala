package io.lakestep.catalog

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogTable, CatalogTableType, ExternalCatalog
}
import org.apache.spark.sql.internal.StaticSQLConf.CATALOG_IMPLEMENTATION

import io.lakestep.Errors
import io.lakestep.names.Metastore

/**
 * What a metastore cannot keep could not be made after the outcome, and would keep later changes of the
 * same names waiting: it is refused by its statement.
 *
 * Characters of Hive's columns. Source: its `package.jdo`.
 */
private[catalog] final class MetastoreLimits(session: SparkSession) {
  import MetastoreLimits._

  private def isHive = session.conf.get(CATALOG_IMPLEMENTATION.key) == "hive"

  /** What makes the client of Hive, which a session has from its start. */
  private lazy val factory =
    if (isHive) session.sessionState.newHadoopConf().get(FactoryKey, "") else ""

  /**
   * To be called before a name is changed: whether COMMIT can say whose names these are, and make them.
   *
   * Conditions: LAKESTEP_UNSUPPORTED_IN_TRANSACTION.GLUE, LAKESTEP_METASTORE_WITHOUT_ID.
   */
  def refuseUnfit(base: ExternalCatalog): Unit = {
    if (factory.toLowerCase.contains("glue")) throw unsupported("GLUE", factory)
    Metastore.id(base)
    ()
  }

  private def unsupported(why: String, target: String) = Errors(
    s"LAKESTEP_UNSUPPORTED_IN_TRANSACTION.$why",
    "statement" -> "Changing a name",
    "target" -> target
  )

  /** Two spellings are one name for Hive alone. Condition: LAKESTEP_UNSUPPORTED_IN_TRANSACTION.CASE_SENSITIVE. */
  def refuseSpelling(names: => Iterable[String]): Unit =
    if (isHive && session.sessionState.conf.caseSensitiveAnalysis)
      for (name <- names.find(n => n != n.toLowerCase(Locale.ROOT)))
        throw unsupported("CASE_SENSITIVE", name)

  /** Condition: LAKESTEP_NAME_TOO_LONG, as of the other methods. */
  def refuse(schema: CatalogDatabase): Unit = {
    name(schema.name, 128)
    refuse(s"the comment of ${schema.name}", schema.description, 4000)
    refuse(s"the location of ${schema.name}", schema.locationUri.toString, 4000)
    properties(schema.name, schema.properties, key = 180, value = 4000)
  }

  def refuse(table: CatalogTable): Unit = {
    val called = table.identifier.table
    renamed(table, called)
    for (location <- table.storage.locationUri)
      refuse(s"the location of $called", location.toString, 4000)
    properties(called, table.properties ++ table.comment.map("comment" -> _), 256, 32672)
  }

  /**
   * Spark lets Hive make a folder for each table, whose name has `-__PLACEHOLDER__` after that of the table,
   * and 255 bytes at most.
   */
  def renamed(table: CatalogTable, to: String): Unit =
    name(to, if (table.tableType == CatalogTableType.VIEW) 256 else 239)

  private def name(called: String, most: Int): Unit = refuse(called, called, most)

  private def properties(of: String, all: Map[String, String], key: Int, value: Int): Unit =
    for ((k, v) <- all) {
      refuse(s"the property $k of $of", k, key)
      refuse(s"the property $k of $of", v, value)
    }

  private def refuse(what: => String, kept: String, most: Int): Unit =
    if (kept.length > most && isHive)
      throw Errors("LAKESTEP_NAME_TOO_LONG", "name" -> what, "most" -> most.toString)
}

private object MetastoreLimits {
  val FactoryKey = "hive.metastore.client.factory.class"
}
