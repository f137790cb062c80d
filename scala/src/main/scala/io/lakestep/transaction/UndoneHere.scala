package io.lakestep.transaction

import io.lakestep.commit.BegunTransaction
import io.lakestep.timeline.{BatchTakenBack, Undone}

/** What the statements of a transaction take back of others: REVERT and RESTORE. */
final case class UndoneHere(undoes: Vector[Undone], batches: Vector[BatchTakenBack]) {

  def and(undone: Undone, more: Vector[BatchTakenBack]): UndoneHere =
    UndoneHere(
      undoes :+ undone,
      batches.filterNot(b => more.exists(_.key.query == b.key.query)) ++ more
    )

  /** As COMMIT puts it. */
  def in(begun: BegunTransaction): BegunTransaction =
    if (undoes.isEmpty) begun else begun.copy(undoes = undoes, takenBack = batches)
}

object UndoneHere {
  val none: UndoneHere = UndoneHere(Vector.empty, Vector.empty)
}
