package io.lakestep.sql.command

import java.sql.Timestamp

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{
  Command, CommandResult, LocalRelation, LogicalPlan
}
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{
  ArrayType, BooleanType, DataType, IntegerType, LongType, StringType, TimestampType
}

import io.lakestep.commit.{Finished, Residue, TransactionModes, TransactionStatus}
import io.lakestep.sql.listing.ListingRelation
import io.lakestep.timeline.{CommitEntry, Labels}
import io.lakestep.transaction.{
  AskedAsOf, AskedBatch, Databases, Lifecycle, MetConflict, Transaction, Transactions
}
import io.lakestep.Errors

private[sql] object Columns {
  def apply(columns: (String, DataType)*): Seq[Attribute] =
    columns.map { case (name, dataType) => AttributeReference(name, dataType)() }
}

/**
 * A command about transactions. It is no statement of the one that is open, and it runs, or says
 * itself why not, in a session whose COMMIT failed.
 */
trait TransactionCommand extends LeafRunnableCommand {

  /**
   * While anything is cached, Spark copies every command to compare it with the cached plans. Before 4.1.2
   * it does so by the constructor's arguments, and finds no constructor where there are none.
   */
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan =
    if (arguments.isEmpty) this else super.makeCopy(arguments)
}

/** One that is a statement of the open transaction all the same, and runs again with those around it. */
trait StatementOfTransaction extends TransactionCommand {
  override def output: Seq[Attribute] = Nil

  protected def act(session: SparkSession): Unit

  override def run(session: SparkSession): Seq[Row] = {
    act(session)
    Nil
  }
}

/** One that only tells something, and whose rows may be looked at in whatever state the session is. */
trait InspectionCommand extends TransactionCommand

private[sql] object InspectionCommand {

  /** Whether a plan reads nothing but such rows, or rows that the client has already (Spark Connect). */
  def isShownBy(plan: LogicalPlan): Boolean =
    !plan.isInstanceOf[Command] && plan.subqueriesAll.isEmpty && plan.collectLeaves().forall {
      case result: CommandResult => result.commandLogicalPlan.isInstanceOf[InspectionCommand]
      case _: LocalRelation => true
      case leaf if ListingRelation.is(leaf) => true
      // What adaptive execution has run already when it plans the rest again.
      case stage: LogicalQueryStage => isShownBy(stage.logicalPlan)
      case _ => false
    }
}

/** `BEGIN`: opens the session's transaction. */
final case class BeginTransaction(
    name: Option[String],
    modes: TransactionModes,
    batch: Option[AskedBatch] = None,
    labels: Labels = Labels.none,
    asOf: Option[AskedAsOf] = None)
    extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "transaction_id" -> StringType,
    "name" -> StringType,
    "isolation" -> StringType,
    "read_only" -> BooleanType,
    "snapshot" -> LongType,
    "began_at" -> TimestampType,
    "replays" -> LongType
  )

  def open(session: SparkSession): Transaction =
    Lifecycle.begin(session, name, modes, batch, labels, asOf.map(_.in(session)))

  override def run(session: SparkSession): Seq[Row] = {
    val begun = open(session).begun
    Seq(
      Row(
        begun.id,
        begun.name.orNull,
        begun.isolation.name,
        begun.readOnly,
        begun.snapshot,
        new Timestamp(begun.requestedAtMs),
        begun.replays.map(Long.box).orNull
      )
    )
  }
}

/** `SET TRANSACTION`: changes the modes of the open transaction, before it has met a table. */
final case class SetTransaction(modes: TransactionModes) extends TransactionCommand {

  override val output: Seq[Attribute] = Nil

  override def run(session: SparkSession): Seq[Row] = {
    Lifecycle.set(session, modes)
    Nil
  }
}

/** `COMMIT`: all tables of the transaction change, or none does. */
final case class CommitTransaction() extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "transaction_id" -> StringType,
    "entry" -> LongType,
    "tables" -> IntegerType,
    "warnings" -> ArrayType(StringType)
  )

  override def run(session: SparkSession): Seq[Row] = {
    Lifecycle.refuseInBlock(session, "COMMIT")
    val done = Lifecycle.commit(session)
    Seq(Row(done.transactionId, done.entry.map(Long.box).orNull, done.tables, done.warnings))
  }
}

/** `ROLLBACK`: nothing of the transaction remains that a reader could see. */
final case class RollbackTransaction() extends TransactionCommand {

  override val output: Seq[Attribute] = Columns("transaction_id" -> StringType)

  override def run(session: SparkSession): Seq[Row] = {
    Lifecycle.refuseInBlock(session, "ROLLBACK")
    Seq(Row(Lifecycle.rollback(session)))
  }
}

/** `EXPLAIN CONFLICT`: why a transaction was not committed; without an id, the session's last one. */
final case class ExplainConflict(id: Option[String]) extends InspectionCommand {

  override val output: Seq[Attribute] = Columns(
    "transaction_id" -> StringType,
    "rule" -> StringType,
    "table" -> StringType,
    "path" -> StringType,
    "version" -> LongType,
    "operation" -> StringType,
    "user" -> StringType,
    "committed_at" -> TimestampType,
    "other_transaction" -> StringType,
    "files" -> ArrayType(StringType),
    "next_step" -> StringType
  )

  override def run(session: SparkSession): Seq[Row] = {
    val met = known(session)
    val conflict = met.conflict
    Seq(
      Row(
        met.transaction,
        conflict.rule.name,
        Some(conflict.table).filter(_.nonEmpty).orNull,
        Some(conflict.path).filter(_.nonEmpty).orNull,
        conflict.version.map(Long.box).orNull,
        conflict.operation.orNull,
        conflict.user.orNull,
        conflict.timeMs.map(new Timestamp(_)).orNull,
        conflict.otherTransaction.orNull,
        conflict.files,
        met.nextStep
      )
    )
  }

  /** Met by this session at COMMIT, or else known to the timeline. */
  private def known(session: SparkSession): MetConflict = {
    def fromTimeline = id.flatMap(t =>
      Databases.of(session).describe(t) match {
        case TransactionStatus.RolledBack(_, conflict, residue) =>
          Some(MetConflict(t, conflict, Residue.visible(residue)))
        case _ => None
      }
    )
    Transactions.lastConflict(session).filter(met => id.forall(_ == met.transaction))
      .orElse(fromTimeline)
      .getOrElse(throw Errors(
        "LAKESTEP_CONFLICT_NOT_KNOWN",
        "transaction" -> id.getOrElse("of this session")
      ))
  }
}

/** `VACUUM TRANSACTIONS`: removes what dead clients left, after it ended their transactions. */
final case class VacuumTransactions(retainHours: Long) extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "aborted" -> ArrayType(StringType),
    "removed_folders" -> IntegerType,
    "failed" -> ArrayType(StringType)
  )

  override def run(session: SparkSession): Seq[Row] = {
    val done = Databases.of(session).collect(retainHours * VacuumTransactions.HourMs)
    Seq(Row(
      done.aborted,
      done.folders,
      done.failed.map { case (table, cause) => s"$table: ${cause.getMessage}" }
    ))
  }
}

object VacuumTransactions {

  /** As long as Delta keeps removed files: what a transaction that is older reads may be gone. */
  val DefaultHours = 168L

  val HourMs = 3600000L
}

/** `RECOVER`: finishes every transaction that a dead client left between order point and outcome. */
final case class Recover() extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "entry" -> LongType,
    "transaction_id" -> StringType,
    "outcome" -> StringType,
    "residue" -> StringType
  )

  override def run(session: SparkSession): Seq[Row] = {
    val report = Databases.of(session).recover()
    report.finished.map { case (entry, end) =>
      end match {
        case Finished.Completed(_) => row(entry, "COMPLETED", Nil)
        case Finished.RolledBack(_, residue) => row(entry, "ROLLED_BACK", residue)
      }
    } ++ report.failed.map { case (entry, cause) =>
      row(entry, s"FAILED: ${cause.getMessage}", Nil)
    }
  }

  private def row(entry: CommitEntry, outcome: String, residue: Seq[String]): Row =
    Row(entry.number, entry.transaction.id, outcome, residue.mkString("; "))
}
