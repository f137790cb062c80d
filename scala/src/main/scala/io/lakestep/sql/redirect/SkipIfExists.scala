package io.lakestep.sql.redirect

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier
import org.apache.spark.sql.catalyst.plans.logical.{
  CreateTable, CreateTableAsSelect, DropTable, LogicalPlan, NoopCommand
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.TableCatalog

import io.lakestep.transaction.Transactions

/**
 * What does nothing outside a transaction does nothing inside: CREATE TABLE IF NOT EXISTS of a table
 * that exists, also by `saveAsTable` in mode `ignore` and `DeltaTable.createIfNotExists`, and DROP
 * TABLE IF EXISTS of one that does not.
 */
final case class SkipIfExists(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case CreateTable(name, _, _, _, true) => skip(plan, "CREATE TABLE", name, exists = true)
    case CreateTableAsSelect(name, _, query, _, _, true, _) if query.resolved =>
      skip(plan, "CREATE TABLE", name, exists = true)
    case DropTable(name, true, _) => skip(plan, "DROP TABLE", name, exists = false)
    case other => other
  }

  private def skip(
      plan: LogicalPlan,
      command: String,
      name: LogicalPlan,
      exists: Boolean): LogicalPlan = name match {
    case ResolvedIdentifier(catalog: TableCatalog, table)
        if Transactions.isOpen(session) && catalog.tableExists(table) == exists =>
      NoopCommand(command, (catalog.name +: table.namespace :+ table.name).toSeq)
    case _ => plan
  }
}
