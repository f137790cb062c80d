package io.lakestep

/**
 * What Scala and Java callers use, and what a session is given.
 *
 * [[Lakestep]] runs a function as a transaction and marks writers with it; [[SessionHooks]] is the list of
 * everything that Lakestep adds to Spark, by the phase in which Spark calls it. Python's facade is
 * `python/src/lakestep`.
 */
package object api
