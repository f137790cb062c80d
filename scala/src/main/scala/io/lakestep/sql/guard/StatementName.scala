package io.lakestep.sql.guard

import java.util.Locale

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, RenameTable}
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.execution.command.{CreateDatabaseCommand, DropDatabaseCommand}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

import org.apache.spark.sql.delta.lakestep.DeltaReference
import io.lakestep.overlay.OverlayPath
import io.lakestep.timeline.NamedIn

/** What an error message calls a plan node and the table it works on. */
object StatementName {

  /** `CreateTableAsSelect` is `CREATE TABLE AS SELECT`. */
  def of(plan: LogicalPlan): String =
    plan.getClass.getSimpleName
      .stripSuffix("$")
      .stripSuffix("Command")
      .replace("Delta", "")
      .replaceAll("(?<=[a-z0-9])(?=[A-Z])", " ")
      .toUpperCase(Locale.ROOT)

  /** The table, view, function or path, as far as the node itself knows it. */
  def subject(plan: LogicalPlan): String =
    (DeltaReference.in(plan).map(shown).iterator ++
      plan.productIterator.flatMap(named) ++
      plan.children.iterator.flatMap(named))
      .nextOption()
      .getOrElse("a target without a name")

  /** The tables and views that a command names, and schemas. */
  def names(command: LogicalPlan): Seq[NamedIn] = {
    def named(schema: Seq[String], name: Option[String]) = NamedIn(schema.lastOption, name)
    def of(value: Any): Seq[NamedIn] = value match {
      case t: TableIdentifier => Seq(NamedIn(t.database, Some(t.table)))
      case t: CatalogTable => of(t.identifier)
      case i: Identifier => Seq(named(i.namespace.toSeq, Some(i.name)))
      case i: ResolvedIdentifier => of(i.identifier)
      case t: ResolvedTable => of(t.identifier)
      case v: ResolvedPersistentView => of(v.identifier)
      case n: ResolvedNamespace => Seq(named(n.namespace, None))
      case _ => Nil
    }
    val fields = (command.productIterator ++ command.children).flatMap(of).toSeq
    command match {
      case create: CreateDatabaseCommand => Seq(NamedIn(Some(create.databaseName), None))
      case drop: DropDatabaseCommand => Seq(NamedIn(Some(drop.databaseName), None))
      case rename: RenameTable =>
        fields :+ named(rename.newName.dropRight(1), rename.newName.lastOption)
      case _ => fields
    }
  }

  /** A user knows where a table lies, not its overlay. */
  private def shown(table: DeltaReference): String =
    if (table.isOverlay) table.copy(path = OverlayPath.parse(table.path).base).display
    else table.display

  private def named(value: Any): Option[String] = value match {
    case identifier: TableIdentifier => Some(identifier.unquotedString)
    case identifier: FunctionIdentifier => Some(identifier.unquotedString)
    case identifier: Identifier => Some(identifier.toString)
    case table: CatalogTable => Some(table.identifier.unquotedString)
    case path: Path => Some(path.toString)
    case name: ResolvedIdentifier => Some(name.identifier.toString)
    case name: UnresolvedIdentifier => Some(name.nameParts.mkString("."))
    case namespace: ResolvedNamespace => Some(namespace.namespace.mkString("."))
    case table: ResolvedTable => Some(table.identifier.toString)
    case view: ResolvedPersistentView => Some(view.identifier.toString)
    case relation: DataSourceV2Relation => Some(relation.name)
    case relation: LogicalRelation =>
      relation.catalogTable.map(_.identifier.unquotedString)
        .orElse(DeltaReference.in(relation).headOption.map(shown))
    case Some(inner) => named(inner)
    case _ => None
  }
}
