package io.lakestep.catalog

import java.util.{Map => JMap}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{Column, Identifier, StagedTable, Table}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.delta.catalog.DeltaCatalog
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import org.apache.spark.sql.delta.lakestep.SparkInternals
import io.lakestep.{Errors, RuntimeContract}
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.Transactions

/**
 * Delta's catalog, with the open transaction in front of it: while a session has one, every Delta
 * table it loads, by name or by path, is the transaction's overlay. Works as `spark_catalog` and
 * under any other name, where it shows the tables of the session catalog.
 *
 * Source: Hudi RFC-73, "TransactionalCatalog"; built on Delta because Spark's own
 * `TransactionalCatalogPlugin` is never told that a Delta write has finished.
 */
class TransactionalCatalog extends DeltaCatalog {
  RuntimeContract.check()

  private var catalogName = SparkInternals.sessionCatalogName

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    catalogName = name
    if (name != SparkInternals.sessionCatalogName) {
      setDelegateCatalog(SparkInternals.sessionCatalog(spark))
    }
    super.initialize(name, options)
  }

  private[catalog] def bindTo(session: SparkSession): Unit = if (spark ne session) {
    SparkInternals.bind(this, session)
    if (catalogName != SparkInternals.sessionCatalogName) {
      setDelegateCatalog(SparkInternals.sessionCatalog(session))
    }
  }

  override def name(): String = catalogName

  override def loadCatalogTable(ident: Identifier, table: CatalogTable): Table =
    overlayOf(table) match {
      case None => super.loadCatalogTable(ident, table)
      case Some(overlay) =>
        val storage = table.storage.copy(locationUri = Some(overlay.toUri))
        super.loadCatalogTable(ident, table.copy(storage = storage, stats = None))
    }

  override def loadPathTable(ident: Identifier): Table = {
    refuseForeignOverlay(ident.name())
    RedirectPath(spark, ident.name()) match {
      case None => super.loadPathTable(ident)
      case Some(overlay) => super.loadPathTable(Identifier.of(ident.namespace(), overlay))
    }
  }

  /** A path with our scheme comes from a redirection of the open transaction, or from a user. */
  private def refuseForeignOverlay(path: String): Unit =
    if (OverlayPath.isOverlay(path) && !owns(path))
      throw Errors("LAKESTEP_OVERLAY_PATH", "path" -> path)

  private def owns(path: String): Boolean =
    Transactions.open(spark).exists(_.owns(new Path(path)))

  private def overlayOf(table: CatalogTable): Option[Path] = Transactions.open(spark).flatMap(
    _.overlayOf(
      new Path(table.location),
      spark.sessionState.newHadoopConf(),
      Some(table.identifier)
    )
  )

  // The guard refuses these statements before; these are the calls that go around it.

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]): Table = {
    super.createTable(target("CREATE TABLE", ident), columns, partitions, properties)
  }

  override def createTable(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): Table = {
    super.createTable(target("CREATE TABLE", ident), schema, partitions, properties)
  }

  override def stageCreate(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable = {
    super.stageCreate(target("CREATE TABLE", ident), schema, partitions, properties)
  }

  override def stageReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable = {
    refuseInTransaction("REPLACE TABLE", ident)
    super.stageReplace(ident, schema, partitions, properties)
  }

  override def stageCreateOrReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable = {
    refuseInTransaction("CREATE OR REPLACE TABLE", ident)
    super.stageCreateOrReplace(ident, schema, partitions, properties)
  }

  override def dropTable(ident: Identifier): Boolean = {
    refuseInTransaction("DROP TABLE", ident)
    super.dropTable(ident)
  }

  override def purgeTable(ident: Identifier): Boolean = {
    refuseInTransaction("DROP TABLE", ident)
    super.purgeTable(ident)
  }

  override def renameTable(from: Identifier, to: Identifier): Unit = {
    refuseInTransaction("ALTER TABLE RENAME", from)
    super.renameTable(from, to)
  }

  override def createNamespace(namespace: Array[String], metadata: JMap[String, String]): Unit = {
    refuseInTransaction("CREATE SCHEMA", Identifier.of(namespace.init, namespace.last))
    super.createNamespace(namespace, metadata)
  }

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = {
    refuseInTransaction("DROP SCHEMA", Identifier.of(namespace.init, namespace.last))
    super.dropNamespace(namespace, cascade)
  }

  /** A table that is named by its path is made in its overlay; one with a name of its own is refused. */
  private def target(statement: String, ident: Identifier): Identifier =
    // One of Delta's methods may call another one.
    if (!Transactions.isOpen(spark) || owns(ident.name)) ident
    else if (isPathIdentifier(ident))
      RedirectPath.ofTarget(spark, ident.name).fold(ident)(Identifier.of(ident.namespace, _))
    else {
      refuseInTransaction(statement, ident)
      ident
    }

  private def refuseInTransaction(statement: String, ident: Identifier): Unit =
    if (Transactions.isOpen(spark)) {
      throw Errors(
        "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.METASTORE",
        "statement" -> statement,
        "target" -> ident.toString
      )
    }
}

/**
 * Tells the catalogs of a session whose they are, before one of its statements resolves a name.
 * Spark makes a catalog at the first call that asks for it, such as `catalog.currentCatalog()`, on
 * whatever thread that is.
 */
final case class BindCatalogs(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    BindCatalogs.of(session)
    plan
  }
}

object BindCatalogs {
  def of(session: SparkSession): Unit = SparkInternals.loadedCatalogs(session).foreach {
    case ours: TransactionalCatalog => ours.bindTo(session)
    case _ =>
  }
}
