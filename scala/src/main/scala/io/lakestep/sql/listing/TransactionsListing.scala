package io.lakestep.sql.listing

import java.time.Duration

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.types.{
  DataType, DayTimeIntervalType, LongType, MapType, StringType, TimestampType
}

import io.lakestep.timeline.{Requested, Timeline}
import io.lakestep.transaction.{Databases, SessionState, Transactions}

/** Every transaction that has not ended: those that are open, and the unfinished entries of the timeline. */
private[sql] object TransactionsListing extends Listing {

  override def name: String = "lakestep_transactions"

  override val columns: Seq[(String, DataType)] = Seq(
    "transaction_id" -> StringType,
    "name" -> StringType,
    "user" -> StringType,
    "state" -> StringType,
    "entry" -> LongType,
    "began_at" -> TimestampType,
    "age" -> DayTimeIntervalType(),
    "tables" -> StringType,
    "application" -> StringType,
    "comment" -> StringType,
    "tags" -> MapType(StringType, StringType)
  )

  override def rows(session: SparkSession, keys: KeyRange): Seq[Row] = rows(session, ofAll = true)

  /** @param ofAll whether those are among them, too, that other clients have open, or left when they died */
  def rows(session: SparkSession, ofAll: Boolean): Seq[Row] = {
    val database = Databases.of(session)
    val inFlight = database.unfinished()
    val own = Transactions.state(session) match {
      case SessionState.Idle => None
      case SessionState.Failed(t) => Some(t.id -> row(t.begun.requested, "FAILED", None, null))
      case SessionState.Open(t) =>
        val tables = t.touched.map(_.base.toString).mkString(", ")
        Some(t.id -> row(t.begun.requested, "REQUESTED", None, tables))
    }
    val known = (own.map(_._1) ++ inFlight.map(_.transaction.id)).toSet
    val others =
      if (ofAll)
        open(database.timeline).filterNot(r => known(r.id)).map(row(_, "REQUESTED", None, null))
      else Nil
    own.map(_._2).toSeq ++ others ++ inFlight.map { e =>
      row(e.transaction, "INFLIGHT", Some(e.number), e.tables.map(_.name).mkString(", "))
    }
  }

  /** Those of all clients that have no entry. */
  private def open(timeline: Timeline): Vector[Requested] =
    if (timeline.existingId.isEmpty) Vector.empty
    else {
      val all = timeline.requested()
      val view = timeline.refresh()
      val ended = timeline.entriesOf(all.map(_.id).toSet).keySet
      all.filterNot(r => ended(r.id) || view.aborted(r.id).isDefined)
    }

  private def row(of: Requested, state: String, entry: Option[Long], tables: String) = Row(
    of.id,
    of.name.orNull,
    of.user,
    state,
    entry.map(Long.box).orNull,
    Listing.time(of.requestedAtMs),
    Duration.ofMillis((System.currentTimeMillis() - of.requestedAtMs).max(0)),
    tables,
    of.application,
    of.labels.comment.orNull,
    of.labels.tags
  )
}
