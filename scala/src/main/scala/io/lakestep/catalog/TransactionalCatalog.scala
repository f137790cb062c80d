package io.lakestep.catalog

import java.util.{HashMap => JHashMap, Map => JMap, Set => JSet}

import scala.annotation.nowarn
import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, NoSuchTableException}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{
  Column, Identifier, StagedTable, SupportsWrite, Table, TableCapability, TableCatalog, TableChange
}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.delta.catalog.DeltaCatalog
import org.apache.spark.sql.delta.sources.DeltaSourceUtils
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import org.apache.spark.sql.delta.lakestep.SparkInternals
import io.lakestep.{Errors, RuntimeContract}
import io.lakestep.names.TableName
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
class TransactionalCatalog extends DeltaCatalog with CreateTableLikeCall {
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
      // While a statement makes it, its name leads to the overlay.
      case _ if OverlayPath.isOverlay(new Path(table.location)) =>
        super.loadCatalogTable(ident, table)
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
    if (OverlayPath.isOverlay(path) && !owns(path) && !OverlayPath.isFixed(new Path(path)))
      throw Errors("LAKESTEP_OVERLAY_PATH", "path" -> path)

  private def owns(path: String): Boolean =
    Transactions.open(spark).exists(_.owns(new Path(path)))

  private def overlayOf(table: CatalogTable): Option[Path] =
    Transactions.open(spark).filterNot(_ => OverlayPath.isOverlay(new Path(table.location)))
      .flatMap { transaction =>
        val path = new Path(table.location)
        val conf = spark.sessionState.newHadoopConf()
        // One that was made since BEGIN has no version to be pinned.
        val overlay = Try(transaction.overlayOf(path, conf, Some(table.identifier)))
        val isRead = overlay.toOption.flatten.flatMap(transaction.table(_))
          .exists(_.pinned.log.isDefined)
        val name = TableName.of(table.identifier)
        // Since BEGIN others may have given the name to another table.
        transaction.names.confirm(SparkInternals.metastore(spark), name, isRead) match {
          case None => overlay.get
          case Some(None) => throw new NoSuchTableException(name.schema, name.name)
          case Some(Some(other)) =>
            transaction.overlayOf(new Path(other.location), conf, Some(other.identifier))
        }
      }

  // While a transaction is open, tables are made in their overlays, and names change in front of the
  // metastore; see `SessionNames`.

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]): Table =
    making(ident, properties)(super.createTable(_, columns, partitions, _))

  override def createTable(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): Table =
    making(ident, properties)(super.createTable(_, schema, partitions, _))

  override def stageCreate(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable =
    staging(ident, properties)(super.stageCreate(_, schema, partitions, _))

  override def stageReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable =
    staging(ident, properties)(super.stageReplace(_, schema, partitions, _))

  override def stageCreateOrReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: JMap[String, String]): StagedTable =
    staging(ident, properties)(super.stageCreateOrReplace(_, schema, partitions, _))

  private def staging(ident: Identifier, properties: JMap[String, String])(
      stage: (Identifier, JMap[String, String]) => StagedTable): StagedTable = {
    val staged = making(ident, properties)(stage)
    (maker(ident), staged) match {
      case (Some(maker), table: StagedTable with SupportsWrite) =>
        new StagedInTransaction(table, maker)
      case _ => staged
    }
  }

  protected def making[T](ident: Identifier, properties: JMap[String, String])(
      make: (Identifier, JMap[String, String]) => T): T =
    if (!Transactions.isOpen(spark)) {
      refuseFolderOfAnother(ident, properties)
      make(ident, properties)
    } else {
      refuseOtherFormat(ident, properties)
      val located = new JHashMap[String, String](properties)
      for {
        location <- Option(properties.get(TableCatalog.PROP_LOCATION))
        overlay <- RedirectPath.ofTarget(spark, location)
      } located.put(TableCatalog.PROP_LOCATION, overlay)
      val target = redirected(ident)
      maker(ident).fold(make(target, located))(MakingTable(_)(make(target, located)))
    }

  /** A table that is named by its path is made in its overlay. */
  private def redirected(ident: Identifier): Identifier =
    // One of Delta's methods may call another one.
    if (owns(ident.name) || !isPathIdentifier(ident)) ident
    else RedirectPath.ofTarget(spark, ident.name).fold(ident)(Identifier.of(ident.namespace, _))

  private def maker(ident: Identifier): Option[MakingTable] =
    Transactions.open(spark).filterNot(_ => isPathIdentifier(ident) || owns(ident.name))
      .map(new MakingTable(spark, _, nameOf(ident)))

  /** As the metastore writes it. */
  private def nameOf(ident: Identifier): TableName =
    TableName.of(spark.sessionState.catalog.qualifyIdentifier(
      TableIdentifier(ident.name, ident.namespace.lastOption)
    ))

  private def isManaged(name: TableName): Boolean =
    spark.sessionState.catalog.externalCatalog.getTable(name.schema, name.name)
      .tableType == CatalogTableType.MANAGED

  private def refuseFolderOfAnother(ident: Identifier, properties: JMap[String, String]): Unit =
    if (!isPathIdentifier(ident) && !properties.containsKey(TableCatalog.PROP_LOCATION))
      FolderOfAnother.refuse(spark, TableIdentifier(ident.name, ident.namespace.lastOption))

  private def refuseOtherFormat(ident: Identifier, properties: JMap[String, String]): Unit = {
    val provider = Option(properties.get(TableCatalog.PROP_PROVIDER))
      .getOrElse(spark.sessionState.conf.defaultDataSourceName)
    if (!DeltaSourceUtils.isDeltaDataSourceName(provider))
      throw Errors(
        "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.NOT_DELTA",
        "statement" -> "CREATE TABLE",
        "target" -> ident.toString
      )
  }

  /**
   * `SET LOCATION` asks for the table at the new place, which the transaction may have made or changed. Of
   * a managed table the data at either place would be the metastore's to delete.
   */
  override def alterTable(ident: Identifier, changes: TableChange*): Table = {
    val redirected = changes.map {
      case set: TableChange.SetProperty if set.property == TableCatalog.PROP_LOCATION =>
        if (Transactions.isOpen(spark) && isManaged(nameOf(ident)))
          throw Errors(
            "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.LOCATION",
            "statement" -> "SET LOCATION",
            "target" -> ident.toString
          )
        TableChange.setProperty(set.property, RedirectPath(spark, set.value).getOrElse(set.value))
      case other => other
    }
    super.alterTable(ident, redirected: _*)
  }

  /**
   * Spark's own looks whether the default folder of the new name is free, which no table needs here, and
   * whether it is a name.
   */
  override def renameTable(from: Identifier, to: Identifier): Unit =
    if (!Transactions.isOpen(spark)) super.renameTable(from, to)
    else {
      val (there, name) = (nameOf(from), nameOf(to))
      if (there.schema != name.schema)
        throw Errors(
          "LAKESTEP_RENAME_TO_OTHER_SCHEMA",
          "from" -> from.toString,
          "to" -> to.toString
        )
      if (!to.name.matches("\\w+"))
        throw new AnalysisException(
          "INVALID_SCHEMA_OR_RELATION_NAME",
          Map("name" -> s"`${to.name.replace("`", "``")}`")
        )
      spark.sessionState.catalog.externalCatalog.renameTable(there.schema, there.name, name.name)
    }
}

/** What Delta makes of a table when its rows are known, which is when it asks for its place. */
private[catalog] final class StagedInTransaction(
    staged: StagedTable with SupportsWrite,
    maker: MakingTable)
    extends StagedTable
    with SupportsWrite {
  override def commitStagedChanges(): Unit = MakingTable(maker)(staged.commitStagedChanges())
  override def abortStagedChanges(): Unit = staged.abortStagedChanges()
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = staged.newWriteBuilder(info)
  override def capabilities(): JSet[TableCapability] = staged.capabilities()
  override def name(): String = staged.name()
  override def columns(): Array[Column] = staged.columns()
  @nowarn("cat=deprecation") override def schema(): StructType = staged.schema()
  override def partitioning(): Array[Transform] = staged.partitioning()
  override def properties(): JMap[String, String] = staged.properties()
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
  def of(session: SparkSession): Unit = {
    SparkInternals.putBeforeMetastore(session)(new SessionNames(session, _))
    session.sessionState.catalog.externalCatalog match {
      case names: SessionNames => names.analysing(AnalysisContext.get.relationCache)
      case _ =>
    }
    SparkInternals.loadedCatalogs(session).foreach {
      case ours: TransactionalCatalog => ours.bindTo(session)
      case _ =>
    }
  }
}

/** Notes in the scans of a query what its names stand for. */
final case class NoteNames(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    session.sessionState.catalog.externalCatalog match {
      case names: SessionNames => names.ofAnalysis.foreach(NamesOfQuery.note(plan, _))
      case _ =>
    }
    plan
  }
}
