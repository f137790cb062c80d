package io.lakestep.sql.command

import java.sql.Timestamp
import java.time.Instant
import java.util.concurrent.TimeUnit

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.{ArrayType, IntegerType, LongType, StringType, TimestampType}

import io.lakestep.LakestepException
import io.lakestep.commit.{AsOf, SnapshotRequest}
import io.lakestep.timeline.{NamedSnapshot, SnapshotTable}
import io.lakestep.transaction.{AskedAsOf, Databases, KeptCopies, Transactions}

private[sql] object SnapshotRow {

  val columns: Seq[Attribute] = Columns(
    "snapshot" -> StringType,
    "version" -> LongType,
    "as_of" -> TimestampType,
    "created_at" -> TimestampType,
    "user" -> StringType,
    "comment" -> StringType,
    "retain_until" -> TimestampType,
    "tables" -> IntegerType,
    "missing" -> ArrayType(StringType),
    "state" -> StringType
  )

  def apply(session: SparkSession, s: NamedSnapshot): Row = Row(
    s.name,
    s.entry,
    new Timestamp(s.timeMs),
    new Timestamp(s.createdMs),
    s.user,
    s.comment.orNull,
    s.retainUntilMs.map(new Timestamp(_)).orNull,
    s.tables.size,
    s.missing.map(_.uri),
    if (s.isExpired(System.currentTimeMillis())) "EXPIRED"
    else state(session, KeptCopies.make(session, s))
  )

  /**
   * @param risks the tables without a copy of their log, each with the reason. The first clean-up of a log may
   *              take what the version needs.
   */
  private def state(session: SparkSession, risks: Seq[(SnapshotTable, Throwable)]): String =
    if (risks.isEmpty) "KEPT"
    else {
      // Of a table that is not there any more nothing is kept.
      val isGone = risks.exists {
        case (_, e: LakestepException) => e.getCondition == "LAKESTEP_NOT_THERE_AS_OF"
        case _ => false
      }
      val until =
        if (isGone) None
        else risks.flatMap { case (t, _) => KeptCopies.keptUntilMs(session, t) }.minOption
      until.fold("AT RISK: ")(ms => s"AT RISK until ${Instant.ofEpochMilli(ms)}: ") +
        risks.map { case (t, why) => s"${t.path.uri}: ${why.getMessage}" }.mkString("; ")
    }
}

/** `CREATE SNAPSHOT`: gives a state of the database a name, and keeps what it needs. */
final case class CreateSnapshot(
    name: String,
    asOf: Option[AskedAsOf],
    retainDays: Option[Long],
    comment: Option[String])
    extends TransactionCommand {

  override val output: Seq[Attribute] = SnapshotRow.columns

  override def run(session: SparkSession): Seq[Row] = {
    Transactions.refuseOpen(session)
    val snapshot = Databases.of(session).snapshots.create(
      SnapshotRequest(
        name,
        asOf.map(_.in(session)),
        retainDays.map(TimeUnit.DAYS.toMillis),
        comment,
        session.sparkContext.sparkUser,
        session.sparkContext.applicationId
      )
    )
    Seq(SnapshotRow(session, snapshot))
  }
}

/** `DROP SNAPSHOT`: what only it needs may be deleted from then on. */
final case class DropSnapshot(name: String, ifExists: Boolean) extends TransactionCommand {

  override val output: Seq[Attribute] = Nil

  override def run(session: SparkSession): Seq[Row] = {
    Transactions.refuseOpen(session)
    val snapshots = Databases.of(session).snapshots
    snapshots.find(name) match {
      case Some(found) => snapshots.drop(found)
      case None if ifExists => ()
      case None => throw AsOf.noSuch(name)
    }
    Nil
  }
}

/** `SHOW SNAPSHOTS`; makes copies of logs that are missing. */
final case class ShowSnapshots() extends TransactionCommand {

  override val output: Seq[Attribute] = SnapshotRow.columns

  override def run(session: SparkSession): Seq[Row] =
    Databases.of(session).snapshots.all().filterNot(_.isHold)
      .map(SnapshotRow(session, _))
}
