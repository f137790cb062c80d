package io.lakestep.session

import io.lakestep.{Errors, LakestepException}
import io.lakestep.timeline.Conflict
import io.lakestep.transaction.ConflictCheck

/** A [[Conflict]] as the error that COMMIT raises: who, where, by which rule, what to do next. */
private[session] object ConflictError {

  def apply(transactionId: String, conflict: Conflict): LakestepException =
    Errors("LAKESTEP_CONFLICT", told(transactionId, conflict): _*)

  /** The conflict came after the order point, and what others had built upon could not be undone. */
  def leftResidue(
      transactionId: String,
      conflict: Conflict,
      entry: Long,
      residue: Seq[String]): LakestepException = {
    val left = Seq("entry" -> entry.toString, "residue" -> residue.mkString(", "))
    Errors("LAKESTEP_ROLLED_BACK_WITH_RESIDUE", told(transactionId, conflict) ++ left: _*)
  }

  private def told(transactionId: String, conflict: Conflict): Seq[(String, String)] = Seq(
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
