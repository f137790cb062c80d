package io.lakestep.session

import java.util.{Collections, Set => JSet, WeakHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession

/**
 * The clones that Spark and Delta make of a session for a part of their own work: the rows that a
 * partial overwrite removes, the plan of cached data. They belong to the transaction of the session
 * they were made of. A clone that a user asks Spark Connect for is another client.
 *
 * Spark tells a clone nothing of its parent but the parent's settings, so who asked for it is read
 * from the stack while it is made.
 */
private[lakestep] object InternalClones {

  private val clones: JSet[SparkSession] =
    Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap))

  /** To be called while the state of a session is made. */
  def note(session: SparkSession): Unit = if (isMadeInternally) { clones.add(session); () }

  def contains(session: SparkSession): Boolean = clones.contains(session)

  private def isMadeInternally: Boolean =
    StackWalker.getInstance.walk { frames =>
      frames.iterator.asScala
        .dropWhile(f => !(f.getMethodName == "cloneSession" && isSession(f.getClassName)))
        .dropWhile(f => f.getMethodName == "cloneSession" && isSession(f.getClassName))
        .nextOption()
        .exists { caller =>
          val name = caller.getClassName
          name.startsWith("org.apache.spark.sql.") && !name.startsWith(
            "org.apache.spark.sql.connect."
          )
        }
    }

  private def isSession(className: String): Boolean =
    className == "org.apache.spark.sql.classic.SparkSession"
}
