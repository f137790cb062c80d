package io.lakestep.transaction

import java.util.{Collections, Set => JSet, WeakHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession

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

  private val Sql = "org.apache.spark.sql."

  private val clones = weakSet
  private val streams = weakSet

  private def weakSet: JSet[SparkSession] =
    Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap))

  /** To be called while the state of a session is made. */
  def note(session: SparkSession): Unit = cloner match {
    case Some(name) if name.startsWith(Sql + "execution.streaming.") => streams.add(session); ()
    case Some(name) if name.startsWith(Sql) && !name.startsWith(Sql + "connect.") =>
      clones.add(session); ()
    case _ =>
  }

  def contains(session: SparkSession): Boolean = clones.contains(session)

  /** Whether the batches of a stream run in it. */
  def isOfStream(session: SparkSession): Boolean = streams.contains(session)

  /** The class that asks for a clone at this moment, if one does. */
  private def cloner: Option[String] =
    StackWalker.getInstance.walk { frames =>
      frames.iterator.asScala
        .dropWhile(f => !(f.getMethodName == "cloneSession" && isSession(f.getClassName)))
        .dropWhile(f => f.getMethodName == "cloneSession" && isSession(f.getClassName))
        .nextOption()
        .map(_.getClassName)
    }

  private def isSession(className: String): Boolean =
    className == Sql + "classic.SparkSession"
}
