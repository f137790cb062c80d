package io.lakestep.transaction

import java.util.{Collections, Set => JSet, WeakHashMap}

import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.Callers

/**
 * The clones that Spark and Delta make of a session for a part of their own work: the rows that a
 * partial overwrite removes, the plan of cached data. They belong to the transaction of the session
 * they were made of. A clone that a user asks Spark Connect for is another client, and so is that of a
 * stream, in which the function of foreachBatch runs.
 *
 * Spark tells a clone nothing of its parent but the parent's settings, so who asked for it is read
 * from the stack while it is made.
 */
private[lakestep] object InternalClones {

  private val clones = weakSet
  private val streams = weakSet

  private def weakSet: JSet[SparkSession] =
    Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap))

  /** To be called while the state of a session is made. */
  def note(session: SparkSession): Unit = Callers.cloner.foreach { cloner =>
    if (Callers.isStream(cloner)) streams.add(session)
    else if (Callers.isEngine(cloner)) clones.add(session)
  }

  def contains(session: SparkSession): Boolean = clones.contains(session)

  /** Whether the batches of a stream run in it. */
  def isOfStream(session: SparkSession): Boolean = streams.contains(session)
}
