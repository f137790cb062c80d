package io.lakestep.sql

import org.apache.spark.sql.catalyst.plans.logical.{AlterTableCommand, Command}
import org.apache.spark.sql.delta.commands.{DescribeDeltaDetailCommand, OptimizeTableCommandBase}

import io.lakestep.session.StatementKind

/** What a command does to the log of the table it writes. */
private[sql] object StatementKinds {

  def of(command: Command): StatementKind = command match {
    case _: DescribeDeltaDetailCommand => StatementKind.Detail
    case _: OptimizeTableCommandBase => StatementKind.Rewrite
    case _: AlterTableCommand => StatementKind.Metadata
    case other if other.getClass.getSimpleName.startsWith("AlterTable") => StatementKind.Metadata
    case _ => StatementKind.Data
  }
}
