package io.lakestep.catalog

import org.apache.spark.sql.catalyst.TableIdentifier

import org.apache.spark.sql.delta.lakestep.{DeltaUndo, SparkInternals}
import io.lakestep.names.{NameState, TableName}
import io.lakestep.timeline.BatchTakenBack

/**
 * What becomes of a table, of a name, or of streaming queries.
 *
 * @param action `RESTORED`, `UNCHANGED`, `MADE SINCE`; `NAMED`, `DROPPED`; `BATCHES`
 * @param from the version of the table that is read
 * @param to the version that it is like afterwards, where there is one
 * @param takenBack applications and queries that get an earlier mark, `kept` those that do not
 */
private[lakestep] final case class UndoneRow(
    action: String,
    table: Option[String] = None,
    path: Option[String] = None,
    from: Option[Long] = None,
    to: Option[Long] = None,
    added: DeltaUndo.Files = DeltaUndo.Files.none,
    removed: DeltaUndo.Files = DeltaUndo.Files.none,
    takenBack: Seq[String] = Nil,
    kept: Seq[String] = Nil)

private[catalog] object UndoneRow {

  def identifier(name: TableName): TableIdentifier =
    TableIdentifier(name.name, Some(name.schema), Some(SparkInternals.sessionCatalogName))

  def ofNames(names: NameState): Seq[UndoneRow] =
    names.schemas.toSeq.sortBy(_._1).map { case (name, after) =>
      UndoneRow(if (after.isDefined) "NAMED" else "DROPPED", Some(name))
    } ++ names.tables.toSeq.sortBy(t => (t._1.schema, t._1.name)).map { case (name, after) =>
      UndoneRow(
        if (after.isDefined) "NAMED" else "DROPPED",
        Some(identifier(name).unquotedString),
        after.flatMap(_.storage.locationUri).map(_.toString)
      )
    }

  def ofBatches(taken: Seq[BatchTakenBack], kept: Seq[String]): Seq[UndoneRow] =
    if (taken.isEmpty && kept.isEmpty) Nil
    else Seq(UndoneRow("BATCHES", takenBack = taken.map(_.key.query), kept = kept))
}
