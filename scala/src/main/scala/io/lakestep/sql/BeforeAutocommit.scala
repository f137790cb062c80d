package io.lakestep.sql

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}

import io.lakestep.delta.DeltaReference
import io.lakestep.session.{Autocommit, InternalClones, Sessions}

/**
 * A statement that changes Delta tables outside a transaction: no table that it names may hold a
 * commit of an unfinished entry when it starts, as that may be taken back.
 */
private[sql] object BeforeAutocommit {

  def apply(session: SparkSession, command: Command): Unit =
    if (CommandCatalogue.decide(command) == Decision.Staged &&
      !Sessions.isOpen(session) && !InternalClones.contains(session))
      Autocommit.beforeWrite(session, tables(command).distinct)

  private def tables(node: LogicalPlan): Seq[Path] =
    DeltaReference.in(node).filterNot(_.isOverlay).map(_.path) ++
      TransactionGuard.inside(node).flatMap(tables)
}
