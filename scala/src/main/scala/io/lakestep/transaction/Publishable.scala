package io.lakestep.transaction

import io.lakestep.Errors
import io.lakestep.log.{ForeignWriters, OneCommit, StagedEffect, StatementKind}

/** Whether COMMIT can publish what is staged of a table: asked of each statement, never at COMMIT. */
private[transaction] object Publishable {

  /** Refuses the statement that is about to write a table. */
  def checkBefore(
      table: TransactionTable,
      staged: Vector[StagedEffect],
      statement: StatementKind): Unit =
    table.pinnedHeader.flatMap(OneCommit.refusalBefore(_, staged, statement))
      .foreach(refusal => throw refusal.error(table.name))

  /**
   * Refuses the statement that has staged the last commits of a table, where COMMIT could not publish
   * them all. Nothing else of the table's content can keep COMMIT from it.
   */
  def check(table: TransactionTable, staged: Vector[StagedEffect]): Unit = {
    val pinned = table.pinnedHeader.getOrElse(
      // Not by a Delta transaction, so nobody has looked at what it read.
      throw Errors(
        "LAKESTEP_OVERLAY_CHANGE_REFUSED",
        "path" -> table.overlay.toString,
        "change" -> "stage a commit that no transaction of Delta's has made"
      )
    )
    OneCommit.refusal(Some(pinned), tracksRows = false, staged)
      .foreach(refusal => throw refusal.error(table.name))
    ForeignWriters.checkMode(pinned, staged)
  }
}
