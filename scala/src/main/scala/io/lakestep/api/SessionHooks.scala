package io.lakestep.api

import io.delta.sql.DeltaSparkSessionExtension
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.internal.StaticSQLConf

import org.apache.spark.sql.delta.lakestep.{BaseTransactionBackstop, ExtensionOrder, SparkInternals}
import io.lakestep.Versions
import io.lakestep.catalog.{BindCatalogs, NoteNames}
import io.lakestep.overlay.{BaseWriteGuard, OverlaySettings}
import io.lakestep.sql.command.{RefuseRepeatedBlock, ResolveTransactionBlock}
import io.lakestep.sql.guard.TransactionGuard
import io.lakestep.sql.listing.TableFunctions
import io.lakestep.sql.parse.LakestepParser
import io.lakestep.sql.read.{ConsistentReads, NoteStatementTables}
import io.lakestep.sql.redirect.{
  BaseFileNames, BaseInputFiles, PlaceNewTables, ReadAsOf, RedirectRelations, RedirectSaveAsTable,
  RedirectTables, SkipIfExists
}
import io.lakestep.sql.run.{StatementStrategy, WatchStatements}
import io.lakestep.transaction.{
  Autocommit, CatalogSetting, InternalClones, MicroBatch, NoBaseWrites, Transactions
}

/**
 * Spark's analyzer for a Hive metastore leaves out the rules that were injected for the start of an analysis.
 * They are put there by the first analysis, before any transaction can be open.
 */
final case class StartAnalysis(session: SparkSession, rules: Seq[SparkSession => Rule[LogicalPlan]])
    extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    SparkInternals.startAnalysisWith(session, rules)
    plan
  }
}

/** What `LakestepExtensions` puts into a session, once it has found that Lakestep fits this Spark. */
object SessionHooks {

  def inject(extensions: SparkSessionExtensions): Unit = {
    Versions.publish()
    SparkInternals.driver.foreach { case (conf, context) =>
      OverlaySettings.install(conf, context.hadoopConfiguration)
      CatalogSetting.install(conf)
    }
    BaseWriteGuard.set(NoBaseWrites)
    BaseTransactionBackstop.install(
      Transactions.isOpen,
      Transactions.isRequired,
      (session, table) => Autocommit.beforeWrite(session, Seq(table)),
      Autocommit.committed,
      Autocommit.needs
    )
    if (listsDelta) {
      ExtensionOrder.injectOutermostParser(extensions, parser)
      ExtensionOrder.injectLastPreCBORule(extensions, BaseInputFiles(_))
    } else {
      new DeltaSparkSessionExtension().apply(extensions)
      extensions.injectParser(parser)
      extensions.injectPreCBORule(BaseInputFiles(_))
    }
    val guard = new TransactionGuard(
      Transactions.isOpen,
      Transactions.isReadOnly,
      Transactions.isRequired,
      MicroBatch.isLeftBy
    )
    // Before the first rule that touches a table.
    val first = Seq[SparkSession => Rule[LogicalPlan]](
      BindCatalogs(_),
      WatchStatements.atStart(_),
      ReadAsOf(_),
      RedirectTables(_),
      _ => RefuseRepeatedBlock,
      guard.atStart(_)
    )
    first.foreach(extensions.injectHintResolutionRule(_))
    extensions.injectResolutionRule(StartAnalysis(_, first))
    WatchStatements.inject(extensions)
    extensions.injectResolutionRule(RedirectRelations(_))
    extensions.injectResolutionRule(RedirectSaveAsTable(_))
    extensions.injectResolutionRule(SkipIfExists(_))
    extensions.injectResolutionRule(PlaceNewTables(_))
    extensions.injectPlanNormalizationRule(RedirectRelations(_))
    extensions.injectPostHocResolutionRule(BaseFileNames(_))
    extensions.injectPostHocResolutionRule(NoteNames(_))
    extensions.injectResolutionRule(ResolveTransactionBlock(_))
    guard.inject(extensions)
    extensions.injectOptimizerRule(ConsistentReads(_))
    extensions.injectOptimizerRule(NoteStatementTables(_))
    extensions.injectPlannerStrategy(StatementStrategy(_))
    TableFunctions.inject(extensions)
  }

  /** Spark makes the parser of a session, and of a clone, while it makes the session's state. */
  private val parser: ExtensionOrder.Parser = { (session, delegate) =>
    InternalClones.note(session)
    new LakestepParser(session, delegate)
  }

  private def listsDelta: Boolean =
    SparkInternals.driver.exists { case (conf, _) =>
      conf
        .get(StaticSQLConf.SPARK_SESSION_EXTENSIONS.key, "")
        .split(",")
        .map(_.trim)
        .contains(classOf[DeltaSparkSessionExtension].getName)
    }
}
