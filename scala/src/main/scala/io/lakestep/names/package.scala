package io.lakestep

/**
 * What names stand for: tables, views and schemas of a metastore, as a transaction has changed them.
 *
 * [[names.TransactionNames]] are those of one transaction, [[names.Definition]] is how an entry writes one, and
 * [[names.Metastore]] makes them when the transaction is committed.
 *
 * Guarantees: nothing here deletes or moves a folder; a name that exists before and after a transaction
 * is never missing in between.
 */
package object names
