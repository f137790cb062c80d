package org.apache.spark.sql.delta.lakestep

import java.util.concurrent.TimeUnit

import io.delta.tables.execution.VacuumTableCommand
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, DeltaTableUtils, UniversalFormat}
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.VacuumCommand
import org.apache.spark.sql.delta.util.DeltaFileOperations
import org.apache.spark.sql.functions.{col, lit, when}
import org.apache.spark.util.SerializableConfiguration

/**
 * Delta's VACUUM, of which some files are kept out: it gets them in its inventory, as younger than they
 * are. A vacuum LITE, which takes no inventory, becomes a full one then.
 */
object DeltaVacuum {

  /**
   * @param sinceMs nothing is deleted that was written, or removed, after that
   * @param states tables, of overlays perhaps, whose newest versions have to stay
   */
  final case class Spared(sinceMs: Option[Long], states: Seq[Path])

  /** @param spared by the newest version of the table, and the time before which files are deleted */
  def apply(session: SparkSession, vacuum: VacuumTableCommand)(
      spared: (Long, Long) => Spared): Seq[Row] = {
    val table = VacuumCommand.getDeltaTable(vacuum.child, "VACUUM")
    if (!table.tableExists || table.hasPartitionFilters) vacuum.run(session)
    else {
      val snapshot = table.update()
      val now = System.currentTimeMillis()
      val retainMs = vacuum.horizonHours.map(h => TimeUnit.HOURS.toMillis(math.round(h)))
        .getOrElse(DeltaLog.tombstoneRetentionMillis(snapshot.metadata))
      val spare = spared(snapshot.version, now - retainMs)
      val hours = spare.sinceMs.filter(_ < now - retainMs)
        .map(since => math.ceil((now - since).toDouble / TimeUnit.HOURS.toMillis(1)))
      val wanted = asked(session, vacuum)
      val inventory =
        if (spare.states.isEmpty) wanted
        else Some(without(session, table, wanted.getOrElse(listed(session, table)), spare.states))
      VacuumCommand.gc(
        session,
        table,
        vacuum.dryRun,
        hours.orElse(vacuum.horizonHours),
        inventory,
        if (spare.states.isEmpty) vacuum.vacuumType else Some("FULL")
      ).collect().toSeq
    }
  }

  /** The inventory that the user gives. */
  private def asked(session: SparkSession, vacuum: VacuumTableCommand): Option[DataFrame] =
    vacuum.inventoryTable.map { table =>
      val found = SparkInternals.analyzed(session, table)
      VacuumCommand.getDeltaTable(found, "VACUUM").toDf(session)
    }.orElse(vacuum.inventoryQuery.map(session.sql(_)))

  /** Everything below the table, as VACUUM would list it. */
  private def listed(session: SparkSession, table: DeltaTableV2): DataFrame = {
    val metadata = table.update().metadata
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
      hiddenFileNameFilter = isHidden,
      fileListingParallelism = Some(session.sessionState.conf.parallelPartitionDiscoveryParallelism)
    ).toDF()
  }

  private def without(
      session: SparkSession,
      table: DeltaTableV2,
      inventory: DataFrame,
      states: Seq[Path]): DataFrame = {
    val kept = states.map(VersionFiles.data(session, _, base(table)).select("path"))
      .reduce(_ union _).distinct().withColumn("isKept", lit(true))
    val marked = inventory.join(kept, Seq("path"), "left")
    def nullable(name: String) = when(col("path").isNotNull, col(name)).as(name)
    marked.select(
      col("path"),
      nullable("length"),
      nullable("isDir"),
      when(col("isKept"), lit(Long.MaxValue)).otherwise(nullable("modificationTime"))
        .as("modificationTime")
    )
  }

  private def base(table: DeltaTableV2): String = {
    val path = table.deltaLog.dataPath
    path.getFileSystem(table.deltaLog.newDeltaHadoopConf()).makeQualified(path).toString
  }
}
