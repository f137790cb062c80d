package io.lakestep.sql.listing

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.plans.logical.View
import org.apache.spark.sql.types.{DataType, IntegerType, LongType, StringType, TimestampType}

import org.apache.spark.sql.delta.lakestep.{DeltaReference, SparkInternals}
import io.lakestep.Errors
import io.lakestep.log.{ListedCommit, LogCommit, TableLog, TableRef}
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.{BasePath, Databases}

/** The commits in a table's log, each with the transaction that made it, if one did; in order. */
private[sql] final case class VersionsListing(table: TableRef) extends Listing {

  override def name: String = "lakestep_table_versions"

  override def key: Option[String] = Some("version")

  override def columns: Seq[(String, DataType)] = Seq(
    "version" -> LongType,
    "committed_at" -> TimestampType,
    "operation" -> StringType,
    "kind" -> StringType,
    "entry" -> LongType,
    "transaction_id" -> StringType,
    "part" -> IntegerType
  )

  override def rows(session: SparkSession, keys: KeyRange): Seq[Row] = {
    val database = Databases.of(session)
    val stores = Databases.quickStores(session, database)
    val log = new TableLog(stores.forPath(table.uri), table)
    val listed = log.tail(keys.from.max(0)).slots.filter(_.version <= keys.to)
    val read = new ConcurrentHashMap[Long, LogCommit]
    database.atOnce(listed)(slot => log.read(slot.version).foreach(read.put(slot.version, _)))
    val timeline = database.timeline.existingId
    listed.flatMap(slot => Option(read.get(slot.version)).map(row(slot, _, timeline)))
  }

  /** Entries of another timeline are none of those that the session knows. */
  private def row(slot: ListedCommit, commit: LogCommit, timeline: Option[String]): Row = {
    val info = commit.info
    val mark = commit.mark.filter(m => timeline.contains(m.timeline))
    Row(
      slot.version,
      Listing.time(info.flatMap(_.inCommitTimestampMs).getOrElse(slot.modifiedMs)),
      info.flatMap(_.operation).orNull,
      mark.map(_.kind.text.toUpperCase).orNull,
      mark.map(m => Long.box(m.entry)).orNull,
      mark.map(_.transaction).orNull,
      mark.map(m => Int.box(m.part)).orNull
    )
  }
}

private[sql] object VersionsListing {

  /** Condition: LAKESTEP_NOT_A_TABLE, and Spark's own where there is nothing of that name. */
  def of(session: SparkSession, name: String): VersionsListing = {
    val parts = session.sessionState.sqlParser.parseMultipartIdentifier(name)
    val plan = SparkInternals.analyzed(session, UnresolvedRelation(parts))
    val isView = plan.exists(_.isInstanceOf[View])
    val path = plan.collectFirst(Function.unlift(DeltaReference.in(_).headOption)).map(_.path)
      .filterNot(_ => isView)
      .getOrElse(throw Errors("LAKESTEP_NOT_A_TABLE", "table" -> name))
    VersionsListing(BasePath.ref(base(path)))
  }

  private def base(path: Path): Path =
    OverlayPath.baseOf(path)
}
