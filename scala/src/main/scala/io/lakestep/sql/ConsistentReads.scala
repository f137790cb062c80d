package io.lakestep.sql

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan, Subquery}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.files.TahoeLogFileIndex
import org.apache.spark.sql.delta.lakestep.DeltaScans
import org.apache.spark.sql.execution.command.DataWritingCommand
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.lakestep.session.{Autocommit, Sessions}

/**
 * A query outside a transaction reads its tables as of one snapshot: of a transaction that wrote
 * several of them all or nothing, and nothing that may still be taken back.
 *
 * It runs before Delta picks the files of the query, and after Spark has looked for cached data.
 * Queries inside a statement that writes a Delta table are left to Delta: they belong to its
 * transaction, in which all of them read the same versions.
 */
final case class ConsistentReads(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case _: StatementTables | _: Subquery => plan
    case command if StatementKinds.commands(command).exists(!isExport(_)) => plan
    case query =>
      val indexes = query.collectWithSubqueries { case Newest(_, index) => index }.distinct
      if (indexes.isEmpty || Sessions.isOpen(session) || DeltaScans.isInDeltaTransaction) plan
      else fix(query, indexes)
  }

  /** Writes files that are no Delta table, as one query. */
  private def isExport(command: Command): Boolean = command.isInstanceOf[DataWritingCommand]

  private def fix(query: LogicalPlan, indexes: Seq[TahoeLogFileIndex]): LogicalPlan = {
    val loaded = indexes.map(index => index.path -> DeltaScans.load(index)).toMap
    val versions =
      Autocommit.consistent(session, loaded.map { case (path, s) => path -> s.version })
    query.transformDownWithSubqueries {
      case scan @ Newest(relation, index) =>
        val at = DeltaScans.at(index, loaded(index.path), versions(index.path))
        scan.copy(relation = relation.copy(location = at)(relation.sparkSession))
    }
  }

  /** A scan of a Delta table as it is when the query runs. */
  private object Newest {
    def unapply(scan: LogicalRelation): Option[(HadoopFsRelation, TahoeLogFileIndex)] =
      scan.relation match {
        case r @ HadoopFsRelation(index: TahoeLogFileIndex, _, _, _, _, _)
            if !index.isTimeTravelQuery => Some(r -> index)
        case _ => None
      }
  }
}
