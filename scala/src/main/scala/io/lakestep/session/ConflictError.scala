package io.lakestep.session

import io.lakestep.{Errors, LakestepException}
import io.lakestep.timeline.Conflict
import io.lakestep.transaction.ConflictCheck

/** A [[Conflict]] as the error that COMMIT raises: who, where, by which rule, what to do next. */
private[session] object ConflictError {

  def apply(transactionId: String, conflict: Conflict): LakestepException =
    Errors(
      "LAKESTEP_CONFLICT",
      "transaction" -> transactionId,
      "rule" -> conflict.rule,
      "table" -> conflict.table,
      "version" -> conflict.version.fold("none")(_.toString),
      "operation" -> conflict.operation.getOrElse("unknown"),
      "user" -> conflict.user.getOrElse("unknown"),
      "other" -> conflict.otherTransaction.getOrElse("none"),
      "files" -> (if (conflict.files.isEmpty) "none" else conflict.files.mkString(", "))
    )

  /** The table was deleted, with what the transaction had staged. */
  def tableGone(transactionId: String, table: TouchedTable): LakestepException = {
    val rule = ConflictCheck.TableGone
    apply(
      transactionId,
      Conflict(rule, table.name, table.uri, None, None, None, None, Vector.empty, None)
    )
  }
}
