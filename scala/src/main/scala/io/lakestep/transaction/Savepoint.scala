package io.lakestep.transaction

import io.lakestep.names.NameState

/**
 * How a transaction stood before one of its statements; see `Transaction.rollbackTo`.
 *
 * @param named the savepoints that the user had set, oldest first
 * @param staged the last staged version of each table
 * @param sessionChanges how many statements had changed the session
 * @param names what statements had made of names
 * @param assertions what the transaction had asserted
 * @param undone what it had taken back of others
 * @param environment what else of the session a statement may use; see [[SessionEnvironment]]
 */
final case class Savepoint(
    tables: Map[String, TransactionTable.State],
    staged: Map[String, Long],
    named: Vector[NamedSavepoint],
    sessionChanges: Int,
    environment: Map[String, String],
    names: NameState,
    assertions: Assertions,
    undone: UndoneHere = UndoneHere.none) {

  /** Whether statements after this one would run again under what they ran under. */
  def isSameSession(other: Savepoint): Boolean =
    sessionChanges == other.sessionChanges && environment == other.environment
}

/** One that the user has set. */
final case class NamedSavepoint(name: String, at: Savepoint)

/** A statement of the transaction that can be run again. */
final case class Step(before: Savepoint, run: () => Unit)
