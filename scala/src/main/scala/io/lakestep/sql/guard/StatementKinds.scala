package io.lakestep.sql.guard

import org.apache.spark.sql.catalyst.plans.logical.{
  AlterTableCommand, AppendData, Command, LogicalPlan, OverwriteByExpression,
  OverwritePartitionsDynamic, Union
}
import org.apache.spark.sql.delta.commands.{DescribeDeltaDetailCommand, OptimizeTableCommandBase}
import org.apache.spark.sql.execution.datasources.{
  InsertIntoDataSourceCommand, SaveIntoDataSourceCommand
}

import io.lakestep.log.StatementKind
import org.apache.spark.sql.SaveMode
import org.apache.spark.sql.delta.DeltaOptions

/** What a command does to the log of the table it writes. */
private[sql] object StatementKinds {

  def of(command: Command): StatementKind = command match {
    case _: DescribeDeltaDetailCommand => StatementKind.Detail
    case _: OptimizeTableCommandBase => StatementKind.Rewrite
    case _: AlterTableCommand => StatementKind.Metadata
    case other if other.getClass.getSimpleName.startsWith("AlterTable") => StatementKind.Metadata
    case write if onlyRearranges(write) => StatementKind.Rewrite
    case _: AppendData => StatementKind.Append
    case save: SaveIntoDataSourceCommand if save.mode == SaveMode.Append => StatementKind.Append
    case insert: InsertIntoDataSourceCommand if !insert.overwrite => StatementKind.Append
    case _ => StatementKind.Data
  }

  /** The commands that the plan of one statement runs: itself, or those of a multi-insert. */
  def commands(root: LogicalPlan): Seq[Command] = root match {
    case command: Command => Seq(command)
    case union: Union if union.children.forall(_.isInstanceOf[Command]) =>
      union.children.collect { case command: Command => command }
    case _ => Nil
  }

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
