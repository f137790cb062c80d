package io.lakestep.transaction

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.Callers
import io.lakestep.Errors
import io.lakestep.overlay.BaseWriteGuard

/**
 * The last line of defence: no commit file of a base table is created by Delta for a session that
 * has an open transaction, whatever way around the redirection it took.
 */
object NoBaseWrites extends BaseWriteGuard.Veto {

  override def beforeCommit(commitFile: Path): Unit =
    for {
      session <- SparkSession.getActiveSession
      if Transactions.isOpen(session)
    } throw Errors(
      "LAKESTEP_DELTA_TRANSACTION_ON_BASE_TABLE",
      "table" -> commitFile.getParent.getParent.toString
    )

  /**
   * `DeltaTable.forPath(…).history()` reads the log of the path it was given, with no plan that
   * could be redirected. Inside a transaction it would show the wrong history.
   *
   * Of what this process has just published the checksum is on its way: without it Delta
   * reconstructs the state.
   */
  override def beforeList(logFile: Path): Unit = {
    Databases.awaitChecksum(BasePath.ref(logFile.getParent.getParent))
    if (SparkSession.getActiveSession.exists(Transactions.isOpen) && Callers.isDeltaHistory) {
      throw Errors(
        "LAKESTEP_BASE_TABLE_IN_TRANSACTION",
        "statement" -> "DeltaTable.history (use DESCRIBE HISTORY)",
        "table" -> logFile.getParent.getParent.toString
      )
    }
  }
}
