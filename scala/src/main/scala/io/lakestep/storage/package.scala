package io.lakestep

/**
 * Files, each created whole or not at all.
 *
 * [[ObjectStore]] is the contract: six numbered guarantees that everything above relies on, and that
 * `ObjectStoreContract` tests against each store for real. [[StoreKind]] is the table of schemes: which
 * store serves them, and who else may write there. [[HadoopStores]] makes stores of a Hadoop
 * configuration; a local disk is written by Java itself, as Hadoop's file system there makes nothing
 * durable.
 *
 * Guarantees: `putIfAbsent` creates a file once for all clients, or says that it is there, or that it
 * cannot tell. Knows Hadoop, and nothing of Spark, Delta or tables. Begin with `ObjectStore.scala`.
 */
package object storage
