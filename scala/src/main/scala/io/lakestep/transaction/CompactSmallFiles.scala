package io.lakestep.transaction

import scala.util.control.NonFatal

import org.apache.spark.SparkException
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{CompactFiles, SparkInternals}
import io.lakestep.{Errors, Json}
import io.lakestep.commit.{Compaction, WrittenTable}
import io.lakestep.log.{AddFile, TableLog}

/**
 * At COMMIT the small files that the transaction has added are written as one for each partition. Where that
 * fails they stay as they are, and the transaction goes on.
 */
private[transaction] final class CompactSmallFiles(session: SparkSession, transaction: Transaction)
    extends Compaction
    with Logging {

  override def isOn: Boolean = true

  /** Condition: LAKESTEP_COMMIT_CANCELLED. */
  override def apply(table: WrittenTable, groups: Vector[Vector[AddFile]]): Vector[AddFile] =
    try {
      val missing = groups.filter(transaction.compacted.find(table.path, _).isEmpty)
      if (missing.nonEmpty) transaction.compacted.add(table.path, missing, write(table, missing))
      groups.flatMap(transaction.compacted.find(table.path, _))
    } catch {
      case failure @ (NonFatal(_) | _: InterruptedException)
          if CompactSmallFiles.isCancelled(failure) =>
        throw Errors.caused(
          "LAKESTEP_COMMIT_CANCELLED",
          failure,
          "transaction" -> transaction.id
        )
      case NonFatal(failure) =>
        logWarning(s"The small files of ${table.name} are published as they are", failure)
        Vector.empty
    }

  /** In a clone of the session: what it reads is no read of the transaction. */
  private def write(table: WrittenTable, groups: Vector[Vector[AddFile]]): Vector[AddFile] = {
    val own = SparkInternals.cloned(session)
    own.conf.set("spark.sql.files.maxRecordsPerFile", "0")
    own.conf.set("spark.databricks.delta.stats.collect", "true")
    // A statement may have written microseconds before this was set.
    if (own.conf.get(CompactSmallFiles.TimestampType) == "TIMESTAMP_MILLIS")
      own.conf.set(CompactSmallFiles.TimestampType, "TIMESTAMP_MICROS")
    val overlay = transaction.touched.find(_.ref == table.path).map(_.overlay)
    val files = groups.flatten.map(add => Json.text(add.node))
    val lines = overlay.toVector.flatMap(CompactFiles(own, _, files, groups.size))
    TableLog.parse(table.name, lines.mkString("\n").getBytes("UTF-8"))
      .collect { case add: AddFile => add }
  }
}

private object CompactSmallFiles {
  private val TimestampType = "spark.sql.parquet.outputTimestampType"

  /** Whether the user has stopped it: a thread that is interrupted, a job that is cancelled. */
  private def isCancelled(failure: Throwable): Boolean =
    Iterator.iterate(failure)(_.getCause).takeWhile(_ != null).take(10).exists {
      case _: InterruptedException => true
      case spark: SparkException => spark.getCondition == "SPARK_JOB_CANCELLED"
      case _ => false
    }
}
