package io.lakestep.transaction

/**
 * How a transaction stood before one of its statements; see `Transaction.rollbackTo`.
 *
 * @param staged the last staged version of each table
 * @param sessionChanges how many statements had changed the session
 * @param environment what else of the session a statement may use; see [[SessionEnvironment]]
 */
final case class Savepoint(
    tables: Map[String, TransactionTable.State],
    staged: Map[String, Long],
    sessionChanges: Int,
    environment: Map[String, String]) {

  /** Whether statements after this one would run again under what they ran under. */
  def isSameSession(other: Savepoint): Boolean =
    sessionChanges == other.sessionChanges && environment == other.environment
}

/** A statement of the transaction that can be run again. */
final case class Step(before: Savepoint, run: () => Unit)
