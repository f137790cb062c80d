package org.apache.spark.sql.delta.lakestep

import scala.util.Try

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits.CatalogHelper
import org.apache.spark.sql.delta.{DeltaLog, DeltaTableUtils, SnapshotDescriptor}
import org.apache.spark.sql.delta.catalog.{DeltaTableV2, DeltaV2TableMarker}
import org.apache.spark.sql.delta.commands.CloneDeltaSource
import org.apache.spark.sql.delta.commands.cdc.CDCReader.DeltaCDFRelation
import org.apache.spark.sql.delta.files.TahoeFileIndex
import org.apache.spark.sql.delta.sources.DeltaDataSource
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, SaveIntoDataSourceCommand}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.sources.CreatableRelationProvider

import io.lakestep.log.TableRef

/**
 * A Delta table that a plan node reads or writes, by the path through which it would do so.
 *
 * @param byKernel whether Delta's other connector would, which starts no transaction of Delta's
 */
final case class DeltaReference(path: Path, name: Option[String], byKernel: Boolean = false) {

  /** True if the path goes through a transaction's overlay, false if it is the table's own. */
  def isOverlay: Boolean = path.toUri.getScheme == TableRef.OverlayScheme

  /** True if there is a Delta table; asks the file system. */
  def exists(session: SparkSession): Boolean =
    Try(DeltaTableUtils.isDeltaTable(session, path)).getOrElse(false)

  def display: String = name.getOrElse(s"delta.`$path`")
}

/** Finds every Delta table that one plan node holds, whatever class of Delta holds it. */
object DeltaReference {

  /**
   * The Delta tables among the fields of `node` itself. Its children, sources and other plans
   * inside it are not searched: they are nodes of their own.
   */
  def in(node: LogicalPlan): Seq[DeltaReference] = node match {
    case save: SaveIntoDataSourceCommand if isDelta(save.dataSource) =>
      savePath(save).map(DeltaReference(_, None)).toSeq
    case changes: DataSourceV2Relation if isChangelog(changes) => changelogOf(changes).toSeq
    case _ => node.productIterator.flatMap(held).toSeq
  }

  /** Of `SELECT … CHANGES FROM VERSION`, which Spark 4.2 has. */
  private def isChangelog(relation: DataSourceV2Relation): Boolean =
    relation.table.getClass.getSimpleName == "ChangelogTable"

  /** Delta reads it through another table than the catalog's, at the same path. */
  private def changelogOf(relation: DataSourceV2Relation): Option[DeltaReference] =
    for {
      catalog <- relation.catalog
      name <- relation.identifier
      table <- held(catalog.asTableCatalog.loadTable(name)).headOption
    } yield table

  def isDelta(provider: CreatableRelationProvider): Boolean = provider.isInstanceOf[DeltaDataSource]

  /** The path that `DataFrameWriter.save` was given. */
  def savePath(save: SaveIntoDataSourceCommand): Option[Path] =
    save.options.collectFirst { case (key, path) if key.equalsIgnoreCase("path") => path }
      .flatMap(path => Try(new Path(path)).toOption)

  private def held(value: Any): Seq[DeltaReference] = value match {
    case table: DeltaTableV2 => Seq(of(table))
    case table: DeltaV2TableMarker =>
      Seq(DeltaReference(table.getTablePath(), None, byKernel = true))
    case index: TahoeFileIndex => Seq(of(index.deltaLog))
    case relation: HadoopFsRelation => held(relation.location)
    case feed: DeltaCDFRelation => Seq(of(feed.snapshotWithSchemaMode.snapshot.deltaLog))
    case source: CloneDeltaSource => Seq(DeltaReference(source.dataPath, Some(source.name)))
    case source: OverlayCloneSource => Seq(DeltaReference(source.overlay, Some(source.name)))
    case log: DeltaLog => Seq(of(log))
    case snapshot: SnapshotDescriptor => Seq(of(snapshot.deltaLog))
    case Some(inner) => held(inner)
    case _ => Nil
  }

  private def of(log: DeltaLog): DeltaReference = DeltaReference(log.dataPath, None)

  /** A catalog table's own location wins over the path, as it does in Delta. */
  private def of(table: DeltaTableV2): DeltaReference =
    DeltaReference(
      table.catalogTable.map(t => new Path(t.location)).getOrElse(table.path),
      table.catalogTable.map(_.identifier.unquotedString).orElse(table.tableIdentifier)
    )
}
