package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.apache.spark.sql.functions.col

/**
 * A version of a Delta table as Delta itself reconstructs it; actions are given as log lines.
 *
 * Read from storage, not from Delta's cache of logs: that would still know a table that was dropped,
 * where another one has reached the same version by now.
 *
 * @param session the session that reads; it becomes the active one while it does
 */
final class DeltaState(session: SparkSession, table: Path, val version: Long) {

  private lazy val snapshot: Snapshot = {
    DeltaLog.invalidateCache(session, table)
    DeltaLog.forTable(session, table).getSnapshotAt(version, catalogTableOpt = None)
  }

  private def read[A](from: Snapshot => A): A = session.withActive(from(snapshot))

  def addFiles(paths: Set[String]): Seq[String] = read { s =>
    s.allFiles.where(col("path").isInCollection(paths)).collect().map(_.json).toSeq
  }

  def txnVersion(appId: String): Option[Long] = read(_.transactions.get(appId))

  def metadata: String = read(_.metadata.json)

  def protocol: String = read(_.protocol.json)

  def domain(name: String): Option[String] =
    read(_.domainMetadata.find(d => d.domain == name && !d.removed).map(_.json))
}
