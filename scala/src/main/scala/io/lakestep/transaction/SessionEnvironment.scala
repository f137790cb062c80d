package io.lakestep.transaction

import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{DeltaHousekeeping, SparkInternals}

/** Settings, current catalog and schema of a session, and names of its own. */
object SessionEnvironment {

  /** Set by Delta and by us, and of no effect on a statement. */
  private val Ours = Set(Transactions.TransactionKey, DeltaHousekeeping.LastCommitVersion)

  def of(session: SparkSession): Map[String, String] = {
    val names = Map(
      "current catalog" -> session.catalog.currentCatalog(),
      "current schema" -> session.catalog.currentDatabase,
      // A statement that changes what they mean is one that changes the session, or is seen.
      "temporary names" -> SparkInternals.temporaryNames(session).sorted.mkString(",")
    )
    session.conf.getAll -- Ours ++ names
  }
}
