package org.apache.spark.sql.delta.lakestep

import scala.collection.mutable
import scala.reflect.{classTag, ClassTag}

import com.codahale.metrics.MetricRegistry

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.metrics.source.Source
import org.apache.spark.scheduler.SparkListenerEvent
import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.analysis.Analyzer
import org.apache.spark.sql.catalyst.catalog.{
  ExternalCatalog, SessionCatalog, TempVariableManager, VariableDefinition
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogPlugin}
import org.apache.spark.sql.delta.catalog.AbstractDeltaCatalog
import org.apache.spark.sql.execution.CacheManager

/** The few things of Spark that are `private[sql]` or `private[spark]`. */
object SparkInternals {

  /** The session's own catalog, without any extension in front of it. */
  def sessionCatalog(session: SparkSession): CatalogPlugin =
    session.sessionState.catalogManager.v2SessionCatalog

  def sessionCatalogName: String = CatalogManager.SESSION_CATALOG_NAME

  /** The session's catalogs that somebody has asked for, and its own in any case. */
  def loadedCatalogs(session: SparkSession): Seq[CatalogPlugin] =
    session.asInstanceOf[classic.SparkSession].withActive {
      val catalogs = session.sessionState.catalogManager
      catalogs.listCatalogs(None).map(catalogs.catalog)
    }

  /**
   * Gives a catalog another session. Delta's own keeps the one that was active on the thread that first
   * asked for the catalog, which may be another client's, with a transaction open.
   */
  def bind(catalog: AbstractDeltaCatalog, session: SparkSession): Unit = {
    val held = classOf[AbstractDeltaCatalog].getDeclaredField("spark")
    held.setAccessible(true)
    held.set(catalog, session)
  }

  /** The driver's own configuration, which Delta reads its log stores from, and its context. */
  def driver: Option[(SparkConf, SparkContext)] =
    for (env <- Option(SparkEnv.get); context <- SparkContext.getActive) yield (env.conf, context)

  /** The metastore itself, past the names of any transaction. */
  def metastore(session: SparkSession): ExternalCatalog =
    session.asInstanceOf[classic.SparkSession].sharedState.externalCatalog

  /** Puts something in front of the metastore, for all that looks names up in this session. */
  def putBeforeMetastore[T <: ExternalCatalog: ClassTag](session: SparkSession)(
      make: ExternalCatalog => T): Unit = {
    val catalog = session.sessionState.catalog
    if (classTag[T].unapply(catalog.externalCatalog).isEmpty) catalog.synchronized {
      val held = classOf[SessionCatalog].getDeclaredField("externalCatalog")
      held.setAccessible(true)
      held.set(catalog, make(metastore(session)))
    }
  }

  /** Rules for the start of each further analysis, where the session's analyzer has none. */
  def startAnalysisWith(
      session: SparkSession,
      rules: Seq[SparkSession => Rule[LogicalPlan]]): Unit = {
    val analyzer = session.sessionState.analyzer
    if (analyzer.hintResolutionRules.isEmpty) {
      val held = classOf[Analyzer].getDeclaredField("hintResolutionRules")
      held.setAccessible(true)
      held.set(analyzer, rules.map(_(session)))
    }
  }

  private def cacheManager(session: SparkSession): CacheManager =
    session.asInstanceOf[classic.SparkSession].sharedState.cacheManager

  /** Whether any query of this Spark is cached. */
  def hasCachedData(session: SparkSession): Boolean = !cacheManager(session).isEmpty

  /** Drops the cached data whose plan holds such a node, in whatever state the session is. */
  def uncache(session: SparkSession)(holds: LogicalPlan => Boolean): Unit = {
    val manager = cacheManager(session)
    if (!manager.isEmpty) {
      // What is public takes a name, or a plan that it normalizes again by the session's rules.
      val uncacheByCondition = classOf[CacheManager].getDeclaredMethod(
        "uncacheByCondition",
        classOf[classic.SparkSession],
        classOf[LogicalPlan => Boolean],
        classOf[Boolean],
        classOf[Boolean]
      )
      uncacheByCondition.setAccessible(true)
      val condition = (plan: LogicalPlan) =>
        plan.collectWithSubqueries { case node if holds(node) => node }.nonEmpty
      uncacheByCondition.invoke(manager, session, condition, true, false)
      ()
    }
  }

  /** Tells the listeners of the session's Spark, each when its turn comes. */
  def post(session: SparkSession, event: SparkListenerEvent): Unit =
    session.sparkContext.listenerBus.post(event)

  /** Metrics among those of the Spark that runs; again where another one has started since. */
  def registerMetrics(name: String, metrics: MetricRegistry): Unit =
    Option(SparkEnv.get).foreach { env =>
      if (env.metricsSystem.getSourcesByName(name).isEmpty)
        env.metricsSystem.registerSource(new Source {
          override val sourceName: String = name
          override val metricRegistry: MetricRegistry = metrics
        })
    }

  /** Runs with this session as the thread's own. */
  def within[T](session: SparkSession)(body: => T): T = session.withActive(body)

  /** The frame of a parsed plan; a command is run at once. */
  def frame(session: SparkSession, plan: LogicalPlan): classic.DataFrame =
    classic.Dataset.ofRows(session.asInstanceOf[classic.SparkSession], plan)

  /** A plan with its names resolved, of which nothing is run. */
  def analyzed(session: SparkSession, plan: LogicalPlan): LogicalPlan =
    session.sessionState.executePlan(plan).analyzed

  /** Names of the session's own views and functions. */
  def temporaryNames(session: SparkSession): Seq[String] = {
    val catalog = session.sessionState.catalog
    catalog.getTempViewNames() ++ catalog.listTemporaryFunctions().map(_.funcName + "()")
  }

  /** Another session with the settings, views, functions and variables of this one. */
  def cloned(session: SparkSession): SparkSession = {
    val clone = session.asInstanceOf[classic.SparkSession].cloneSession()
    val variables = session.sessionState.catalogManager.tempVariableManager
    if (!variables.isEmpty) {
      // What is public takes a name, and views and strings that are run name variables as well.
      val held = classOf[TempVariableManager].getDeclaredField("variables")
      held.setAccessible(true)
      val all = variables.synchronized {
        held.get(variables).asInstanceOf[mutable.Map[String, VariableDefinition]].toSeq
      }
      val own = clone.sessionState.catalogManager.tempVariableManager
      for ((name, value) <- all) own.create(Seq(name), value, overrideIfExists = true)
    }
    clone
  }
}
