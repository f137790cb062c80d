package io.lakestep.sql.run

import io.delta.tables.execution.VacuumTableCommand
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{ResolvedIdentifier, UnresolvedIdentifier}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{
  Command, LogicalPlan, ReplaceTableAsSelect, SetTableProperties, UnsetTableProperties
}
import org.apache.spark.sql.delta.commands.RestoreTableCommand
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, LeafRunnableCommand}
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand

import org.apache.spark.sql.delta.lakestep.SparkInternals
import io.lakestep.sql.command.UndoCommand
import io.lakestep.sql.guard.{CommandCatalogue, Decision, StatementKinds}
import io.lakestep.sql.redirect.{AskedPlan, RedirectSaveAsTable}
import io.lakestep.transaction.{
  Attempts, Autocommit, StagingWatch, InternalClones, Lifecycle, Redo, Transactions
}
import io.lakestep.log.ForeignWriters

/**
 * A statement outside a transaction that can only be one, by itself: of a table that is closed to
 * everything but transactions (`lakestep.foreignWriters`), or one that opens or closes a table; and REVERT
 * and RESTORE.
 *
 * @param asked the statement as it came to the analyzer, which does its work again inside
 * @param vacuumed the table of a VACUUM, which deletes files and leaves nothing to commit
 */
final case class OneStatementTransaction(
    asked: LogicalPlan,
    override val output: Seq[Attribute],
    vacuumed: Option[Path])
    extends LeafRunnableCommand {

  /** In a session of its own: other threads of the user's go on outside of the transaction. */
  override def run(session: SparkSession): Seq[Row] = {
    val attempts = Attempts.of(session)
    val own = SparkInternals.cloned(session)
    Transactions.seeAs(own, session)
    try Redo.whole(attempts)(once(session, own, attempts))(mayRepeat = true)
    finally Transactions.learn(session, own)
  }

  private def once(user: SparkSession, session: SparkSession, attempts: Attempts): Seq[Row] = {
    val transaction = Lifecycle.beginFor(user, session)
    Lifecycle.rollingBack(session, transaction.id) {
      vacuumed.foreach { table =>
        transaction.permitsVacuum = true
        StagingWatch.open(session, transaction, table)
      }
      val rows = SparkInternals.frame(session, asked).collect().toSeq
      if (vacuumed.isDefined) Lifecycle.rollback(session)
      else Lifecycle.commit(session, attempts, _ => Vector.empty)
      rows
    }
  }
}

object OneStatementTransaction {

  /** The plan that does so, if the statement that became this plan has to be a transaction. */
  private[sql] def plan(session: SparkSession, root: LogicalPlan): Option[SparkPlan] = {
    val commands = StatementKinds.commands(root)
    for {
      asked <- AskedPlan.of(root).orElse(askedAgain(root))
      if commands.exists(mustBe(session, _)) && !Transactions.isOpen(session) &&
        !InternalClones.contains(session)
    } yield ExecutedCommandExec(OneStatementTransaction(asked, root.output, vacuumed(commands)))
  }

  /** What Spark or Delta makes anew on the way, without its tags; analysis redirects both. */
  private def askedAgain(root: LogicalPlan): Option[LogicalPlan] = root match {
    case _: SaveIntoDataSourceCommand | _: RestoreTableCommand => Some(root)
    case replace: ReplaceTableAsSelect => Some(replace.name).collect {
        case ResolvedIdentifier(catalog, identifier) =>
          val parts = catalog.name +: identifier.namespace.toSeq :+ identifier.name
          replace.copy(name = UnresolvedIdentifier(parts), isAnalyzed = false)
      }
    case _ => None
  }

  private def mustBe(session: SparkSession, command: Command): Boolean =
    command.isInstanceOf[UndoCommand] || isOverClosed(session, command)

  private def isOverClosed(session: SparkSession, command: Command): Boolean = {
    // `DataFrameWriter.save` meets its table only when it runs.
    val isLoaded = !command.isInstanceOf[SaveIntoDataSourceCommand]
    val overwritten = RedirectSaveAsTable.target(command).map(_.path)
    overwritten.exists(Autocommit.isFenced(session, _, isLoaded = false)) ||
    (CommandCatalogue.decide(command) == Decision.Staged || isVacuum(command)) &&
    (changesMode(command) ||
      BeforeOutsideStatement.targets(command).exists(Autocommit.isFenced(session, _, isLoaded)))
  }

  private def changesMode(command: Command): Boolean = command match {
    case set: SetTableProperties => set.properties.keys.exists(ForeignWriters.isProperty)
    case unset: UnsetTableProperties => unset.propertyKeys.exists(ForeignWriters.isProperty)
    case _ => false
  }

  private def isVacuum(command: Command): Boolean = command.isInstanceOf[VacuumTableCommand]

  private def vacuumed(commands: Seq[Command]): Option[Path] =
    commands.filter(isVacuum).flatMap(BeforeOutsideStatement.targets).headOption
}
