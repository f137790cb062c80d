package io.lakestep.sql.run

import io.delta.tables.execution.VacuumTableCommand
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTableType
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan, RenameTable}
import org.apache.spark.sql.delta.DeltaTableUtils
import org.apache.spark.sql.delta.commands.{CloneTableCommand, CreateDeltaTableCommand}
import org.apache.spark.sql.execution.command.{AlterTableRenameCommand, CreateTableLikeCommand}

import org.apache.spark.sql.delta.lakestep.DeltaReference
import io.lakestep.Errors
import io.lakestep.catalog.FolderOfAnother
import io.lakestep.sql.guard.{
  CatalogueCondition, CommandCatalogue, Decision, StatementName, TransactionGuard
}
import io.lakestep.sql.read.ConsistentReads
import io.lakestep.transaction.{Autocommit, InternalClones, Transactions}

/**
 * A statement outside a transaction that makes a table of others, moves one, or deletes files: no table that it
 * names may hold a commit of an unfinished entry when it starts, as that may be taken back. One that
 * changes a Delta table starts a transaction of Delta's, which `BaseTransactionBackstop` watches.
 *
 * One that changes names asks the metastore when it runs: that must say what transactions have made of them,
 * as queries do. Condition: LAKESTEP_NAME_NOT_MADE.
 */
private[sql] object BeforeOutsideStatement {

  def apply(session: SparkSession, command: Command): Unit =
    if (!Transactions.isOpen(session) && !InternalClones.contains(session)) {
      if (CommandCatalogue.changesNames(command)) beforeNames(session, command)
      made(command).foreach(FolderOfAnother.refuse(session, _))
      if (keepsWhatItReads(command))
        Autocommit.beforeWrite(session, (tables(command) ++ renamed(session, command)).distinct)
    }

  private def beforeNames(session: SparkSession, command: Command): Unit = {
    val owed = Autocommit.beforeNames(session)
    if (owed.nonEmpty) {
      val schema = session.sessionState.catalog.getCurrentDatabase
      for {
        name <- StatementName.names(command)
        key <- owed if key.isNamedBy(name, schema)
      } throw Errors(
        "LAKESTEP_NAME_NOT_MADE",
        "statement" -> StatementName.of(command),
        "name" -> key.toString
      )
    }
  }

  /** A managed table that is made past Spark's catalog. */
  private def made(command: Command): Option[TableIdentifier] = command match {
    case create: CreateDeltaTableCommand if create.table.tableType == CatalogTableType.MANAGED =>
      Some(create.table.identifier)
    case like: CreateTableLikeCommand if like.fileFormat.locationUri.isEmpty =>
      Some(like.targetTable)
    case _ => None
  }

  /** Not DROP, for example: that is also the way out when an entry cannot be finished. */
  private def keepsWhatItReads(command: Command): Boolean = command match {
    case vacuum: VacuumTableCommand => !vacuum.dryRun
    case _: CreateTableLikeCommand | _: CreateDeltaTableCommand | _: CloneTableCommand |
        _: RenameTable | _: AlterTableRenameCommand => true
    // A class that Spark has from 4.2 on.
    case like if like.nodeName == "CreateTableLike" => true
    case _ =>
      CommandCatalogue.decide(command) == Decision.Refused("NOT_DELTA") &&
      !ConsistentReads.isOneQuery(command)
  }

  /** RENAME moves the folder of a managed table, in which nobody would find the entry's commit again. */
  private def renamed(session: SparkSession, command: Command): Seq[Path] = command match {
    case rename: AlterTableRenameCommand if !rename.isView =>
      val catalog = session.sessionState.catalog
      val name = rename.oldName
      val table = Option.when(catalog.tableExists(name))(catalog.getTableMetadata(name))
      table.filter(DeltaTableUtils.isDeltaTable).map(t => new Path(t.location)).toSeq
    case _ => Nil
  }

  /** Of these the ones that it changes, and does not only read. */
  def targets(command: Command): Seq[Path] = {
    val found = CatalogueCondition.targetOf(command).flatMap(DeltaReference.in)
    if (found.isEmpty) tables(command) else found.filterNot(_.isOverlay).map(_.path)
  }

  /** The Delta tables, not those of an overlay, that a statement names. */
  def tables(node: LogicalPlan): Seq[Path] =
    DeltaReference.in(node).filterNot(_.isOverlay).map(_.path) ++
      TransactionGuard.inside(node).flatMap(tables)
}
