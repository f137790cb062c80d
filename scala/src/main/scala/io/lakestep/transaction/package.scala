package io.lakestep

/**
 * The open transaction of a Spark session.
 *
 * [[Transaction]] is a state machine ([[TransactionState]]): the tables that it has met, what statements
 * staged, and [[Savepoint]], the one way back, for statements that fail and for those that are run again.
 * [[Lifecycle]] is BEGIN, COMMIT and ROLLBACK, [[Transactions]] which session has which, [[AfterCommit]] what
 * Delta does after a commit, [[Autocommit]] what statements outside owe transactions.
 *
 * Guarantees: one transaction a session, never one a thread; a statement that fails leaves nothing; COMMIT
 * that failed refuses every statement until ROLLBACK. Begin with `Transaction.scala`.
 */
package object transaction
