package io.lakestep.sql

import java.sql.Timestamp

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{
  BooleanType, DataType, IntegerType, LongType, StringType, TimestampType
}

import io.lakestep.session.{Lifecycle, SessionState, Sessions}
import io.lakestep.timeline.CommitEntry
import io.lakestep.transaction.{Finished, TransactionModes}

private[sql] object Columns {
  def apply(columns: (String, DataType)*): Seq[Attribute] =
    columns.map { case (name, dataType) => AttributeReference(name, dataType)() }
}

/**
 * A command about transactions. It is no statement of the one that is open, and it runs, or says
 * itself why not, in a session whose COMMIT failed.
 */
sealed trait TransactionCommand extends LeafRunnableCommand

/** `BEGIN`: opens the session's transaction. */
final case class BeginTransaction(name: Option[String], modes: TransactionModes)
    extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "transaction_id" -> StringType,
    "name" -> StringType,
    "isolation" -> StringType,
    "read_only" -> BooleanType,
    "snapshot" -> LongType,
    "began_at" -> TimestampType
  )

  override def run(session: SparkSession): Seq[Row] = {
    val begun = Lifecycle.begin(session, name, modes).begun
    Seq(
      Row(
        begun.id,
        begun.name.orNull,
        begun.isolation.name,
        begun.readOnly,
        begun.snapshot,
        new Timestamp(begun.requestedAtMs)
      )
    )
  }
}

/** `SET TRANSACTION`: changes the modes of the open transaction, before it has met a table. */
final case class SetTransaction(modes: TransactionModes) extends TransactionCommand {

  override val output: Seq[Attribute] = Nil

  override def run(session: SparkSession): Seq[Row] = {
    Lifecycle.set(session, modes)
    Nil
  }
}

/** `COMMIT`: all tables of the transaction change, or none does. */
final case class CommitTransaction() extends TransactionCommand {

  override val output: Seq[Attribute] =
    Columns("transaction_id" -> StringType, "entry" -> LongType, "tables" -> IntegerType)

  override def run(session: SparkSession): Seq[Row] = {
    val done = Lifecycle.commit(session)
    Seq(Row(done.transactionId, done.entry.map(Long.box).orNull, done.tables))
  }
}

/** `ROLLBACK`: nothing of the transaction remains that a reader could see. */
final case class RollbackTransaction() extends TransactionCommand {

  override val output: Seq[Attribute] = Columns("transaction_id" -> StringType)

  override def run(session: SparkSession): Seq[Row] = Seq(Row(Lifecycle.rollback(session)))
}

/** `SHOW TRANSACTIONS`: this session's open one, then the unfinished entries of the timeline. */
final case class ShowTransactions() extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "transaction_id" -> StringType,
    "name" -> StringType,
    "user" -> StringType,
    "state" -> StringType,
    "entry" -> LongType,
    "began_at" -> TimestampType,
    "tables" -> StringType
  )

  override def run(session: SparkSession): Seq[Row] = {
    val own = Sessions.state(session) match {
      case SessionState.Idle => None
      case SessionState.Failed(id) => Some(Row(id, null, null, "FAILED", null, null, null))
      case SessionState.Open(t) =>
        Some(
          Row(
            t.id,
            t.begun.name.orNull,
            session.sparkContext.sparkUser,
            "REQUESTED",
            null,
            new Timestamp(t.begun.requestedAtMs),
            t.touched.map(_.base.toString).mkString(", ")
          )
        )
    }
    own.toSeq ++ Lifecycle.unfinished(session).map { e =>
      Row(
        e.transaction.id,
        e.transaction.name.orNull,
        e.transaction.user,
        "INFLIGHT",
        e.number,
        new Timestamp(e.transaction.requestedAtMs),
        e.tables.map(_.name).mkString(", ")
      )
    }
  }
}

/** `RECOVER`: finishes every transaction that a dead client left between order point and outcome. */
final case class Recover() extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "entry" -> LongType,
    "transaction_id" -> StringType,
    "outcome" -> StringType,
    "residue" -> StringType
  )

  override def run(session: SparkSession): Seq[Row] = {
    val report = Lifecycle.recover(session)
    report.finished.map { case (entry, end) =>
      end match {
        case Finished.Completed(_) => row(entry, "COMPLETED", Nil)
        case Finished.RolledBack(_, residue) => row(entry, "ROLLED_BACK", residue)
      }
    } ++ report.failed.map { case (entry, cause) =>
      row(entry, s"FAILED: ${cause.getMessage}", Nil)
    }
  }

  private def row(entry: CommitEntry, outcome: String, residue: Seq[String]): Row =
    Row(entry.number, entry.transaction.id, outcome, residue.mkString("; "))
}
