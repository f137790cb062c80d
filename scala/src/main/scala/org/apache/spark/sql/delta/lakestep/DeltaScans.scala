package org.apache.spark.sql.delta.lakestep

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.delta.{DeltaErrors, OptimisticTransaction, Snapshot}
import org.apache.spark.sql.delta.files.TahoeLogFileIndex

/** The version that a scan of Delta reads. In this package because snapshots are loaded by it. */
object DeltaScans {

  /** Whether this thread is inside a statement of Delta that writes the table. */
  def isOfActiveTransaction(index: TahoeLogFileIndex): Boolean =
    OptimisticTransaction.getActive().exists(_.deltaLog.isSameLogAs(index.deltaLog))

  /** The table as Delta would read it now. */
  def load(index: TahoeLogFileIndex): Snapshot = index.getSnapshot

  /** What an earlier query of the statement that writes, if this is one, has read of the table. */
  def readBefore(index: TahoeLogFileIndex): Option[Snapshot] =
    OptimisticTransaction.getActive()
      .flatMap(t => Option(snapshotsOf(t).get(index.deltaLog.compositeId)))

  /**
   * The table at a version. Inside a statement that writes another one all later queries of the
   * statement read it so.
   *
   * @param loaded what `load` gave
   */
  def snapshot(index: TahoeLogFileIndex, loaded: Snapshot, version: Long): Snapshot = {
    val snapshot =
      if (version == loaded.version) loaded
      else index.deltaLog.getSnapshotAt(version, catalogTableOpt = index.catalogTableOpt)
    // Another schema was resolved already: somebody changes it at this moment.
    if (snapshot.schema != loaded.schema) {
      throw DeltaErrors.schemaChangedSinceAnalysis(loaded.schema, snapshot.schema)
    }
    OptimisticTransaction.getActive()
      .foreach(snapshotsOf(_).putIfAbsent(index.deltaLog.compositeId, snapshot))
    snapshot
  }

  /** The same scan of a fixed version. */
  def at(index: TahoeLogFileIndex, snapshot: Snapshot): TahoeLogFileIndex =
    index.copy(snapshotAtAnalysis = snapshot, isTimeTravelQuery = true)

  /** By log, what the queries of a statement have read: MERGE, for example, reads its source twice. */
  private def snapshotsOf(
      transaction: OptimisticTransaction): ConcurrentHashMap[(String, Path), Snapshot] =
    readSnapshots.invoke(transaction).asInstanceOf[ConcurrentHashMap[(String, Path), Snapshot]]

  /** Protected in Delta. */
  private lazy val readSnapshots = classOf[OptimisticTransaction].getMethod("readSnapshots")
}
