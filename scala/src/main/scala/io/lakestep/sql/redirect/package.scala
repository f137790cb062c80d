package io.lakestep.sql

/**
 * From a table to its overlay, for what is not named in a catalog: paths, DataFrames and views that were
 * made before BEGIN or in a transaction that has ended, `saveAsTable`.
 *
 * Guarantees: a plan reads and writes through the open transaction, or is refused.
 */
package object redirect
