package io.lakestep.sql.guard

import java.util.Locale

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

import org.apache.spark.sql.delta.lakestep.DeltaReference
import io.lakestep.overlay.OverlayPath

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
