package io.lakestep.sql.guard

import java.util.Locale

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  LocalTempView, PersistedView, ResolvedIdentifier, ResolvedNamespace
}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.catalog.{StagedTable, Table}
import org.apache.spark.sql.delta.commands.{
  AlterTableSetPropertiesDeltaCommand, CloneTableCommand, CreateDeltaTableCommand, DeltaReorgTable,
  DeltaReorgTableCommand, DeltaReorgTableMode, DeltaReorgTableSpec
}
import org.apache.spark.sql.delta.sources.DeltaSourceUtils
import org.apache.spark.sql.execution.command.{
  AlterTableRenameCommand, AlterTableSetPropertiesCommand, AlterTableUnsetPropertiesCommand,
  AlterViewAsCommand, AlterViewSchemaBindingCommand, DropTableCommand, CreateFunctionCommand,
  CreateSQLFunctionCommand, CreateViewCommand, DropFunctionCommand, DropTempViewCommand
}
import org.apache.spark.sql.execution.datasources.{
  CreateTempViewUsing, InsertIntoDataSourceCommand, SaveIntoDataSourceCommand
}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf

import org.apache.spark.sql.delta.lakestep.{DeltaReference, OverlayCloneSource}
import io.lakestep.catalog.TransactionalCatalog
import io.lakestep.overlay.OverlayPath

/** What a node must hold, beyond its class, to be what the catalogue says. */
sealed abstract class CatalogueCondition(val key: String) {
  def holds(plan: LogicalPlan): Boolean
}

object CatalogueCondition {

  /** The node writes a Delta table, and not one of another format. */
  case object DeltaTarget extends CatalogueCondition("delta-target") {
    override def holds(plan: LogicalPlan): Boolean = {
      val target = targetOf(plan)
      target.exists(node => DeltaReference.in(node).nonEmpty) || tableOf(target).exists(isStaged)
    }
  }

  /** `DataFrameWriter.save` with Delta's data source. */
  case object DeltaProvider extends CatalogueCondition("delta-provider") {
    override def holds(plan: LogicalPlan): Boolean = plan match {
      case save: SaveIntoDataSourceCommand => DeltaReference.isDelta(save.dataSource)
      case _ => false
    }
  }

  /** The node makes a Delta table, in a catalog that knows the transaction. */
  case object DeltaTable extends CatalogueCondition("delta-table") {
    override def holds(plan: LogicalPlan): Boolean = plan match {
      case create: CreateTable => isOurs(create.name) && isDelta(create.tableSpec)
      case create: CreateTableAsSelect => isOurs(create.name) && isDelta(create.tableSpec)
      case replace: ReplaceTable => isOurs(replace.name) && isDelta(replace.tableSpec)
      case replace: ReplaceTableAsSelect => isOurs(replace.name) && isDelta(replace.tableSpec)
      case _ => false
    }

    private def isDelta(spec: TableSpecBase): Boolean =
      DeltaSourceUtils.isDeltaDataSourceName(
        spec.provider.getOrElse(SQLConf.get.defaultDataSourceName)
      )
  }

  /** The name that the node changes is of a catalog that knows the transaction. */
  case object OurCatalog extends CatalogueCondition("our-catalog") {
    override def holds(plan: LogicalPlan): Boolean =
      plan.children.nonEmpty && plan.children.forall(isOurs)
  }

  /** The same of the first of its parts. */
  case object OurTarget extends CatalogueCondition("our-target") {
    override def holds(plan: LogicalPlan): Boolean = plan.children.headOption.exists(isOurs)
  }

  private def isOurs(name: LogicalPlan): Boolean = name match {
    case name: ResolvedIdentifier => name.catalog.isInstanceOf[TransactionalCatalog]
    case namespace: ResolvedNamespace => namespace.catalog.isInstanceOf[TransactionalCatalog]
    case _ => false
  }

  /** A view of the metastore. */
  case object PersistentView extends CatalogueCondition("persistent-view") {
    override def holds(plan: LogicalPlan): Boolean = plan match {
      case view: CreateViewCommand => view.viewType == PersistedView
      case drop: DropTableCommand => drop.isView && isNamed(drop.tableName)
      case rename: AlterTableRenameCommand => rename.isView && isNamed(rename.oldName)
      case set: AlterTableSetPropertiesCommand => set.isView && isNamed(set.tableName)
      case unset: AlterTableUnsetPropertiesCommand => unset.isView && isNamed(unset.tableName)
      case alter: AlterViewAsCommand => isNamed(alter.name)
      case alter: AlterViewSchemaBindingCommand => isNamed(alter.name)
      case _ => false
    }

    private def isNamed(view: TableIdentifier): Boolean =
      view.database.exists(!_.equalsIgnoreCase(SQLConf.get.globalTempDatabase))
  }

  /** The table that a command of Delta's makes lies in its overlay. */
  case object OverlayLocation extends CatalogueCondition("overlay-location") {
    override def holds(plan: LogicalPlan): Boolean = plan match {
      case create: CreateDeltaTableCommand =>
        create.existingTableOpt.getOrElse(create.table).storage.locationUri
          .exists(uri => OverlayPath.isOverlay(new Path(uri)))
      case clone: CloneTableCommand =>
        OverlayPath.isOverlay(
          clone.targetPath
        ) && clone.sourceTable.isInstanceOf[OverlayCloneSource]
      case _ => false
    }
  }

  /** A view or function of this session only: not the catalog's, not a global temporary one. */
  case object Temporary extends CatalogueCondition("temporary") {
    override def holds(plan: LogicalPlan): Boolean = plan match {
      case view: CreateViewCommand => view.viewType == LocalTempView
      case view: CreateTempViewUsing => !view.global
      case view: DropTempViewCommand =>
        view.ident.namespace.lastOption.forall(_.equalsIgnoreCase("session"))
      case function: CreateFunctionCommand => function.isTemp
      case function: CreateSQLFunctionCommand => function.isTemp
      case function: DropFunctionCommand => function.isTemp
      case _ => false
    }
  }

  /** Properties of a Delta table none of which makes Delta act beside the table's log. */
  case object PlainProperties extends CatalogueCondition("plain-properties") {
    override def holds(plan: LogicalPlan): Boolean = DeltaTarget.holds(plan) && (plan match {
      case set: SetTableProperties => set.properties.keys.forall(isPlain)
      case set: AlterTableSetPropertiesDeltaCommand => set.configuration.keys.forall(isPlain)
      case _ => false
    })

    private def isPlain(property: String): Boolean = {
      val key = property.toLowerCase(Locale.ROOT)
      key != "location" && !actBesideTheLog.exists(key.startsWith)
    }
  }

  /** REORG that only rewrites files: not one that turns a table format on. */
  case object Purge extends CatalogueCondition("purge") {
    override def holds(plan: LogicalPlan): Boolean = plan match {
      case reorg: DeltaReorgTable => rewrites(reorg.reorgTableSpec)
      case reorg: DeltaReorgTableCommand => rewrites(reorg.reorgTableSpec)
      case _ => false
    }

    private def rewrites(spec: DeltaReorgTableSpec): Boolean =
      spec.reorgTableMode != DeltaReorgTableMode.UNIFORM_ICEBERG
  }

  val all: Seq[CatalogueCondition] =
    Seq(
      DeltaTarget,
      DeltaProvider,
      DeltaTable,
      OurCatalog,
      OurTarget,
      PersistentView,
      OverlayLocation,
      Temporary,
      PlainProperties,
      Purge
    )

  private[guard] val ofNames: Set[CatalogueCondition] =
    Set(DeltaTable, OurCatalog, OurTarget, OverlayLocation, PersistentView)

  def apply(key: String): CatalogueCondition =
    all.find(_.key == key).getOrElse(throw new IllegalStateException(s"No such condition: $key"))

  /**
   * The nodes in which the target of `plan` is to be found. Where Spark's node keeps it in a field
   * of its own, a Delta table among the sources must not stand in for it; Delta's own commands
   * have no other targets than Delta tables.
   */
  private[sql] def targetOf(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    case write: V2WriteCommand => nodes(write.table)
    case insert: InsertIntoStatement => nodes(insert.table)
    case delete: DeleteFromTable => nodes(delete.table)
    case delete: DeleteFromTableWithFilters => nodes(delete.table)
    case update: UpdateTable => nodes(update.table)
    case merge: MergeIntoTable => nodes(merge.targetTable)
    case insert: InsertIntoDataSourceCommand => nodes(insert.logicalRelation)
    case alter: UnaryCommand => nodes(alter.child)
    case other => nodes(other)
  }

  private def nodes(plan: LogicalPlan): Seq[LogicalPlan] = plan.collect { case node => node }

  private def tableOf(target: Seq[LogicalPlan]): Option[Table] =
    target.collectFirst { case relation: DataSourceV2Relation => relation.table }

  /** `df.write.format("noop")`, the usual way to run a query for nothing but its time. */
  private[guard] def writesNothing(plan: LogicalPlan): Boolean = plan match {
    case write: V2WriteCommand => tableOf(nodes(write.table)).exists(
        _.getClass.getName.startsWith("org.apache.spark.sql.execution.datasources.noop.")
      )
    case _ => false
  }

  /** What CREATE TABLE AS SELECT fills; the catalog has looked at where. */
  private def isStaged(table: Table): Boolean = table.isInstanceOf[StagedTable] &&
    Seq("org.apache.spark.sql.delta.catalog.", "io.lakestep.catalog.")
      .exists(table.getClass.getName.startsWith)

  private val actBesideTheLog = Seq(
    "delta.universalformat.",
    "delta.enableiceberg",
    "delta.compatibility.symlinkformatmanifest.",
    "delta.coordinatedcommits.",
    "delta.redirect",
    "delta.feature.iceberg",
    "delta.feature.coordinatedcommits",
    "delta.feature.redirect",
    "delta.feature.catalogmanaged",
    "delta.feature.catalogowned"
  )
}
