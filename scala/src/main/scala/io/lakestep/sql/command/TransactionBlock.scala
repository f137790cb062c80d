package io.lakestep.sql.command

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{NamedParameter, NameParameterizedQuery}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{
  Command, CommandResult, LeafNode, LocalRelation, LogicalPlan
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes

import org.apache.spark.sql.delta.lakestep.{Callers, SparkInternals}
import io.lakestep.Errors
import io.lakestep.transaction.{
  Attempts, Lifecycle, Redo, SessionEnvironment, Step, Transaction, Transactions
}

/** How a block ends. */
sealed trait BlockEnd
object BlockEnd {
  case object Commit extends BlockEnd
  case object Rollback extends BlockEnd
}

/** One statement of a block: its text, and the plan that Delta's or Spark's parser made of it. */
final case class BlockPiece(text: String, plan: LogicalPlan)

/**
 * `BEGIN; …; COMMIT` in one text. Replaced by its result when it is resolved.
 *
 * @param parameters names of parameters that Spark binds in the expressions of a plan (4.0); the pieces are
 *                   none, so their values are bound here
 */
final case class TransactionBlock(
    begin: BeginTransaction,
    pieces: Seq[BlockPiece],
    end: BlockEnd,
    parameters: Seq[String],
    values: Seq[Expression])
    extends LeafNode {

  /** A statement of the block, with the parameters that have a value. */
  def bound(piece: BlockPiece): LogicalPlan = {
    val found = parameters.zip(values).filter(_._2.resolved).toMap
    if (found.isEmpty) piece.plan else NameParameterizedQuery(piece.plan, found)
  }

  override lazy val resolved: Boolean = false
  override def output: Seq[Attribute] = Nil
}

object TransactionBlock {
  def apply(
      begin: BeginTransaction,
      pieces: Seq[BlockPiece],
      end: BlockEnd,
      parameters: Seq[String]): TransactionBlock =
    TransactionBlock(begin, pieces, end, parameters, parameters.map(NamedParameter(_)))
}

/**
 * Refuses a block with parameters where it would run once for each look at its result: on Spark Connect 4.0,
 * which sees no script below the node that holds the parameters.
 */
object RefuseRepeatedBlock extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case query: NameParameterizedQuery
        if query.child.isInstanceOf[TransactionBlock] && Callers.isConnect =>
      throw Errors("LAKESTEP_PARAMETERS_IN_BLOCK")
    case other => other
  }
}

/**
 * Runs a block. Its result is that of its last query. Any failure rolls everything back; what met a
 * conflict is run again, as nobody has seen a result of it, and any other failure is raised as it
 * was. Statements that have changed the session are not run again: the conflict is raised.
 */
final case class ResolveTransactionBlock(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case block: TransactionBlock =>
      val attempts = Attempts.of(session)
      var isSessionAsBefore = () => true
      Redo.whole(attempts) {
        val begin = block.begin
        val transaction =
          begin.open(session)
        val before = transaction.savepoint(SessionEnvironment.of(session))
        isSessionAsBefore =
          () => before.isSameSession(transaction.savepoint(SessionEnvironment.of(session)))
        run(block, transaction, attempts)
      }(isSessionAsBefore())
    case other => other
  }

  private def run(
      block: TransactionBlock,
      transaction: Transaction,
      attempts: Attempts): LogicalPlan = {
    val id = transaction.id
    transaction.runsBlock()
    val results = Array.fill(block.pieces.size)(Option.empty[LogicalPlan])
    Lifecycle.rollingBack(session, id) {
      val steps = block.pieces.toVector.zipWithIndex.map { case (piece, i) =>
        val step = Step(
          transaction.savepoint(SessionEnvironment.of(session)),
          () => {
            results(i) = execute(block.bound(piece))
            requireOpen(id)
          }
        )
        step.run()
        step
      }
      block.end match {
        case BlockEnd.Rollback => Lifecycle.rollback(session)
        case BlockEnd.Commit => Lifecycle.commit(session, attempts, _ => steps)
      }
      results.flatten.lastOption.getOrElse(LocalRelation.fromExternalRows(Nil, Nil))
    }
  }

  /** A piece may hide a COMMIT (`EXECUTE IMMEDIATE`); what follows must not run outside. */
  private def requireOpen(id: String): Unit =
    if (!Transactions.isOpenTransaction(session, id)) {
      throw Errors(
        "LAKESTEP_TRANSACTION_NOT_OPEN",
        "operation" -> "The next statement of the block",
        "transaction" -> id
      )
    }

  /** The rows of a query; None for a command, which Spark runs at once. */
  private def execute(plan: LogicalPlan): Option[LogicalPlan] = {
    val frame = SparkInternals.frame(session, plan)
    frame.queryExecution.commandExecuted match {
      case _: CommandResult | _: Command => None
      case _ =>
        Some(LocalRelation.fromExternalRows(toAttributes(frame.schema), frame.collect().toSeq))
    }
  }
}
