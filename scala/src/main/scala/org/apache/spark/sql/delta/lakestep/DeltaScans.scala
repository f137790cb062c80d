package org.apache.spark.sql.delta.lakestep

import org.apache.spark.sql.delta.{DeltaErrors, OptimisticTransaction, Snapshot}
import org.apache.spark.sql.delta.files.TahoeLogFileIndex

/** The version that a scan of Delta reads. In this package because snapshots are loaded by it. */
object DeltaScans {

  /** Whether this thread is inside a statement of Delta that writes the table. */
  def isOfActiveTransaction(index: TahoeLogFileIndex): Boolean =
    OptimisticTransaction.getActive().exists(_.deltaLog.isSameLogAs(index.deltaLog))

  /** The table as Delta would read it now. */
  def load(index: TahoeLogFileIndex): Snapshot = index.getSnapshot

  /**
   * The same scan of a fixed version.
   *
   * @param loaded what `load` gave
   */
  def at(index: TahoeLogFileIndex, loaded: Snapshot, version: Long): TahoeLogFileIndex = {
    val snapshot =
      if (version == loaded.version) loaded
      else index.deltaLog.getSnapshotAt(version, catalogTableOpt = index.catalogTableOpt)
    // Another schema was resolved already: somebody changes it at this moment.
    if (snapshot.schema != loaded.schema) {
      throw DeltaErrors.schemaChangedSinceAnalysis(loaded.schema, snapshot.schema)
    }
    index.copy(snapshotAtAnalysis = snapshot, isTimeTravelQuery = true)
  }
}
