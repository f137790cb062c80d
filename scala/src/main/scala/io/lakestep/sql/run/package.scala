package io.lakestep.sql

/**
 * Running statements.
 *
 * `StatementRoot` is the root of each plan over Delta tables: it compares what the plan was made for with the
 * session's transaction now, each time it is executed. `OneStatementTransaction` and `BeforeOutsideStatement`
 * are statements outside of one; `WatchStatements` knows what a user may have seen.
 *
 * Guarantees: no frame shows the data of another transaction than the one it runs in.
 */
package object run
