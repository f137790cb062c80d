package io.lakestep.catalog

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.delta.DeltaTableUtils

import io.lakestep.Errors
import io.lakestep.names.TableName
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.{Transaction, Transactions}

/**
 * What a session's metastore answers while Delta makes, or replaces, one table of a transaction: where
 * tables of a schema and the table itself lie is then in the overlay.
 */
private[catalog] final class MakingTable(
    session: SparkSession,
    transaction: Transaction,
    target: TableName) {

  private def conf: Configuration = session.sessionState.newHadoopConf()

  /**
   * A folder of a schema in which Delta puts a managed table. No other client predicts it, so what is left of a
   * table that was never made, or was dropped, is in nobody's way.
   */
  def folder(schema: URI): URI = {
    if (target.name.getBytes("UTF-8").length > 255 || target.name.exists(c => c == '/' || c < ' '))
      throw Errors("LAKESTEP_NAME_IS_NO_FOLDER", "name" -> target.name)
    val base = new Path(new Path(schema), own)
    val overlay = transaction.overlayOfNew(new Path(base, target.name), conf)
    transaction.names.makes(OverlayPath.parse(overlay).base)
    overlay.getParent.toUri
  }

  private lazy val own = transaction.names.folderOfNewTable(transaction.id)

  def overlaid(table: CatalogTable): CatalogTable =
    if (TableName(table.database, table.identifier.table) != target ||
      !DeltaTableUtils.isDeltaTable(table)) table
    else {
      val base = new Path(table.location)
      val overlay =
        if (OverlayPath.isOverlay(base)) base
        else transaction.overlayOf(base, conf).getOrElse(transaction.overlayOfNew(base, conf))
      table.copy(storage = table.storage.copy(locationUri = Some(overlay.toUri)))
    }
}

private[lakestep] object MakingTable {

  private val current = new ThreadLocal[MakingTable]

  def apply[T](making: MakingTable)(body: => T): T = {
    val outer = current.get
    current.set(making)
    try body
    finally current.set(outer)
  }

  /**
   * A table that a command of Delta's makes and has a place for already, in its overlay. None outside a
   * transaction, in one that only reads, and for what lies in an overlay.
   */
  def placed(session: SparkSession, table: CatalogTable, byPath: Boolean): Option[CatalogTable] =
    for {
      transaction <- Transactions.open(session)
      location = table.storage.locationUri.map(new Path(_))
      if !transaction.isReadOnly && !location.exists(OverlayPath.isOverlay(_))
      place <- location.filter(_ => byPath || table.tableType == CatalogTableType.EXTERNAL) match {
        case Some(path) => RedirectPath.ofTarget(session, path.toString).map(new Path(_))
        case None =>
          val catalog = session.sessionState.catalog
          val name = TableName.of(catalog.qualifyIdentifier(table.identifier))
          val schema = catalog.externalCatalog.getDatabase(name.schema).locationUri
          val making = new MakingTable(session, transaction, name)
          Some(new Path(new Path(making.folder(schema)), name.name))
      }
    } yield table.copy(storage = table.storage.copy(locationUri = Some(place.toUri)))

  def folder: Option[URI => URI] = Option(current.get).map(making => making.folder(_))

  def overlaid(table: CatalogTable): CatalogTable =
    Option(current.get).fold(table)(_.overlaid(table))
}
