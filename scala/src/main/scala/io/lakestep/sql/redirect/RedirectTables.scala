package io.lakestep.sql.redirect

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{
  UnresolvedRelation, UnresolvedTable, UnresolvedTableOrView
}
import org.apache.spark.sql.catalyst.plans.logical.{
  AnalysisHelper, AppendData, CreateTableAsSelect, LogicalPlan, OverwriteByExpression,
  OverwritePartitionsDynamic, ReplaceTableAsSelect, UnresolvedDataSource, V2WriteCommand
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.delta.{
  UnresolvedPathBasedDeltaTable, UnresolvedPathBasedDeltaTableRelation, UnresolvedPathBasedTable
}
import org.apache.spark.sql.delta.sources.{DeltaDataSource, DeltaSourceUtils}
import org.apache.spark.sql.execution.datasources.{
  InsertIntoHadoopFsRelationCommand, SaveIntoDataSourceCommand
}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

import io.lakestep.Errors
import io.lakestep.catalog.RedirectPath
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.Transactions

/**
 * Redirects what names a Delta table by its path, before Delta resolves it: readers and writers of
 * DataFrames, `` delta.`path` ``, Delta's own commands. Tables named in a catalog are redirected by
 * [[io.lakestep.catalog.TransactionalCatalog]]. A path with our scheme typed by a user is refused,
 * in a transaction and outside.
 */
final case class RedirectTables(session: SparkSession) extends Rule[LogicalPlan] {

  import RedirectTables._

  override def apply(plan: LogicalPlan): LogicalPlan = {
    val redirected = AnalysisHelper.allowInvokingTransformsInAnalyzer {
      plan.transformDownWithSubqueries { case node if !isDone(node) => redirect(node) }
    }
    AskedPlan.note(plan, redirected)
    redirected
  }

  private def redirect(node: LogicalPlan): LogicalPlan = node match {
    case source: UnresolvedDataSource =>
      checkTransactionOption(source.options)
      if (DeltaSourceUtils.isDeltaDataSourceName(source.format) && !source.isStreaming) {
        val options = fsOptions(source.options)
        done(
          source.copy(
            paths = source.paths.map(overlay(_, options)),
            options = source.options.get("path").fold(source.options) { path =>
              CaseInsensitiveMap(source.options.originalMap ++ pathOption(path, options))
            }
          )
        )
      } else {
        (source.paths ++ source.options.get("path")).foreach(refuseOverlay)
        source
      }
    case save: SaveIntoDataSourceCommand =>
      val options = CaseInsensitiveMap(save.options)
      checkTransactionOption(options)
      options.get("path") match {
        case Some(path) if save.dataSource.isInstanceOf[DeltaDataSource] =>
          done(save.copy(options =
            options.originalMap.filterNot(_._1.equalsIgnoreCase("path")) ++
              Map("path" -> target(path, fsOptions(options)))
          ))
        case path =>
          path.foreach(refuseOverlay)
          save
      }
    case write: InsertIntoHadoopFsRelationCommand =>
      refuseOverlay(write.outputPath.toString)
      write
    case write: V2WriteCommand =>
      write match {
        case w: AppendData => checkTransactionOption(CaseInsensitiveMap(w.writeOptions))
        case w: OverwriteByExpression => checkTransactionOption(CaseInsensitiveMap(w.writeOptions))
        case w: OverwritePartitionsDynamic =>
          checkTransactionOption(CaseInsensitiveMap(w.writeOptions))
        case _ =>
      }
      write
    case create: CreateTableAsSelect =>
      checkTransactionOption(CaseInsensitiveMap(create.writeOptions))
      create
    case replace: ReplaceTableAsSelect =>
      checkTransactionOption(CaseInsensitiveMap(replace.writeOptions))
      replace
    case table: UnresolvedTable =>
      byPath(table.multipartIdentifier)
        .fold(node)(name => done(table.copy(multipartIdentifier = name)))
    case table: UnresolvedTableOrView =>
      byPath(table.multipartIdentifier)
        .fold(node)(name => done(table.copy(multipartIdentifier = name)))
    case relation: UnresolvedRelation =>
      checkTransactionOption(CaseInsensitiveMap(relation.options.asCaseSensitiveMap.asScala.toMap))
      relation.multipartIdentifier match {
        case Seq(_, path) => refuseOverlay(path)
        case _ =>
      }
      relation
    case table: UnresolvedPathBasedDeltaTable =>
      done(table.copy(path = overlay(table.path, table.options)))
    case table: UnresolvedPathBasedTable =>
      done(table.copy(path = overlay(table.path, table.options)))
    case relation: UnresolvedPathBasedDeltaTableRelation =>
      done(relation.copy(path = overlay(relation.path, Map.empty)))
    case other => other
  }

  /** `` delta.`path` `` with the path redirected. */
  private def byPath(name: Seq[String]): Option[Seq[String]] = name match {
    case Seq(delta, path) if isDelta(delta) => Some(Seq(delta, overlay(path, Map.empty)))
    case _ => None
  }

  private def overlay(path: String, options: Map[String, String]): String = {
    refuseOverlay(path)
    RedirectPath(session, path, options).getOrElse(path)
  }

  private def target(path: String, options: Map[String, String]): String = {
    refuseOverlay(path)
    RedirectPath.ofTarget(session, path, options).getOrElse(path)
  }

  private def pathOption(path: String, options: Map[String, String]): Map[String, String] =
    Map("path" -> overlay(path, options))

  /** `withTransaction(txn)` states which transaction a reader or writer belongs to. */
  private def checkTransactionOption(options: CaseInsensitiveMap[String]): Unit =
    options.get(TransactionOption).foreach { stated =>
      val open = Transactions.open(session).map(_.id)
      if (!open.contains(stated)) {
        throw Errors(
          "LAKESTEP_OTHER_TRANSACTION",
          "stated" -> stated,
          "open" -> open.getOrElse("none")
        )
      }
    }
}

object RedirectTables {

  /** Option key by which `withTransaction` states its transaction. */
  val TransactionOption = "lakestep.transaction"

  private val Done = TreeNodeTag[Unit]("lakestep.redirected")

  private def isDone(node: LogicalPlan): Boolean = node.getTagValue(Done).isDefined

  /** Not to be redirected any more. */
  private[redirect] def done(node: LogicalPlan): LogicalPlan = {
    node.setTagValue(Done, ())
    node
  }

  private def isDelta(name: String): Boolean = DeltaSourceUtils.isDeltaDataSourceName(name)

  private def refuseOverlay(path: String): Unit =
    if (OverlayPath.isOverlay(path)) throw Errors("LAKESTEP_OVERLAY_PATH", "path" -> path)

  private def fsOptions(options: CaseInsensitiveMap[String]): Map[String, String] =
    options.originalMap.filter { case (key, _) =>
      key.startsWith("fs.") || key.startsWith("dfs.")
    }
}
