package org.apache.spark.sql.delta.lakestep

import org.apache.spark.sql.delta.{
  DeltaConfigs, DeltaLog, DomainMetadataTableFeature, OptimisticTransaction, RowId, Snapshot,
  TransactionExecutionObserver, UniversalFormat
}
import org.apache.spark.sql.delta.hooks.{AutoCompact, PostCommitHook}

/**
 * Watches the Delta transactions of one statement, and makes each a [[StagingTransaction]].
 *
 * In this package because the hooks are `private[delta]`; a contract test holds what it relies on.
 */
final class StagingObserver(listener: StagingListener, outer: TransactionExecutionObserver)
    extends OverlayObserver {

  override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction = {
    val asked = outer.startingTransaction(f)
    val isBehind = listener.starting(asked.deltaLog.dataPath, StagingObserver.facts(asked))
    val snapshot =
      if (isBehind) asked.deltaLog.update(catalogTableOpt = asked.catalogTable) else asked.snapshot
    new StagingTransaction(asked, snapshot, listener)
  }

  override def preparingCommit[T](f: => T): T = outer.preparingCommit(f)
  override def beginDoCommit(): Unit = outer.beginDoCommit()
  override def beginBackfill(): Unit = outer.beginBackfill()
  override def beginPostCommit(): Unit = outer.beginPostCommit()
  override def transactionCommitted(): Unit = outer.transactionCommitted()
  override def transactionAborted(): Unit = outer.transactionAborted()

  override def createChild(): TransactionExecutionObserver =
    new StagingObserver(listener, outer.createChild())

  override def advanceToNextThreadObserver(): Unit = outer.advanceToNextThreadObserver()
}

/**
 * A Delta transaction whose commit is staged. Nothing of Delta runs after it: checkpoints, checksums,
 * catalog updates and auto-compaction belong to the published commit.
 */
private final class StagingTransaction(
    asked: OptimisticTransaction,
    snapshot: Snapshot,
    listener: StagingListener)
    extends OptimisticTransaction(asked.deltaLog, asked.catalogTable, snapshot) {

  override def registerPostCommitHook(hook: PostCommitHook): Unit = hook match {
    case AutoCompact if AutoCompaction.isOn(spark.sessionState.conf, metadata) =>
      super.registerPostCommitHook(new AutoCompaction.Note(listener))
    case _ => ()
  }

  override protected def isCheckpointNeeded(version: Long, after: Snapshot): Boolean = false
}

object StagingObserver {

  /** Runs `body` with every Delta transaction of this thread announced to `listener`. */
  def during[T](listener: StagingListener)(body: => T): T = {
    // The backstop stays around it, once.
    val outer = TransactionExecutionObserver.getObserver match {
      case backstop: BaseTransactionBackstop => backstop.inner
      case other => other
    }
    TransactionExecutionObserver.withObserver(new StagingObserver(listener, outer))(body)
  }

  def facts(transaction: OptimisticTransaction): DeltaFacts = {
    val snapshot = transaction.snapshot
    val metadata = snapshot.metadata
    val features = snapshot.protocol.readerAndWriterFeatureNames
    val unpublishable =
      if (UniversalFormat.icebergEnabled(metadata) || UniversalFormat.hudiEnabled(metadata)) {
        Some("UNIFORM")
      } else if (DeltaConfigs.SYMLINK_FORMAT_MANIFEST_ENABLED.fromMetaData(metadata)) {
        Some("SYMLINK_MANIFEST")
      } else if (features.exists(ManagedCommits.contains)) Some("CATALOG_MANAGED")
      else None
    DeltaFacts(
      name = transaction.catalogTable.map(_.identifier),
      tableId = metadata.id,
      version = snapshot.version,
      inCommitTimestamps = DeltaConfigs.IN_COMMIT_TIMESTAMPS_ENABLED.fromMetaData(metadata),
      timestampMs = snapshot.timestamp,
      rowIdHighWaterMark = RowId.extractHighWatermark(snapshot),
      checkpointInterval = DeltaConfigs.CHECKPOINT_INTERVAL.fromMetaData(metadata),
      deletedFileRetentionMs = DeltaLog.tombstoneRetentionMillis(metadata),
      metadata = metadata.json,
      protocol = snapshot.protocol.json,
      domains = domains(snapshot),
      unpublishable = unpublishable
    )
  }

  /** Without reconstructing the state where the checksum, or the protocol, tells. */
  private def domains(snapshot: Snapshot): Set[String] =
    if (!snapshot.protocol.isFeatureSupported(DomainMetadataTableFeature)) Set.empty
    else {
      val known = snapshot.checksumOpt.flatMap(_.domainMetadata)
      known.getOrElse(snapshot.domainMetadata).filterNot(_.removed).map(_.domain).toSet
    }

  /** Features of tables whose commits a catalog takes. */
  val ManagedCommits: Set[String] =
    Set("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview", "adaptiveMetadata")
}
