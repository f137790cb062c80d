package io.lakestep.transaction

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.sql.delta.lakestep.SparkInternals
import io.lakestep.commit.{Finished, TransactionEvent, TransactionListener}
import io.lakestep.commit.TransactionEvent._
import io.lakestep.timeline.Conflict

/** The transactions of this process, counted for Spark's metrics system; docs/operations.md lists the names. */
private[transaction] object Metrics extends TransactionListener {

  val Source = "lakestep"

  private val metrics = new MetricRegistry

  /** All that are counted are there from the beginning, so that a chart of them begins at 0. */
  private val counted = Seq(
    "begun",
    "committed",
    "committed.nothing",
    "committed.rebased",
    "rolledBack",
    "failed",
    "unknown",
    "conflicts",
    "reruns",
    "reruns.statements",
    "recovered.completed",
    "recovered.rolledBack",
    "aborted"
  )
  counted.foreach(metrics.counter)

  /** What is there to be looked at, of those who know. */
  def gauge(name: String)(value: => Long): Unit = {
    metrics.gauge(name, () => new Gauge[Long] { override def getValue: Long = value })
    ()
  }

  /** Shows them to the Spark that runs. */
  def register(): Unit = SparkInternals.registerMetrics(Source, metrics)

  override def on(event: TransactionEvent): Unit = event match {
    case _: Began => count("begun")
    case Committed(entry, _, tries, tookMs, costs) =>
      count("committed")
      if (entry.tables.exists(t => t.base > t.pin)) count("committed.rebased")
      sample("commit.ms", tookMs)
      sample("commit.tries", tries.toLong)
      for (cost <- costs) {
        sample(s"commit.${cost.step}.ms", cost.tookMs)
        sample(s"commit.${cost.step}.requests", cost.requests)
      }
    case _: CommittedNothing => count("committed.nothing")
    case Rerunning(_, conflict, statements) =>
      met(conflict)
      count("reruns")
      metrics.counter("reruns.statements").inc(statements.toLong)
    case Conflicted(_, conflict, _, _) =>
      met(conflict)
      count("conflicts")
    case _: OutcomeUnknown => count("unknown")
    case _: Failed => count("failed")
    case _: RolledBack => count("rolledBack")
    case FinishedForOther(_, _: Finished.Completed) => count("recovered.completed")
    case FinishedForOther(_, _: Finished.RolledBack) => count("recovered.rolledBack")
    case Aborted(transactions, _) => metrics.counter("aborted").inc(transactions.size.toLong)
    case _: CatalogBehind =>
  }

  private def met(conflict: Conflict): Unit = count(s"conflicts.${conflict.rule.name}")

  private def count(name: String): Unit = metrics.counter(name).inc()

  private def sample(name: String, value: Long): Unit = metrics.histogram(name).update(value)
}
