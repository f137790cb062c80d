package io.lakestep.sql.command

import java.sql.Timestamp

import scala.util.Try

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.connector.catalog.CatalogPlugin
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{LongType, StringType, TimestampType}

import io.lakestep.Errors
import io.lakestep.catalog.{DroppedTables, TransactionalCatalog}
import io.lakestep.commit.Purged
import io.lakestep.sql.guard.OwnWrite

/** `UNDROP TABLE`: the table that was dropped last under a name has it again; outside a transaction at once. */
final case class UndropTable(name: Seq[String]) extends LeafRunnableCommand with OwnWrite {
  override val output: Seq[Attribute] = Nil

  override def run(session: SparkSession): Seq[Row] = {
    DroppedTables.undrop(session, ofOurs(session))
    Nil
  }

  /** A catalog that knows no transaction has no dropped tables. */
  private def ofOurs(session: SparkSession): TableIdentifier = {
    val catalogs = session.sessionState.catalogManager
    def isOurs(catalog: => CatalogPlugin) =
      Try(catalog).toOption.exists(_.isInstanceOf[TransactionalCatalog])
    name match {
      case Seq(table) if isOurs(catalogs.currentCatalog) => TableIdentifier(table)
      case Seq(schema, table) if isOurs(catalogs.currentCatalog) =>
        TableIdentifier(table, Some(schema))
      case Seq(catalog, schema, table) if isOurs(catalogs.catalog(catalog)) =>
        TableIdentifier(table, Some(schema))
      case _ => throw Errors("LAKESTEP_NO_DROPPED_TABLE", "table" -> name.mkString("."))
    }
  }
}

/** `SHOW DROPPED TABLES`: those that transactions have dropped, and that no name stands for, newest first. */
final case class ShowDroppedTables() extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "schema" -> StringType,
    "table" -> StringType,
    "path" -> StringType,
    "dropped_at" -> TimestampType,
    "user" -> StringType,
    "transaction_id" -> StringType,
    "entry" -> LongType
  )

  override def run(session: SparkSession): Seq[Row] = DroppedTables.of(session).map { dropped =>
    Row(
      dropped.key.schema,
      dropped.key.name.orNull,
      dropped.table.path.fold("")(_.uri),
      new Timestamp(dropped.timeMs),
      dropped.user,
      dropped.transaction,
      dropped.entry
    )
  }
}

/** `VACUUM DROPPED TABLES`: deletes the data of managed tables that transactions have dropped. */
final case class VacuumDroppedTables(retainHours: Long) extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "schema" -> StringType,
    "table" -> StringType,
    "path" -> StringType,
    "result" -> StringType
  )

  override def run(session: SparkSession): Seq[Row] =
    DroppedTables.vacuum(session, retainHours * VacuumTransactions.HourMs).map {
      case (purge, done) =>
        val result = done match {
          case Purged.Deleted => "DELETED"
          case Purged.Kept(reason) => s"KEPT: $reason"
          case Purged.Failed(cause) => s"FAILED: ${cause.getMessage}"
        }
        Row(purge.key.schema, purge.key.name.orNull, purge.path.uri, result)
    }
}
