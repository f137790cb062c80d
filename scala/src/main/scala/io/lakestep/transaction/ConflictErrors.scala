package io.lakestep.transaction

import io.lakestep.{Errors, LakestepException}
import io.lakestep.timeline.{Conflict, Rule}

/** A [[Conflict]] as the error of COMMIT: `LAKESTEP_CONFLICT.<rule>`, with what is known of it. */
final class ConflictException(
    condition: String,
    parameters: Map[String, String],
    val conflict: Conflict)
    extends LakestepException(condition, parameters)

/** The conflict that ended a transaction, and what others had built upon, which stays. */
final case class MetConflict(transaction: String, conflict: Conflict, residue: Vector[String]) {

  /** What its user can do about it. */
  def nextStep: String = ConflictErrors.nextStep(conflict, residue)
}

private[transaction] object ConflictErrors {

  def apply(transactionId: String, conflict: Conflict): ConflictException =
    new ConflictException(conflict.rule.condition, parameters(transactionId, conflict), conflict)

  /** The conflict came after the order point, and what others had built upon could not be undone. */
  def leftResidue(
      transactionId: String,
      conflict: Conflict,
      entry: Long,
      residue: Seq[String]): LakestepException = Errors(
    Residue,
    (parameters(transactionId, conflict) ++
      Map("entry" -> entry.toString, "residue" -> residue.mkString(", "))).toSeq: _*
  )

  private val Residue = "LAKESTEP_ROLLED_BACK_WITH_RESIDUE"

  /** What its user can do about a conflict. */
  def nextStep(conflict: Conflict, residue: Seq[String]): String =
    if (residue.isEmpty) Errors.nextStep(conflict.rule.condition)
    else s"${Errors.nextStep(Residue)} Files that stay: ${residue.mkString(", ")}"

  /** Only what there is of it; `commit` says it in words. */
  private def parameters(transactionId: String, conflict: Conflict): Map[String, String] = Map(
    "transaction" -> transactionId,
    "rule" -> conflict.rule.name
  ) ++
    Some("commit" -> inWords(conflict)).filter(_ => conflict.table.nonEmpty) ++
    Some(conflict.table).filter(_.nonEmpty).map("table" -> _) ++
    conflict.version.map("version" -> _.toString) ++
    conflict.operation.map("operation" -> _) ++
    conflict.user.map("user" -> _) ++
    conflict.otherTransaction.map("other" -> _) ++
    conflict.entry.map("entry" -> _.toString) ++
    Option.when(conflict.files.nonEmpty)("files" -> conflict.files.mkString(", "))

  private def inWords(conflict: Conflict): String = {
    val words = Vector(
      conflict.operation.orElse(Some("a change")),
      conflict.user.map(user => s"by $user"),
      conflict.version.map(version => s"in version $version"),
      conflict.otherTransaction.map(id => s"(transaction $id)")
    )
    words.flatten.mkString(" ")
  }

  /** The table was deleted, with what the transaction had staged. */
  def tableGone(transactionId: String, table: TransactionTable): ConflictException =
    apply(transactionId, Conflict.overTable(Rule.TableGone, table.name, table.ref))
}
