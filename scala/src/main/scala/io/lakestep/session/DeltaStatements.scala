package io.lakestep.session

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.delta.lakestep.{DeltaFacts, StagingListener, StagingObserver}

import io.lakestep.Errors
import io.lakestep.delta.{Action, MetaData, PinnedHeader, Protocol}

/**
 * Every Delta transaction that a statement of an open transaction starts: refused on a base table,
 * refused where one published commit could not say what it does, and remembered on an overlay.
 */
object DeltaStatements {

  def during[T](transaction: SessionTransaction)(body: => T): T =
    StagingObserver.during(new Listener(transaction))(body)

  private final class Listener(transaction: SessionTransaction)
      extends StagingListener {

    override def starting(dataPath: Path, facts: => DeltaFacts): Unit =
      if (!transaction.owns(dataPath)) {
        throw Errors("LAKESTEP_DELTA_TRANSACTION_ON_BASE_TABLE", "table" -> dataPath.toString)
      } else if (transaction.isReadOnly) {
        throw Errors("LAKESTEP_READ_ONLY_TRANSACTION", "statement" -> "A write")
      } else {
        transaction.table(dataPath).foreach { table =>
          val found = facts
          found.unpublishable.foreach { reason =>
            throw Errors(
              s"LAKESTEP_UNSUPPORTED_TABLE.$reason",
              "table" -> table.base.toString
            )
          }
          table.learn(
            TableFacts(
              name = found.name.getOrElse(table.base.toString),
              tableId = found.tableId,
              inCommitTimestamps = found.inCommitTimestamps,
              rowIdHighWaterMark = found.rowIdHighWaterMark,
              rowTracking = found.rowTracking,
              changeDataFeed = found.changeDataFeed,
              columnMapping = found.columnMapping,
              checkpointInterval = found.checkpointInterval,
              pinned = pinned(found)
            )
          )
          transaction.checkCombination(table, table.base.toString)
        }
      }

    private def pinned(facts: DeltaFacts): PinnedHeader =
      (Action.parse(facts.metadata), Action.parse(facts.protocol)) match {
        case (m: MetaData, p: Protocol) => PinnedHeader(m, p, facts.domains)
        case (m, p) =>
          throw new IllegalStateException(s"Delta's header reads as ${m.kind}, ${p.kind}")
      }
  }
}
