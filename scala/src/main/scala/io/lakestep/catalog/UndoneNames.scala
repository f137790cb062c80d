package io.lakestep.catalog

import io.lakestep.names.NameState
import io.lakestep.timeline.BatchTakenBack

/** Rows of what is taken back beside the data of tables. */
private[catalog] object UndoneNames {

  def rows(names: NameState): Seq[UndoneRow] =
    names.schemas.toSeq.sortBy(_._1).map { case (name, after) =>
      UndoneRow(if (after.isDefined) "NAMED" else "DROPPED", Some(name))
    } ++ names.tables.toSeq.sortBy(t => (t._1.schema, t._1.name)).map { case (name, after) =>
      UndoneRow(
        if (after.isDefined) "NAMED" else "DROPPED",
        Some(UndoneTables.identifier(name).unquotedString),
        after.flatMap(_.storage.locationUri).map(_.toString)
      )
    }

  def ofBatches(taken: Seq[BatchTakenBack], kept: Seq[String]): Seq[UndoneRow] =
    if (taken.isEmpty && kept.isEmpty) Nil
    else Seq(UndoneRow("BATCHES", takenBack = taken.map(_.key.query), kept = kept))
}
