package io.lakestep

/**
 * What a session finds under a name, and under a path.
 *
 * [[SessionNames]] stands between a session and its metastore: while a transaction is open it gives, and
 * takes, the transaction's tables, views and schemas. [[TransactionalCatalog]] gives the overlay of a Delta table in a
 * transaction and the table itself outside, and makes new ones in theirs, which [[MakingTable]] places.
 * [[RedirectPath]] does the same for a path. [[DroppedTables]] gives a name back. [[BindCatalogs]] lets each
 * session ask its own transaction.
 *
 * Guarantees: no Delta table is loaded past an open transaction, and no name changes in the metastore; other
 * tables are as without Lakestep.
 */
package object catalog
