package org.apache.spark.sql.delta.lakestep

import java.io.FileNotFoundException

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{Checkpoints, DeltaLog, LastCheckpointInfo, Snapshot}
import org.apache.spark.sql.delta.util.FileNames

/**
 * Delta's checkpoint of a version and the log clean-up that follows it, with one step between them:
 * what the clean-up deletes may be the only other copy of the table's state, so the checkpoint is
 * durable before.
 */
object DurableCheckpoint {

  /**
   * @param keep makes files durable
   * @param clean cleans up the log
   */
  def write(
      session: SparkSession,
      log: DeltaLog,
      snapshot: Snapshot,
      keep: Seq[Path] => Unit)(clean: => Unit): Unit = {
    val fs = log.logPath.getFileSystem(log.newDeltaHadoopConf())
    def in(folder: Path) =
      try fs.listStatus(folder).map(_.getPath).toSet
      catch { case _: FileNotFoundException => Set.empty[Path] }
    val sidecars = FileNames.sidecarDirPath(log.logPath)
    val others = in(sidecars)
    val written = Checkpoints.writeCheckpoint(session, log, snapshot, None)
    val checkpoints = in(log.logPath).filter { file =>
      FileNames.isCheckpointFile(file) && FileNames.checkpointVersion(file) == snapshot.version
    }
    keep((checkpoints ++ in(sidecars) -- others).toSeq)
    log.writeLastCheckpointFile(log, written, LastCheckpointInfo.checksumEnabled(session))
    clean
  }
}
