package io.lakestep.sql

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.lakestep.OverlayRelation
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand

import io.lakestep.Errors
import io.lakestep.overlay.OverlayPath
import io.lakestep.session.{InternalClones, Sessions}

/**
 * Redirects Delta relations that are resolved already: DataFrames and views made before BEGIN.
 * They read the transaction's snapshot, or are refused if the table's schema has changed since.
 */
final case class RedirectRelations(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!Sessions.isOpen(session)) {
      // A clone of Spark's own may build cached data of another session anew.
      if (!InternalClones.contains(session)) plan.foreachWithSubqueries(refuseEnded)
      plan
    } else {
      AnalysisHelper.allowInvokingTransformsInAnalyzer {
        plan.transformDownWithSubqueries {
          // Its query is no child.
          case save: SaveIntoDataSourceCommand =>
            val query = apply(save.query)
            if (query fastEquals save.query) save else save.copy(query = query)
          case leaf if leaf.children.isEmpty => redirect(leaf)
          // The target of `saveAsTable` is resolved by the writer, and no child.
          case write: V2WriteCommand =>
            redirect(write.table) match {
              case moved: NamedRelation if moved ne write.table => write.withNewTable(moved)
              case _ => write
            }
        }
      }
    }

  private def refuseEnded(leaf: LogicalPlan): Unit =
    OverlayRelation.table(leaf).map(_._1).filter(OverlayPath.isOverlay).foreach { path =>
      throw Errors(
        "LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION",
        "table" -> OverlayPath.parse(path).base.toString
      )
    }

  private def redirect(leaf: LogicalPlan): LogicalPlan = {
    val redirected = for {
      (path, options) <- OverlayRelation.table(leaf)
      if !OverlayPath.isOverlay(path)
      transaction <- Sessions.open(session)
      overlay <- transaction.overlayOf(path, session.sessionState.newHadoopConfWithOptions(options))
    } yield OverlayRelation.at(session, leaf, overlay).getOrElse(
      throw Errors(
        "LAKESTEP_DATAFRAME_FROM_OUTSIDE",
        "table" -> path.toString,
        "transaction" -> transaction.id
      )
    )
    redirected.getOrElse(leaf)
  }
}
