package io.lakestep.sql.command

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{ArrayType, LongType, StringType}

import io.lakestep.Errors
import io.lakestep.sql.guard.OwnWrite
import io.lakestep.catalog.{RestoreTables, Restored, RevertTransaction, UndoModes, UndoneRow}
import io.lakestep.transaction.{AskedAsOf, Transaction, Transactions}

/** Takes something of the past back; a statement of the open transaction, or else one by itself. */
trait UndoCommand extends LeafRunnableCommand with OwnWrite {

  def modes: UndoModes

  override def writes: Boolean = !modes.isDry

  override val output: Seq[Attribute] = Columns(
    "action" -> StringType,
    "table" -> StringType,
    "path" -> StringType,
    "from_version" -> LongType,
    "to_version" -> LongType,
    "added_files" -> LongType,
    "added_rows" -> LongType,
    "added_bytes" -> LongType,
    "removed_files" -> LongType,
    "removed_rows" -> LongType,
    "removed_bytes" -> LongType,
    "keys_taken_back" -> ArrayType(StringType),
    "keys_kept" -> ArrayType(StringType)
  )

  protected def act(session: SparkSession, transaction: Transaction): Seq[UndoneRow]

  override def run(session: SparkSession): Seq[Row] = {
    val transaction = Transactions.open(session)
      .getOrElse(throw Errors("LAKESTEP_NO_ACTIVE_TRANSACTION", "statement" -> nodeName))
    act(session, transaction).map { row =>
      Row(
        row.action,
        row.table.orNull,
        row.path.orNull,
        row.from.map(Long.box).orNull,
        row.to.map(Long.box).orNull,
        row.added.count,
        row.added.rows.map(Long.box).orNull,
        row.added.sizeBytes,
        row.removed.count,
        row.removed.rows.map(Long.box).orNull,
        row.removed.sizeBytes,
        row.takenBack,
        row.kept
      )
    }
  }
}

/** `REVERT TRANSACTION`: one committed transaction is taken back, over all its tables and names. */
final case class Revert(transaction: String, modes: UndoModes) extends UndoCommand {
  override protected def act(session: SparkSession, open: Transaction): Seq[UndoneRow] =
    RevertTransaction(session, open, transaction, modes)
}

/** `RESTORE DATABASE | SCHEMA | TABLES`: tables and names are as they were at a point. */
final case class Restore(what: Restored, to: AskedAsOf, modes: UndoModes) extends UndoCommand {
  override protected def act(session: SparkSession, open: Transaction): Seq[UndoneRow] =
    new RestoreTables(session, open, what, to.in(session), modes)()
}
