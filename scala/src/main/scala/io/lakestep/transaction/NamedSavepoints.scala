package io.lakestep.transaction

import io.lakestep.Errors

/**
 * The savepoints that a user has set in a transaction. Names are told apart as Spark does it, without
 * regard to case; of several with one name the newest counts.
 *
 * Guarded by the turn of the transaction; `all` may be asked at any time.
 */
private[transaction] final class NamedSavepoints(transaction: String) {

  @volatile private var known = Vector.empty[NamedSavepoint]

  /** Oldest first. */
  def all: Vector[NamedSavepoint] = known

  def set(name: String, at: Savepoint): Unit = known = known :+ NamedSavepoint(name, at)

  /** Condition: LAKESTEP_SAVEPOINT_NOT_FOUND. */
  def find(name: String): NamedSavepoint = known(indexOf(name))

  /** Forgets it, and those that were set after it. */
  def release(name: String): Unit = known = known.take(indexOf(name))

  def restore(before: Vector[NamedSavepoint]): Unit = known = before

  private def indexOf(name: String): Int = {
    val found = known.lastIndexWhere(_.name.equalsIgnoreCase(name))
    if (found < 0) {
      val names = known.map(s => s"`${s.name}`").distinct
      throw Errors(
        "LAKESTEP_SAVEPOINT_NOT_FOUND",
        "savepoint" -> name,
        "transaction" -> transaction,
        "known" -> (if (names.isEmpty) "none" else names.mkString(", "))
      )
    }
    found
  }
}
