package org.apache.spark.sql.delta

/**
 * Everything that Lakestep reaches in Spark and Delta that is not their public interface, one fact a
 * file. In Delta's own package, as most of it is `private[delta]`.
 *
 * `lakestep-contract.tsv` lists what is looked up by name, the build lists what is linked, and
 * `RuntimeContract` looks for all of it when a session starts: on a Spark or Delta without one of them the
 * session does not start, and the error says what is missing and what breaks without it.
 *
 * Guarantees: no other folder uses reflection or walks the stack (HouseSuite). Begin with
 * `StagingObserver.scala`, the transactions of Delta that are staged.
 */
package object lakestep
