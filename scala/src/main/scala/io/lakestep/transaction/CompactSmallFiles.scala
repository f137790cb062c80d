package io.lakestep.transaction

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{CompactFiles, SparkInternals}
import io.lakestep.Json
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

  override def apply(table: WrittenTable, groups: Vector[Vector[AddFile]]): Vector[AddFile] =
    try {
      val overlay = transaction.touched.find(_.ref == table.path).map(_.overlay)
      val files = groups.flatten.map(add => Json.text(add.node))
      // What it reads is no read of the transaction.
      val own = SparkInternals.cloned(session)
      own.conf.set("spark.sql.files.maxRecordsPerFile", "0")
      own.conf.set("spark.databricks.delta.stats.collect", "true")
      val lines = overlay.toVector.flatMap(CompactFiles(own, _, files, groups.size))
      val made = TableLog.parse(table.name, lines.mkString("\n").getBytes("UTF-8"))
        .collect { case add: AddFile => add }
      transaction.compacted.made(made.map(add => table.path.dataFile(add.path)))
      made
    } catch {
      case NonFatal(failure) =>
        logWarning(s"The small files of ${table.name} are published as they are", failure)
        Vector.empty
    }

  override def replaced(
      table: WrittenTable,
      groups: Vector[Vector[AddFile]],
      by: Vector[AddFile]): Unit = {
    def files(adds: Vector[AddFile]) = adds.map(add => table.path.dataFile(add.path))
    transaction.compacted.replaced(files(groups.flatten), files(by))
  }
}
