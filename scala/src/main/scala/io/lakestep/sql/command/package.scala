package io.lakestep.sql

/**
 * The commands of Lakestep's own SQL: BEGIN, COMMIT, ROLLBACK, SHOW, DESCRIBE, EXPLAIN CONFLICT, RECOVER,
 * VACUUM TRANSACTIONS, and the block of several statements.
 *
 * Each is a Spark command with its columns. What they do is in `io.lakestep.transaction` and
 * `io.lakestep.commit`; inspection commands run in whatever state a session is.
 */
package object command
