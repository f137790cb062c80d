package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{CheckpointInstance, DeltaLog, Snapshot}
import org.apache.spark.sql.delta.util.FileNames

/** Delta's clean-up of a log, which leaves what somebody needs. */
object LogCleanup {

  /** File times are of the store, and only compared with each other; Delta asks the clock again. */
  private val MarginMs = 60000L

  /**
   * @param leastMs what is younger stays
   * @param needed the oldest version that is read, if any is; asked for only where something is to go
   */
  def apply(log: DeltaLog, snapshot: Snapshot, leastMs: Long, needed: => Option[Long]): Unit = {
    val metadata = snapshot.metadata
    val retainMs = log.deltaRetentionMillis(metadata).max(leastMs)
    if (log.enableExpiredLogCleanup(metadata)) {
      val files = log.store
        .listFrom(FileNames.listingPrefix(log.logPath, 0), log.newDeltaHadoopConf())
        .filter(isVersioned).toVector
      val now = log.clock.getTimeMillis()
      def clean(ms: Long): Unit =
        log.cleanUpExpiredLogs(snapshot, deltaRetentionMillisOpt = Some(ms))
      if (files.exists(_.getModificationTime < now - retainMs)) needed match {
        case None => clean(retainMs)
        case Some(version) =>
          // Without a checkpoint it takes the whole log to read the version.
          for (base <- checkpointBefore(log, version)) {
            val kept = files.filter(f => FileNames.getFileVersion(f.getPath) >= base)
            val sinceMs = kept.map(_.getModificationTime).minOption.getOrElse(now)
            clean(retainMs.max(now - sinceMs + MarginMs))
          }
      }
    }
  }

  private def isVersioned(file: FileStatus) =
    FileNames.isDeltaFile(file) || FileNames.isCheckpointFile(file) ||
      FileNames.isChecksumFile(file)

  private def checkpointBefore(log: DeltaLog, version: Long): Option[Long] =
    log.findLastCompleteCheckpointBefore(Some(CheckpointInstance(version + 1))).map(_.version)

  /** When a clean-up may first take what a version needs, if its commit is there. */
  def keptUntilMs(session: SparkSession, table: Path, version: Long): Option[Long] =
    session.withActive {
      val log = DeltaLog.forTable(session, table)
      val retainMs = log.deltaRetentionMillis(log.update().metadata)
      log.store
        .listFrom(FileNames.listingPrefix(log.logPath, version), log.newDeltaHadoopConf())
        .find(FileNames.isDeltaFile).filter(f => FileNames.deltaVersion(f) == version)
        .map(_.getModificationTime + retainMs)
    }
}
