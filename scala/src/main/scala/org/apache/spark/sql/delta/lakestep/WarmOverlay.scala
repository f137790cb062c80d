package org.apache.spark.sql.delta.lakestep

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, Snapshot, VersionChecksum}
import org.apache.spark.sql.delta.actions.SingleAction

/**
 * Gives the overlay of a table what Delta has in memory of the table itself, so that nothing is
 * reconstructed twice. Where this is not possible the overlay is opened as any other table: the
 * answers are the same, the first one comes later.
 */
object WarmOverlay extends Logging {

  /**
   * To be called when the table is pinned, before anything reads the overlay.
   *
   * The state is taken over only from a snapshot of the pinned version whose log files have the
   * names, lengths and times of those that the overlay shows.
   *
   * @return that snapshot of the table itself
   */
  def open(session: SparkSession, base: Path, overlay: Path, pin: Long): Option[Snapshot] =
    try session.withActive {
        val log = DeltaLog.forTable(session, overlay)
        val cold = log.unsafeVolatileSnapshot
        val warm = DeltaLog.forTable(session, base)
        val known = Option(warm.unsafeVolatileSnapshot).filter(_.version >= pin)
        val snapshot = known.getOrElse(warm.update())
        // A table that is not there yet has nothing to take over.
        Option.when(pin >= 0 && cold.version == pin && files(snapshot) == files(cold)) {
          log.withSnapshotLockInterruptibly {
            install.invoke(
              log,
              new PinnedSnapshot(cold, snapshot),
              Long.box(log.clock.getTimeMillis())
            )
          }
          snapshot
        }
      }
    catch {
      case NonFatal(failure) =>
        logWarning(s"The overlay of $base starts cold", failure)
        None
    }

  /** Drops what Delta has in memory of overlays that nobody may read any more. */
  def forget(session: SparkSession, overlays: Seq[Path]): Unit =
    forget(session, overlays, inOnePass(session, _))

  private[lakestep] def forget(
      session: SparkSession,
      overlays: Seq[Path],
      dropAll: Seq[Path] => Unit): Unit =
    try dropAll(overlays)
    catch {
      case failure @ (NonFatal(_) | _: LinkageError) =>
        logWarning("Overlays are dropped one by one", failure)
        overlays.foreach(DeltaLog.invalidateCache(session, _))
    }

  /**
   * `DeltaLog.invalidateCache` copies Hadoop's configuration, and goes through the whole cache, for
   * each of them.
   */
  private[lakestep] def inOnePass(session: SparkSession, overlays: Seq[Path]): Unit = {
    val logs = overlays.map(DeltaLog.logPathFor(_: Path)).toSet
    val cached = DeltaLog.getOrCreateCache(session.sessionState.conf)
    cached.invalidateAll(cached.asMap.keySet.asScala.filter(key => logs(key.path)).toSeq.asJava)
  }

  /** What a snapshot is made of: its checkpoint and the commits after it. */
  private def files(snapshot: Snapshot): (Long, Seq[(String, Long, Long)]) = {
    val segment = snapshot.logSegment
    val files = segment.checkpointProvider.topLevelFiles ++ segment.deltas
    snapshot.version -> files.map(f => (f.getPath.getName, f.getLen, f.getModificationTime))
  }

  /** Protected in Delta. */
  private lazy val install =
    classOf[DeltaLog].getMethod("installSnapshot", classOf[Snapshot], classOf[Long])
}

/** The version that an overlay begins with, reconstructed by the table's own snapshot of it. */
private final class PinnedSnapshot(cold: Snapshot, warm: Snapshot)
    extends Snapshot(
      cold.path,
      cold.version,
      cold.logSegment,
      cold.deltaLog,
      warm.checksumOpt.orElse(cold.checksumOpt)
    ) {

  override def stateDF: DataFrame = warm.stateDF
  override def stateDS: Dataset[SingleAction] = warm.stateDS
  override protected def withStatsInternal: DataFrame = warm.withStats
  override def computeChecksum: VersionChecksum = warm.computeChecksum

  override protected def protocolMetadataICTAndLMCReconstruction()
      : Array[ReconstructedProtocolMetadataICTAndLMC] = Array(
    ReconstructedProtocolMetadataICTAndLMC(warm.protocol, null, None, None),
    ReconstructedProtocolMetadataICTAndLMC(null, warm.metadata, None, None),
    ReconstructedProtocolMetadataICTAndLMC(null, null, warm.getInCommitTimestampOpt, None)
  )
}
