package io.lakestep.sql.command

import scala.util.Try

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.{Attribute, VariableReference}
import org.apache.spark.sql.catalyst.plans.logical.{
  Command, LeafNode, LogicalPlan, ScriptTransformation
}
import org.apache.spark.sql.types.{ArrayType, BooleanType, StringType}

import org.apache.spark.sql.delta.lakestep.{DeltaReference, SparkInternals}
import io.lakestep.Errors
import io.lakestep.transaction.{Assertion, JudgedAssertion, Transaction, Transactions}

/**
 * `ASSERT`: what has to hold for the transaction to be committed. It is asked at COMMIT, on what would be
 * published, or at once.
 *
 * @param text a condition, or a query that must give no rows
 */
final case class AssertStatement(
    text: String,
    noRows: Boolean,
    name: Option[String],
    message: Option[String],
    isImmediate: Boolean)
    extends StatementOfTransaction {
  import AssertStatement._

  override protected def act(session: SparkSession): Unit = {
    val transaction = Transactions.open(session)
      .getOrElse(throw Errors("LAKESTEP_NO_ACTIVE_TRANSACTION", "statement" -> "ASSERT"))
    val query = if (noRows) text else s"SELECT ($text\n) AS holds"
    val parsed = session.sessionState.sqlParser.parsePlan(query)
    val analyzed = SparkInternals.analyzed(session, parsed)
    check(analyzed)
    // A variable of a script may be gone by then. Names count as they are then.
    val plan = if (hasVariables(analyzed)) analyzed else parsed
    val called = name.getOrElse(s"assertion ${transaction.assertions.count + 1}")
    val assertion = Assertion(called, text, message, () => judge(session, plan))
    // What it has applied was asked then.
    if (transaction.begun.replays.isEmpty)
      if (isImmediate) judgeNow(session, transaction, assertion) else transaction.asserts(assertion)
  }

  /** What stands for a name may be something else by now. */
  private def judge(session: SparkSession, plan: LogicalPlan): Option[Seq[String]] = {
    val frame = SparkInternals.frame(session, plan)
    check(frame.queryExecution.analyzed)
    if (noRows) rows(frame) else value(frame)
  }

  private def judgeNow(
      session: SparkSession,
      transaction: Transaction,
      assertion: Assertion): Unit =
    try transaction.assertsNow(assertion)
    finally Transactions.judged(session, transaction, transaction.assertions.judged)

  /** Condition: LAKESTEP_ASSERTION_INVALID. */
  private def check(analyzed: LogicalPlan): Unit = {
    def invalid(reason: String) = throw Errors(
      "LAKESTEP_ASSERTION_INVALID",
      "assertion" -> name.getOrElse(text),
      "reason" -> reason
    )
    analyzed.collectWithSubqueries {
      case command: Command => invalid(s"${command.nodeName} is no query")
      case _: ScriptTransformation => invalid("it runs a program, which may do anything")
      case node if !node.deterministic => invalid("it may give another answer each time")
      case leaf: LeafNode if !Fixed(leaf.nodeName) && DeltaReference.in(leaf).isEmpty =>
        invalid("it reads what is no Delta table, whose changes nobody could notice")
    }
    if (!noRows && analyzed.schema.map(_.dataType) != Seq(BooleanType))
      invalid(s"it is no condition, but ${analyzed.schema.map(_.dataType.sql).mkString(", ")}")
  }
}

private[sql] object AssertStatement {

  /** How many rows are told. */
  private val MostRows = 10

  /** What holds its own rows, or those of another part of the query. */
  private val Fixed =
    Set(
      "OneRowRelation",
      "LocalRelation",
      "Range",
      "EmptyRelation",
      "CTERelationRef",
      "UnionLoopRef"
    )

  private def hasVariables(analyzed: LogicalPlan): Boolean = analyzed.collectWithSubqueries {
    case node if node.expressions.exists(_.exists(_.isInstanceOf[VariableReference])) => ()
  }.nonEmpty

  private def value(frame: DataFrame): Option[Seq[String]] = {
    val answers = frame.collect().toSeq
    Option.unless(answers.size == 1 && !answers.head.isNullAt(0) && answers.head.getBoolean(0)) {
      answers.map(row => if (row.isNullAt(0)) "NULL" else row.get(0).toString)
    }
  }

  private def rows(frame: DataFrame): Option[Seq[String]] = {
    val most = MostRows
    // Not by LIMIT, which would count as if the whole table had been read.
    val found = frame.rdd.mapPartitions(_.take(most)).collect()
    Option.when(found.nonEmpty)(found.toSeq.take(most).map(row =>
      Try(row.json).getOrElse(row.toString)
    ))
  }
}

/** `SHOW ASSERTIONS`: those of the open transaction, and what the last look at each has found. */
final case class ShowAssertions() extends InspectionCommand {

  override val output: Seq[Attribute] = Columns(
    "name" -> StringType,
    "assertion" -> StringType,
    "message" -> StringType,
    "outcome" -> StringType,
    "found" -> ArrayType(StringType)
  )

  override def run(session: SparkSession): Seq[Row] = {
    val judged = Transactions.lastJudged(session)
    val asked = Transactions.openOrFailed(session).toVector.flatMap(_.assertions.atCommit)
      .filterNot(a => judged.exists(_.assertion eq a))
    judged.map {
      case JudgedAssertion(a, None) => row(a, "PASSED", Nil)
      case JudgedAssertion(a, Some(found)) => row(a, "FAILED", found)
    } ++ asked.map(row(_, "ASKED AT COMMIT", Nil))
  }

  private def row(a: Assertion, outcome: String, found: Seq[String]) =
    Row(a.name, a.text, a.message.orNull, outcome, found)
}
