package org.apache.spark.sql.delta.lakestep

import scala.jdk.CollectionConverters._

/**
 * Who of Spark or Delta has called: what nothing but the stack of this thread tells. Names that this
 * looks for are in `lakestep-contract.tsv`.
 */
object Callers {

  private val Sql = "org.apache.spark.sql."

  /** Looks a table up for `DeltaTable.forName`. */
  def isDeltaTableForName: Boolean = walk(_.take(6).exists { frame =>
    frame.getClassName == "io.delta.tables.DeltaTable$" && frame.getMethodName == "forName"
  })

  /** Reads the versions of a table for `DeltaTable.history`. */
  def isDeltaHistory: Boolean = walk(_.exists { frame =>
    frame.getClassName == s"${Sql}delta.DeltaHistoryManager" && frame.getMethodName == "getHistory"
  })

  /** Looks at a table that an overwriting `saveAsTable` is about to drop (Spark 4.0.1). */
  def isSaveAsTable: Boolean = walk(_.sliding(2).exists {
    case Seq(table, save) =>
      table.getClassName == s"${Sql}classic.SparkSession" && table.getMethodName == "table" &&
      save.getClassName == s"${Sql}classic.DataFrameWriter" && save.getMethodName == "saveAsTable"
    case _ => false
  })

  /** Builds cached data anew, which is for all sessions. */
  def isRecaching: Boolean = walk(_.exists { frame =>
    frame.getClassName == s"${Sql}execution.CacheManager" &&
    frame.getMethodName == "recacheByCondition"
  })

  /** Parses a text for EXECUTE IMMEDIATE, which runs no script. Before Spark 4.1 it is another class. */
  def isExecuteImmediate: Boolean = walk(
    _.exists(_.getClassName.startsWith(s"${Sql}catalyst.analysis.ResolveExecuteImmediate"))
  )

  /** Analyses a plan for the analysis of another one, of which it is a part. */
  def isInAnalysis: Boolean = walk(
    _.filter { frame =>
      frame.getClassName == s"${Sql}catalyst.analysis.Analyzer" &&
      frame.getMethodName.endsWith("$executeSameContext")
    }.size > 1
  )

  /** Works for a client of Spark Connect. */
  def isConnect: Boolean = walk(_.exists(_.getClassName.startsWith(s"${Sql}connect.")))

  /** The class that asks for a clone of a session at this moment, if one does. */
  def cloner: Option[String] = walk(
    _.dropWhile(!isCloneSession(_)).dropWhile(isCloneSession).nextOption().map(_.getClassName)
  )

  /** Whether a class that clones a session does it for a stream, in which foreachBatch runs. */
  def isStream(cloner: String): Boolean = cloner.startsWith(s"${Sql}execution.streaming.")

  /** Whether it does it for a part of its own work, and not for another client. */
  def isEngine(cloner: String): Boolean =
    cloner.startsWith(Sql) && !cloner.startsWith(s"${Sql}connect.")

  private def isCloneSession(frame: StackWalker.StackFrame): Boolean =
    frame.getMethodName == "cloneSession" && frame.getClassName == s"${Sql}classic.SparkSession"

  private def walk[T](ask: Iterator[StackWalker.StackFrame] => T): T =
    StackWalker.getInstance.walk(frames => ask(frames.iterator.asScala))
}
