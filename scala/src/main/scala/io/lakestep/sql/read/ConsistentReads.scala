package io.lakestep.sql.read

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.{
  Command, CreateTableAsSelect, LogicalPlan, ReplaceTableAsSelect, SetVariable, Subquery,
  V2WriteCommand
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.files.TahoeLogFileIndex
import org.apache.spark.sql.execution.command.DataWritingCommand
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

import org.apache.spark.sql.delta.lakestep.{DeltaReference, DeltaScan, DeltaScans}
import io.lakestep.catalog.NamesOfQuery
import io.lakestep.sql.guard.StatementKinds
import io.lakestep.transaction.{Autocommit, Transactions}

/**
 * A query outside a transaction reads its tables as of one snapshot: of a transaction that wrote
 * several of them all or nothing, and nothing that may still be taken back.
 *
 * It runs before Delta picks the files of the query, and after Spark has looked for cached data.
 * That holds for the query of a new table, of an export and of SET VARIABLE, too, and for what a
 * statement that changes or replaces a Delta table reads of others, in whichever of its queries. The
 * table that it changes is left to Delta's own transaction, which has to know what was read of it.
 */
final case class ConsistentReads(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case _: StatementTables | _: Subquery => plan
    // Its query is no child of it.
    case create: CreateTableAsSelect => create.copy(query = apply(create.query))
    // Its query may read the table itself. It is planned inside Delta's transaction once more.
    case replace: ReplaceTableAsSelect => replace
    case command if !StatementKinds.commands(command).forall(ConsistentReads.isOneQuery) =>
      // Subqueries of an UPDATE, for example, are planned with it.
      val own = command.expressions.flatMap(_.collect { case s: SubqueryExpression => s.plan })
      fixed(own).fold(command) { fix =>
        command.mapExpressions(_.transform { case s: SubqueryExpression =>
          s.withNewPlan(fix(s.plan))
        })
      }
    case query => fixed(Seq(query)).fold(query)(_(query))
  }

  /** Makes queries read one snapshot; nothing where they do. */
  private def fixed(queries: Seq[LogicalPlan]): Option[LogicalPlan => LogicalPlan] = {
    val scans = queries.flatMap(_.collectWithSubqueries { case s @ Newest(_, i) => s -> i })
    val indexes = scans.map(_._2).distinct
    Option.unless(indexes.isEmpty || Transactions.isOpen(session)) {
      val before = indexes.flatMap(index => DeltaScans.readBefore(index).map(index.path -> _)).toMap
      val fresh = indexes.filterNot(index => before.contains(index.path))
      val loaded = fresh.map(index => index.path -> DeltaScans.load(index)).toMap
      val versions = Autocommit.consistent(
        session,
        loaded.map { case (path, s) => path -> s.version },
        if (before.isEmpty) NamesOfQuery.of(scans.map(_._1)) else None
      )
      val read = before ++ fresh.map { index =>
        val path = index.path
        path -> DeltaScans.snapshot(index, loaded(path), versions(path))
      }
      _.transformDownWithSubqueries {
        case scan @ Newest(relation, index) if read.contains(index.path) =>
          val at = DeltaScans.at(index, read(index.path))
          scan.copy(relation = relation.copy(location = at)(relation.sparkSession))
      }
    }
  }

  /** A scan of a Delta table as it is when the query runs. */
  private object Newest {
    def unapply(scan: LogicalRelation): Option[(HadoopFsRelation, TahoeLogFileIndex)] =
      (scan.relation, DeltaScan.unapply(scan)) match {
        case (files: HadoopFsRelation, Some(index: TahoeLogFileIndex))
            if !index.isTimeTravelQuery && !DeltaScans.isOfActiveTransaction(index) =>
          Some(files -> index)
        case _ => None
      }
  }
}

object ConsistentReads {

  /** Does with one query something that is no change of a Delta table that was there before. */
  private[sql] def isOneQuery(command: Command): Boolean = command match {
    case _: DataWritingCommand | _: SetVariable | _: CreateTableAsSelect |
        _: ReplaceTableAsSelect => true
    case write: V2WriteCommand => DeltaReference.in(write.table).isEmpty
    case _ => false
  }
}
