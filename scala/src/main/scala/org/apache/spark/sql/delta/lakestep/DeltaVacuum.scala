package org.apache.spark.sql.delta.lakestep

import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import io.delta.tables.execution.VacuumTableCommand
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, DeltaTableUtils, UniversalFormat}
import org.apache.spark.sql.delta.actions.Metadata
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.VacuumCommand
import org.apache.spark.sql.delta.util.DeltaFileOperations
import org.apache.spark.sql.functions.{coalesce, col, lit, when}
import org.apache.spark.util.SerializableConfiguration

/**
 * Delta's VACUUM, from which some files are kept: it gets them in its inventory, as younger than they are.
 * (It may ignore the hours that it is given.)
 */
object DeltaVacuum {

  /**
   * What stays.
   *
   * @param sinceMs what was written after that
   * @param states data files of versions, as full paths below a table's own one, which they are given
   */
  final case class Spared(sinceMs: Option[Long], states: Seq[String => DataFrame]) {
    def isEmpty: Boolean = sinceMs.isEmpty && states.isEmpty
  }

  /**
   * @param spared by the newest version of the table, and the time before which files are deleted at most
   * @param refused is called when it has failed and deleted nothing, once `spared` has been asked
   */
  def apply(session: SparkSession, vacuum: VacuumTableCommand)(spared: (Long, Long) => Spared)(
      refused: => Unit): Seq[Row] = {
    val table = VacuumCommand.getDeltaTable(vacuum.child, "VACUUM")
    if (!table.tableExists || table.hasPartitionFilters) vacuum.run(session)
    else {
      val snapshot = table.update()
      val configured = DeltaLog.tombstoneRetentionMillis(snapshot.metadata)
      val hours = vacuum.horizonHours.map(h => TimeUnit.HOURS.toMillis(math.round(h)))
      // Which of them counts is Delta's to say.
      val retainMs = hours.fold(configured)(_.min(configured))
      var isBegun = false
      try {
        val spare = spared(snapshot.version, System.currentTimeMillis() - retainMs)
        val wanted = asked(session, vacuum)
        val inventory =
          if (spare.isEmpty || wanted.exists(!isInventory(_))) wanted
          else
            Some(without(
              table,
              wanted.getOrElse(listed(session, table, snapshot.metadata)),
              spare
            ))
        isBegun = true
        VacuumCommand.gc(
          session,
          table,
          vacuum.dryRun,
          vacuum.horizonHours,
          inventory,
          vacuum.vacuumType
        ).collect().toSeq
      } catch {
        case e: Throwable if !isBegun || isRefused(e) =>
          try refused
          catch { case NonFatal(undo) => e.addSuppressed(undo) }
          throw e
      }
    }
  }

  /**
   * Whether Delta has not even looked for files: the hours are too few, for which there is no condition on Spark
   * 4.0, or the inventory is none.
   */
  private def isRefused(failure: Throwable): Boolean = failure match {
    case told: SparkThrowable if told.getCondition != null =>
      told.getCondition.startsWith("DELTA_VACUUM_RETENTION_PERIOD_") ||
      told.getCondition == "DELTA_INVALID_INVENTORY_SCHEMA"
    case plain: IllegalArgumentException =>
      String.valueOf(plain.getMessage).startsWith("requirement failed")
    case _ => false
  }

  private def isInventory(frame: DataFrame): Boolean =
    VacuumCommand.INVENTORY_SCHEMA.fieldNames.forall(frame.columns.contains)

  /** The inventory that the user gives. */
  private def asked(session: SparkSession, vacuum: VacuumTableCommand): Option[DataFrame] =
    vacuum.inventoryTable.map { table =>
      val found = SparkInternals.analyzed(session, table)
      VacuumCommand.getDeltaTable(found, "VACUUM").toDf(session)
    }.orElse(vacuum.inventoryQuery.map(session.sql(_)))

  /** Everything below the table, as VACUUM would list it; not in 10,000 tasks. */
  private def listed(
      session: SparkSession,
      table: DeltaTableV2,
      metadata: Metadata): DataFrame = {
    val partitions = metadata.partitionSchema.fieldNames.toSeq
    val iceberg = UniversalFormat.icebergEnabled(metadata)
    def isHidden(name: String) = DeltaTableUtils.isHiddenDirectory(partitions, name, iceberg)
    val conf = session.sparkContext.broadcast(
      new SerializableConfiguration(table.deltaLog.newDeltaHadoopConf())
    )
    DeltaFileOperations.recursiveListDirs(
      session,
      Seq(base(table)),
      conf,
      hiddenDirNameFilter = isHidden,
      hiddenFileNameFilter = isHidden
    ).toDF()
  }

  private def without(table: DeltaTableV2, inventory: DataFrame, spare: Spared): DataFrame = {
    def nullable(name: String) = when(col("path").isNotNull, col(name)).as(name)
    val young = spare.sinceMs.fold(lit(false))(ms => col("modificationTime") >= ms)
    val marked = spare.states.map(_(base(table)).select("path")).reduceOption(_ union _)
      .fold(inventory.withColumn(IsKept, lit(false))) { kept =>
        inventory.join(kept.distinct().withColumn(IsKept, lit(true)), Seq("path"), "left")
      }
    marked.select(
      col("path"),
      nullable("length"),
      nullable("isDir"),
      when(coalesce(col(IsKept), lit(false)) || young, lit(Long.MaxValue))
        .otherwise(nullable("modificationTime")).as("modificationTime")
    )
  }

  private val IsKept = "lakestep_is_kept"

  private def base(table: DeltaTableV2): String = {
    val path = table.deltaLog.dataPath
    path.getFileSystem(table.deltaLog.newDeltaHadoopConf()).makeQualified(path).toString
  }
}
