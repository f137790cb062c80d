package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{DeltaLog, SnapshotDescriptor}

import io.lakestep.log.ForeignWriters

/** Whether a table names the writer feature that only Lakestep knows. */
object DeltaFence {

  /** As of the version that Delta holds in memory; a table that nobody has loaded yet is loaded. */
  def isOn(session: SparkSession, table: Path): Boolean =
    isOn(DeltaLog.forTable(session, table).unsafeVolatileSnapshot)

  /** As of now. */
  def isOnNow(session: SparkSession, table: Path): Boolean =
    isOn(DeltaLog.forTable(session, table).update())

  def isOn(snapshot: SnapshotDescriptor): Boolean =
    snapshot.protocol.writerFeatureNames(ForeignWriters.Feature)

  /** Whether the fence stays when no transaction is being published. */
  def stays(snapshot: SnapshotDescriptor): Boolean =
    ForeignWriters.mode(snapshot.metadata.configuration) == ForeignWriters.Forbid
}
