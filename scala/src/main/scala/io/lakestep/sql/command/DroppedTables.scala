package io.lakestep.sql.command

import java.sql.Timestamp

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{LongType, StringType, TimestampType}

import io.lakestep.catalog.DroppedTables
import io.lakestep.commit.Purged
import io.lakestep.sql.guard.OwnWrite

/** `UNDROP TABLE`: the table that was dropped last under a name has it again; outside a transaction at once. */
final case class UndropTable(name: Seq[String]) extends LeafRunnableCommand with OwnWrite {
  override val output: Seq[Attribute] = Nil

  override def run(session: SparkSession): Seq[Row] = {
    DroppedTables.undrop(session, name)
    Nil
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
