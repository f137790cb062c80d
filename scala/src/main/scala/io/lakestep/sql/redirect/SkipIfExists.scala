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
    case create: CreateTable if create.ignoreIfExists =>
      skip(plan, "CREATE TABLE", create.name, exists = true)
    case create: CreateTableAsSelect if create.ignoreIfExists && create.query.resolved =>
      skip(plan, "CREATE TABLE", create.name, exists = true)
    case drop: DropTable if drop.ifExists =>
      skip(plan, "DROP TABLE", drop.child, exists = false)
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
