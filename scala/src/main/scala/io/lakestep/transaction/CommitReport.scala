package io.lakestep.transaction

import io.lakestep.LakestepException

/**
 * What COMMIT reports: no entry when the transaction wrote nothing.
 *
 * @param warnings of names that are not as they should be
 */
final case class CommitReport(
    transactionId: String,
    entry: Option[Long],
    tables: Int,
    warnings: Vector[String] = Vector.empty)

private[transaction] object CommitReport {

  /** Why names of an entry are not as they should be, and what comes next. */
  def warning(behind: (Long, Throwable)): String = behind match {
    case (_, told: LakestepException) => told.getMessage
    case (entry, cause) =>
      s"Entry $entry is committed, and its names are not all made yet. The next BEGIN makes them, or " +
        s"RECOVER. The metastore said: $cause"
  }
}
