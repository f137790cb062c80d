package io.lakestep.sql

/**
 * What statements read.
 *
 * `StatementTables` keeps the tables of a query before any of them is optimized away, `ReadSets` records what
 * a SERIALIZABLE statement reads of them, `ConsistentReads` gives a query outside a transaction one snapshot.
 *
 * Guarantees: what cannot be narrowed counts as the whole table.
 */
package object read
