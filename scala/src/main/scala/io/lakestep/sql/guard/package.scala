package io.lakestep.sql

/**
 * What statements may do in a transaction.
 *
 * `CommandCatalogue` decides by class, from `lakestep-commands.tsv`; a class that it does not know is
 * refused. `TransactionGuard` asks it for each command of each plan.
 *
 * Guarantees: what cannot be committed is refused at its statement, with a condition that names it.
 */
package object guard
