package io.lakestep.session

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

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
      if Sessions.isOpen(session)
    } throw Errors(
      "LAKESTEP_DELTA_TRANSACTION_ON_BASE_TABLE",
      "table" -> commitFile.getParent.getParent.toString
    )
}
