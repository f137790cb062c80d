package io.lakestep.sql.redirect

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.plans.logical.{
  AnalysisHelper, InsertIntoStatement, LogicalPlan, V2WriteCommand
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand

import org.apache.spark.sql.delta.lakestep.{Callers, OverlayRelation}
import io.lakestep.Errors
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.{InternalClones, Transactions}

/**
 * Redirects Delta relations that are resolved already: DataFrames and views made before BEGIN, which
 * read the transaction's snapshot, and those made in a transaction that has ended, which read the
 * table as it is now, or as the open transaction sees it. They are refused if the table's schema has
 * changed since.
 */
final case class RedirectRelations(session: SparkSession) extends Rule[LogicalPlan] {

  // A clone of Spark's own may build cached data of another session anew.
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!Transactions.isOpen(session) && InternalClones.contains(session)) plan
    else
      AnalysisHelper.allowInvokingTransformsInAnalyzer {
        plan.transformDownWithSubqueries {
          // Its query is no child.
          case save: SaveIntoDataSourceCommand =>
            val query = apply(save.query)
            if (query fastEquals save.query) save else save.copy(query = query)
          case leaf if leaf.children.isEmpty => redirect(leaf)
          // The targets of an INSERT into a view and of `saveAsTable` are resolved, and no children.
          case insert: InsertIntoStatement if insert.table.resolved =>
            insert.copy(table = insert.table.transformDown { case leaf => redirect(leaf) })
          case write: V2WriteCommand =>
            target(write.table) match {
              case moved: NamedRelation if moved ne write.table => write.withNewTable(moved)
              case _ => write
            }
        }
      }

  /**
   * On a thread without an active session `saveAsTable` asks another catalog than Lakestep's, which finds
   * a table that the transaction has made in a folder without a log.
   */
  private def target(table: LogicalPlan): LogicalPlan = {
    val made = for {
      (path, options) <- OverlayRelation.table(table) if !OverlayPath.isOverlay(path)
      transaction <- Transactions.open(session)
      conf = session.sessionState.newHadoopConfWithOptions(options)
      overlay <- transaction.overlayOf(path, conf) if transaction.table(overlay).exists(_.isNew)
      there <- OverlayRelation.ofNew(table, overlay)
    } yield there
    made.getOrElse(redirect(table))
  }

  private def redirect(leaf: LogicalPlan): LogicalPlan = OverlayRelation.table(leaf) match {
    case None => leaf
    case Some((path, _)) if OverlayPath.isFixed(path) => leaf
    case Some((path, options)) =>
      val base = OverlayPath.baseOf(path)
      def conf = session.sessionState.newHadoopConfWithOptions(options)
      Transactions.open(session) match {
        case Some(transaction) if transaction.owns(path) => leaf
        case None if path == base => leaf
        // Not for this session alone; its own queries look for the overlay, and so do not find it.
        case Some(_) if path == base && Callers.isRecaching => leaf
        case Some(transaction) if path == base =>
          transaction.overlayOf(base, conf).fold(leaf) { overlay =>
            OverlayRelation.at(session, leaf, overlay).getOrElse(
              throw Errors(
                "LAKESTEP_DATAFRAME_FROM_OUTSIDE",
                "table" -> base.toString,
                "transaction" -> transaction.id
              )
            )
          }
        case open =>
          val target = open.flatMap(_.overlayOf(base, conf)).getOrElse(base)
          // The number of a version that was staged may be that of another one now.
          Option.when(OverlayRelation.isOfNewest(leaf))(target)
            .flatMap(OverlayRelation.at(session, leaf, _)).getOrElse(
              throw Errors("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION", "table" -> base.toString)
            )
      }
  }
}
