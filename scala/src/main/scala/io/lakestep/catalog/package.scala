package io.lakestep

/**
 * Tables that are named in a catalog.
 *
 * [[TransactionalCatalog]] gives the overlay of a Delta table in a transaction and the table itself outside,
 * and refuses what a transaction cannot do with names yet. [[RedirectPath]] does the same for a path.
 * [[BindCatalogs]] lets each session ask its own transaction.
 *
 * Guarantees: no Delta table is loaded past an open transaction; other tables are as without Lakestep.
 */
package object catalog
