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
   * What has to stay.
   *
   * @param undoMs what the table was like since then can be read, if it is given
   * @param oldest the oldest version that is read, if any is; asked for only where something is to go
   */
  final case class Needs(undoMs: Option[Long], oldest: () => Option[Long])

  def apply(log: DeltaLog, snapshot: Snapshot, needs: Needs): Unit = {
    val metadata = snapshot.metadata
    val retainMs = log.deltaRetentionMillis(metadata)
    if (log.enableExpiredLogCleanup(metadata)) {
      val files = listed(log, from = 0)
      val now = log.clock.getTimeMillis()
      def clean(ms: Long): Unit =
        log.cleanUpExpiredLogs(snapshot, deltaRetentionMillisOpt = Some(ms))
      def oldest =
        (needs.undoMs.map(ms => versionAt(files, now - ms)) ++ needs.oldest()).minOption
      if (files.exists(_.getModificationTime < now - retainMs)) oldest match {
        case None => clean(retainMs)
        case Some(version) =>
          // Without a checkpoint it takes the whole log to read the version.
          for (base <- checkpointBefore(log, version)) {
            val kept = files.filter(versionOf(_) >= base)
            val sinceMs = kept.map(_.getModificationTime).minOption.getOrElse(now)
            clean(retainMs.max(now - sinceMs + MarginMs))
          }
      }
    }
  }

  private def listed(log: DeltaLog, from: Long): Vector[FileStatus] =
    log.store.listFrom(FileNames.listingPrefix(log.logPath, from), log.newDeltaHadoopConf())
      .filter(isVersioned).toVector

  private def versionOf(file: FileStatus) = FileNames.getFileVersion(file.getPath)

  /** The newest version at a time, or the first one there is. */
  private def versionAt(files: Vector[FileStatus], timeMs: Long): Long = {
    val commits = files.filter(FileNames.isDeltaFile)
    val (before, since) = commits.partition(_.getModificationTime <= timeMs)
    before.lastOption.orElse(since.headOption).fold(0L)(versionOf)
  }

  private def isVersioned(file: FileStatus) =
    FileNames.isDeltaFile(file) || FileNames.isCheckpointFile(file) ||
      FileNames.isChecksumFile(file)

  private def checkpointBefore(log: DeltaLog, version: Long): Option[Long] =
    log.findLastCompleteCheckpointBefore(Some(CheckpointInstance(version + 1))).map(_.version)

  /** When a clean-up may first take what a version needs, its checkpoint too, if its commit is there. */
  def keptUntilMs(session: SparkSession, table: Path, version: Long): Option[Long] =
    session.withActive {
      val log = DeltaLog.forTable(session, table)
      val retainMs = log.deltaRetentionMillis(log.update().metadata)
      val files = listed(log, checkpointBefore(log, version).getOrElse(0L))
        .takeWhile(versionOf(_) <= version)
      val isThere = files.exists(f => FileNames.isDeltaFile(f) && versionOf(f) == version)
      Option.when(isThere)(files.map(_.getModificationTime).min + retainMs)
    }
}
