package io.lakestep.sql.guard

import org.apache.spark.sql.catalyst.plans.logical.{
  AlterTableCommand, AppendData, Command, LogicalPlan, OverwriteByExpression,
  OverwritePartitionsDynamic, Union
}
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.delta.DeltaOptions
import org.apache.spark.sql.delta.commands.OptimizeTableCommandBase
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand

/** A statement of Lakestep's own that changes tables or names; outside a transaction it is one by itself. */
trait OwnWrite {
  def writes: Boolean = true
}

/** What commands do to the table that they write. */
private[sql] object StatementKinds {

  /** Whether every row stays what it is. */
  def keepsRows(command: Command): Boolean = command match {
    case _: OptimizeTableCommandBase | _: AlterTableCommand => true
    case other => other.getClass.getSimpleName.startsWith("AlterTable") || onlyRearranges(other)
  }

  /** The commands that the plan of one statement runs: itself, or those of a multi-insert. */
  def commands(root: LogicalPlan): Seq[Command] = root match {
    case command: Command => Seq(command)
    case union: Union if union.children.forall(_.isInstanceOf[Command]) =>
      union.children.collect { case command: Command => command }
    case _ => Nil
  }

  /** Whether a stream commits what it gets by itself; with `foreachBatch` that is the function's. */
  def commitsBatches(stream: WriteToStream): Boolean =
    !Sinks(stream.sink.getClass.getSimpleName.stripSuffix("$"))

  private val Sinks =
    Set("ForeachBatchSink", "ForeachWriterTable", "ConsoleTable", "MemorySink", "NoopTable")

  private def onlyRearranges(write: Command): Boolean = {
    val options = write match {
      case save: SaveIntoDataSourceCommand => save.options
      case append: AppendData => append.writeOptions
      case overwrite: OverwriteByExpression => overwrite.writeOptions
      case overwrite: OverwritePartitionsDynamic => overwrite.writeOptions
      case _ => Map.empty[String, String]
    }
    options.exists { case (key, value) =>
      key.equalsIgnoreCase(DeltaOptions.DATA_CHANGE_OPTION) && value.equalsIgnoreCase("false")
    }
  }
}
