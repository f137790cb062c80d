package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.TableIdentifier

/**
 * What the transaction layer asks of Delta about the snapshot that a Delta transaction reads.
 *
 * @param name the name in the catalog, for a table that was named there
 * @param timestampMs the time of the snapshot; in-commit, where the table keeps that
 * @param metadata the metaData action as a line of the log; `protocol` likewise
 * @param unpublishable why the table cannot be written in a transaction, if so
 */
final case class DeltaFacts(
    name: Option[TableIdentifier],
    tableId: String,
    version: Long,
    inCommitTimestamps: Boolean,
    timestampMs: Long,
    rowIdHighWaterMark: Option[Long],
    checkpointInterval: Int,
    deletedFileRetentionMs: Long,
    metadata: String,
    protocol: String,
    domains: Set[String],
    unpublishable: Option[String])

/** Told of every Delta transaction that starts on a thread. */
trait StagingListener {

  /**
   * May throw to refuse the transaction.
   *
   * @return whether a commit was staged that the transaction has to read first
   */
  def starting(dataPath: Path, facts: => DeltaFacts): Boolean

  /** Told when one has written files of a table that may have to be compacted. */
  def mayCompact(dataPath: Path, written: WrittenPartitions): Unit
}

/** What a statement has written, from which Delta decides whether to compact. */
final case class WrittenPartitions(partitions: Set[Map[String, String]], isBlindAppend: Boolean) {

  /** What both have written. */
  def and(other: WrittenPartitions): WrittenPartitions =
    WrittenPartitions(partitions ++ other.partitions, isBlindAppend && other.isBlindAppend)
}
