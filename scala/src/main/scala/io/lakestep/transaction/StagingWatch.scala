package io.lakestep.transaction

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.DeltaLog

import org.apache.spark.sql.delta.lakestep.{
  DeltaFacts, StagingListener, StagingObserver, WrittenPartitions
}
import io.lakestep.{Errors, Json}
import io.lakestep.log.{Action, ForeignWriters, MetaData, PinnedHeader, Protocol}
import io.lakestep.overlay.StagingFolder

/**
 * Every Delta transaction that a statement of an open transaction starts: refused on a base table,
 * refused where one published commit could not say what it does, and remembered on an overlay.
 */
object StagingWatch extends Logging {

  def during[T](transaction: Transaction)(body: => T): T =
    StagingObserver.during(new Listener(transaction))(body)

  /** Makes the table one that Delta lets the transaction's statements change. */
  def open(session: SparkSession, transaction: Transaction, table: Path): Unit =
    transaction.overlayOf(table, session.sessionState.newHadoopConf()).foreach { overlay =>
      during(transaction)(DeltaLog.forTable(session, overlay).startTransaction(None))
    }

  private final class Listener(transaction: Transaction)
      extends StagingListener {

    override def starting(dataPath: Path, facts: => DeltaFacts): Boolean =
      if (!transaction.owns(dataPath)) {
        throw Errors("LAKESTEP_DELTA_TRANSACTION_ON_BASE_TABLE", "table" -> dataPath.toString)
      } else if (transaction.isReadOnly) {
        throw Errors("LAKESTEP_READ_ONLY_TRANSACTION", "statement" -> "A write")
      } else {
        transaction.table(dataPath).exists { table =>
          val found = facts
          val header = pinned(found)
          found.unpublishable.foreach { reason =>
            throw Errors(
              s"LAKESTEP_UNSUPPORTED_TABLE.$reason",
              "table" -> table.base.toString
            )
          }
          found.name.foreach(table.call)
          table.learn(
            TableFacts(
              tableId = found.tableId,
              inCommitTimestamps = found.inCommitTimestamps,
              rowIdHighWaterMark = found.rowIdHighWaterMark,
              checkpointInterval = found.checkpointInterval,
              pinned = Option.unless(table.isNew)(header)
            )
          )
          transaction.decide(
            table,
            isStated = header.metaData.property(ForeignWriters.Property).isDefined
          )
          warnIfOld(table, found)
          val isFenced = !table.isNew && ForeignWriters.isFenced(header.protocol)
          if (isFenced) unfence(table, found, header)
          isFenced
        }
      }

    override def mayCompact(dataPath: Path, written: WrittenPartitions): Unit =
      transaction.table(dataPath).foreach(_.mayCompact(written))

    /** VACUUM takes files for garbage that no version names and that are older than this. */
    private def warnIfOld(table: TransactionTable, facts: DeltaFacts): Unit = {
      val ageMs = System.currentTimeMillis - transaction.begun.requestedAtMs
      if (ageMs > facts.deletedFileRetentionMs)
        logWarning(
          s"Transaction ${transaction.id} is ${ageMs / 1000} s old, older than " +
            s"delta.deletedFileRetentionDuration of ${table.base}: a VACUUM may have deleted files " +
            "that it has written or reads. COMMIT looks for them and fails when one is gone."
        )
    }

    /** Delta would refuse to write under a feature that only Lakestep knows. */
    private def unfence(table: TransactionTable, facts: DeltaFacts, header: PinnedHeader): Unit = {
      val time =
        Option.when(facts.inCommitTimestamps)(System.currentTimeMillis.max(facts.timestampMs + 1))
      val actions = ForeignWriters.staging(header.protocol, time).map(a => Json.text(a.node))
      val conf = SparkSession.active.sessionState.newHadoopConf()
      StagingFolder.create(table.base, transaction.id, facts.version + 1, actions, conf)
    }

    private def pinned(facts: DeltaFacts): PinnedHeader =
      (Action.parse(facts.metadata), Action.parse(facts.protocol)) match {
        case (m: MetaData, p: Protocol) => PinnedHeader(m, p, facts.domains)
        case (m, p) =>
          throw new IllegalStateException(s"Delta's header reads as ${m.kind}, ${p.kind}")
      }
  }
}
