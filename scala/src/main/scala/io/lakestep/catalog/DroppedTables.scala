package io.lakestep.catalog

import java.net.URI

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.catalyst.catalog.CatalogTable

import org.apache.spark.sql.delta.lakestep.{DeltaHousekeeping, SparkInternals}
import io.lakestep.{Errors, LakestepConf, LakestepException}
import io.lakestep.commit.{IsolationLevel, Purged, TransactionModes}
import io.lakestep.names.{Definition, Metastore, TableName}
import io.lakestep.timeline.{DroppedTable, Purge}
import io.lakestep.transaction.{Databases, Lifecycle, Transaction, Transactions}

/** Tables that transactions have dropped: their data are there, and no name stands for them. */
object DroppedTables {

  /** Those of the session's metastore, newest first, as the timeline is now. */
  def of(session: SparkSession): Vector[DroppedTable] =
    ofMetastore(session, Databases.of(session).dropped())

  private def ofMetastore(
      session: SparkSession,
      all: Vector[DroppedTable]): Vector[DroppedTable] = {
    val id = Metastore.known(SparkInternals.metastore(session))
    all.filter(dropped => id.contains(dropped.key.metastore)).sortBy(-_.entry)
  }

  /**
   * Gives a table its name again, in the open transaction or in one of its own.
   *
   * Conditions: LAKESTEP_NO_DROPPED_TABLE, LAKESTEP_READ_ONLY_TRANSACTION; TABLE_OR_VIEW_ALREADY_EXISTS.
   */
  def undrop(session: SparkSession, name: TableIdentifier): Unit =
    Transactions.open(session) match {
      case Some(transaction) => undrop(session, transaction, name)
      case None =>
        val own = Lifecycle.begin(session, Some("UNDROP TABLE"), TransactionModes())
        Lifecycle.rollingBack(session, own.id) {
          undrop(session, own, name)
          Lifecycle.commit(session)
        }
        ()
    }

  private def undrop(
      session: SparkSession,
      transaction: Transaction,
      name: TableIdentifier): Unit = {
    if (transaction.isReadOnly)
      throw Errors("LAKESTEP_READ_ONLY_TRANSACTION", "statement" -> "UNDROP TABLE")
    val identifier = session.sessionState.catalog.qualifyIdentifier(name)
    val key = TableName.of(identifier)
    val base = SparkInternals.metastore(session)
    if (transaction.names.table(base, key).isDefined)
      throw new TableAlreadyExistsException(key.schema, key.name)
    session.sessionState.catalog.externalCatalog.getDatabase(key.schema)
    val table = last(session, transaction, key)
      .filter(isThere(session, transaction, _))
      .getOrElse(throw Errors(
        "LAKESTEP_NO_DROPPED_TABLE",
        "table" -> identifier.unquotedString
      ))
    transaction.names.change(_.set(key, Some(table)))
  }

  /** The dropped table in a folder, as far as the session knows of transactions that changed names. */
  def at(session: SparkSession, isThere: Path => Boolean): Option[DroppedTable] =
    if (Databases.of(session).timeline.known.lastNames == 0) None
    else of(session).find(_.table.path.exists(p => isThere(new Path(new URI(p.uri)))))

  /**
   * Deletes the data of managed tables that transactions dropped longer ago than that, and that no name leads
   * to; what became of each. A conflict with whoever names or writes one of them meanwhile has deleted nothing.
   */
  def vacuum(session: SparkSession, retainMs: Long): Vector[(Purge, Purged)] = {
    val modes = TransactionModes(isolation = Some(IsolationLevel.Snapshot))
    val own = Lifecycle.begin(session, Some("VACUUM DROPPED TABLES"), modes)
    val kept = Lifecycle.rollingBack(session, own.id) {
      val undoMs = LakestepConf.undoMs(session.conf.getOption)
      val (kept, old) =
        own.database.oldDropped(own.begun, retainMs, undoMs).partition(_.kept.isDefined)
      own.names.purges = old.map(_.purge)
      Lifecycle.commit(session)
      for (table <- kept; reason <- table.kept) yield table.purge -> Purged.Kept(reason)
    }
    val done = own.database.purge()
    done.foreach { case (purge, _) =>
      DeltaHousekeeping.gone(session, new Path(new URI(purge.path.uri)))
    }
    done ++ kept
  }

  private def last(
      session: SparkSession,
      transaction: Transaction,
      name: TableName): Option[CatalogTable] =
    transaction.names.droppedHere(name).orElse(
      ofMetastore(session, transaction.begun.base.names.dropped)
        .find(d => d.key.schema == name.schema && d.key.name.contains(name.name))
        .map(d => Definition.table(TableIdentifier(name.name, Some(name.schema)), d.table))
    )

  private def isThere(
      session: SparkSession,
      transaction: Transaction,
      table: CatalogTable): Boolean =
    try transaction.overlayOf(
        new Path(table.location),
        session.sessionState.newHadoopConf()
      ).isDefined
    catch { case e: LakestepException if e.getCondition == "LAKESTEP_NOT_A_TABLE" => false }
}
