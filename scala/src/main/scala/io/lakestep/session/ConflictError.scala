package io.lakestep.session

import io.lakestep.{Errors, LakestepException}
import io.lakestep.timeline.Conflict

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
}
