package io.lakestep.transaction

import io.lakestep.Errors

/**
 * What a query that is planned reads of the tables of its transaction.
 *
 * @param takenBack how much had been taken back before
 * @param versions the last staged version of each table, by its path
 */
private[lakestep] final case class PlannedReads(takenBack: Int, versions: Map[String, Long])

/**
 * What a transaction has taken back so far. A plan that holds the files of such a part must not run: the
 * numbers of its versions come back with other content. Thread-safe.
 */
private[transaction] final class TakenBack {

  /** Tables, each with the last version that stayed. */
  @volatile private var parts = Vector.empty[(String, Long)]

  /** Data files that nothing names any more. Readers may be reading them, so they stay until the end. */
  @volatile private var unnamed = Vector.empty[String]

  def files: Vector[String] = unnamed

  def add(table: String, kept: Long, files: Vector[String]): Unit = synchronized {
    parts = parts :+ (table -> kept)
    unnamed = unnamed ++ files
  }

  /** @param last the last staged version of each table that has one */
  def planned(tables: Set[String], last: Map[String, Long]): PlannedReads =
    PlannedReads(parts.size, tables.flatMap(table => last.get(table).map(table -> _)).toMap)

  /** Condition: LAKESTEP_DATAFRAME_TAKEN_BACK, when the plan reads what was taken back since. */
  def check(transaction: String, plan: PlannedReads): Unit =
    parts.drop(plan.takenBack).foreach { case (table, kept) =>
      if (plan.versions.get(table).exists(_ > kept))
        throw Errors(
          "LAKESTEP_DATAFRAME_TAKEN_BACK",
          "table" -> table,
          "transaction" -> transaction
        )
    }
}
