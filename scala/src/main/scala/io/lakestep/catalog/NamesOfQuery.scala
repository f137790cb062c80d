package io.lakestep.catalog

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.sql.catalyst.catalog.ExternalCatalog
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.LogicalRelation

import org.apache.spark.sql.delta.lakestep.DeltaScan
import io.lakestep.commit.{QueryNames, ReadNames}
import io.lakestep.names.TransactionNames

/** What names stand for in a query outside a transaction; its scans know it, so that rows belong to names. */
private[lakestep] final class NamesOfQuery(base: ExternalCatalog, query: QueryNames) {
  private[catalog] val names = new TransactionNames(_ => query.before())
  private val hasRun = new AtomicBoolean

  /** A DataFrame that is kept shows, under the names of when it was made, the rows of each later run. */
  private def ofFirstRun(): Option[ReadNames] =
    Option.when(hasRun.compareAndSet(false, true))(ReadNames(query, names.met(base)(_ => true)))
}

private[lakestep] object NamesOfQuery {
  private val Tag = TreeNodeTag[NamesOfQuery]("lakestep.names")

  private[catalog] def note(plan: LogicalPlan, names: NamesOfQuery): Unit =
    plan.collectWithSubqueries {
      case scan @ DeltaScan(_) if scan.getTagValue(Tag).isEmpty => scan.setTagValue(Tag, names)
    }

  /** Where all that is read together was resolved together. */
  def of(scans: Seq[LogicalRelation]): Option[ReadNames] =
    scans.flatMap(_.getTagValue(Tag)).distinct match {
      case Seq(names) => names.ofFirstRun()
      case _ => None
    }
}
