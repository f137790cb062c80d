package io.lakestep.sql

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Subquery}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.files.TahoeLogFileIndex
import org.apache.spark.sql.delta.lakestep.DeltaScans
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import io.lakestep.session.{Autocommit, Sessions}

/**
 * A query outside a transaction reads its tables as of one snapshot: of a transaction that wrote
 * several of them all or nothing, and nothing that may still be taken back.
 *
 * It runs before Delta picks the files of the query, and after Spark has looked for cached data.
 * Queries inside a statement that writes are left to Delta: they belong to its transaction.
 */
final case class ConsistentReads(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case _: StatementTables | _: Subquery => plan
    case query if StatementKinds.commands(query).nonEmpty => plan
    case query =>
      val indexes = query.collectWithSubqueries { case Newest(_, index) => index }.distinct
      if (indexes.isEmpty || Sessions.isOpen(session) || DeltaScans.isInDeltaTransaction) plan
      else fix(query, indexes)
  }

  private def fix(query: LogicalPlan, indexes: Seq[TahoeLogFileIndex]): LogicalPlan = {
    lazy val loaded = indexes.map(index => index.path -> DeltaScans.load(index)).toMap
    val versions = Autocommit.consistent(session, indexes.map(_.path))(loaded(_).version)
    if (versions.isEmpty) query
    else
      query.transformDownWithSubqueries {
        case scan @ Newest(relation, index) if versions.contains(index.path) =>
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
