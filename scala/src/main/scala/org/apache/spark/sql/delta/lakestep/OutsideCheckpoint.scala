package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{
  AdaptiveMetadataTableFeature, Checkpoints, CommittedTransaction, LastCheckpointInfo
}
import org.apache.spark.sql.delta.hooks.{CheckpointHook, PostCommitHook}

/**
 * In place of Delta's checkpoint after a commit outside of transactions: the clean-up of the log that
 * follows leaves what somebody needs. Where it cannot be told what that is, it leaves everything.
 *
 * Delta runs no hook after what it calls large commits, RESTORE, CLONE and CONVERT.
 *
 * @param needs nothing for a table that no transaction has written
 */
private[lakestep] final class OutsideCheckpoint(needs: Path => Option[LogCleanup.Needs])
    extends PostCommitHook {

  override val name: String = CheckpointHook.name

  override def run(session: SparkSession, done: CommittedTransaction): Unit =
    if (done.maintenanceOperation.shouldCheckpoint) {
      val (log, version) = (done.deltaLog, done.committedVersion)
      def isAdaptive =
        done.postCommitSnapshot.protocol.isFeatureSupported(AdaptiveMetadataTableFeature)
      DeltaHousekeeping.logged(s"No checkpoint of ${log.dataPath} at version $version") {
        needs(log.dataPath) match {
          case Some(needed) if !isAdaptive =>
            val snapshot = log.getSnapshotAt(
              version,
              lastCheckpointHint = None,
              lastCheckpointProvider = Some(done.postCommitSnapshot.checkpointProvider),
              catalogTableOpt = done.catalogTable,
              enforceTimeTravelWithinDeletedFileRetention = false
            )
            val written = Checkpoints.writeCheckpoint(session, log, snapshot, done.catalogTable)
            log.writeLastCheckpointFile(log, written, LastCheckpointInfo.checksumEnabled(session))
            DeltaHousekeeping.logged(s"The log of ${log.dataPath} was not cleaned up")(
              LogCleanup(log, snapshot, needed)
            )
          case _ => CheckpointHook.run(session, done)
        }
      }
    }
}
