package org.apache.spark.sql.delta.lakestep

import java.util.Locale

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogPlugin}
import org.apache.spark.sql.execution.CacheManager

/** The few things of Spark that are `private[sql]` or `private[spark]`. */
object SparkInternals {

  /** The session's own catalog, without any extension in front of it. */
  def sessionCatalog(session: SparkSession): CatalogPlugin =
    session.sessionState.catalogManager.v2SessionCatalog

  def sessionCatalogName: String = CatalogManager.SESSION_CATALOG_NAME

  /** The driver's own configuration, which Delta reads its log stores from, and its context. */
  def driver: Option[(SparkConf, SparkContext)] =
    for (env <- Option(SparkEnv.get); context <- SparkContext.getActive) yield (env.conf, context)

  /** Drops the cached data whose plan holds such a node, in whatever state the session is. */
  def uncache(session: SparkSession)(holds: LogicalPlan => Boolean): Unit = {
    val manager = session.asInstanceOf[classic.SparkSession].sharedState.cacheManager
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

  /** The frame of a parsed plan; a command is run at once. */
  def frame(session: SparkSession, plan: LogicalPlan): classic.DataFrame =
    classic.Dataset.ofRows(session.asInstanceOf[classic.SparkSession], plan)

  /**
   * Another session with the settings, views and functions of this one, and with those of its
   * variables that an unresolved plan may name.
   */
  def cloned(session: SparkSession, plan: LogicalPlan): SparkSession = {
    val clone = session.asInstanceOf[classic.SparkSession].cloneSession()
    val variables = session.sessionState.catalogManager.tempVariableManager
    if (!variables.isEmpty) {
      val names = plan.collectWithSubqueries { case node => node.expressions }.flatten
        .flatMap(_.collect { case name: UnresolvedAttribute => name.nameParts.last }).distinct
      for (name <- names.flatMap(n => Seq(n, n.toLowerCase(Locale.ROOT))).distinct)
        variables.get(Seq(name)).foreach { value =>
          clone.sessionState.catalogManager.tempVariableManager
            .create(Seq(name), value, overrideIfExists = true)
        }
    }
    clone
  }
}
