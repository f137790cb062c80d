package io.lakestep.sql.parse

import scala.annotation.tailrec
import scala.util.Try

import org.antlr.v4.runtime.Token
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.plans.logical.{
  CompoundBody, CompoundPlanStatement, ExceptionHandler, ForStatement, IfElseStatement, LogicalPlan,
  LoopStatement, RepeatStatement, SearchedCaseStatement, SimpleCaseStatement, SingleStatement,
  WhileStatement
}
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.execution.SparkSqlParser

import io.lakestep.Errors
import io.lakestep.sql.command.{
  AssertStatement, BeginTransaction, CommitTransaction, RollbackTransaction
}
import io.lakestep.sql.parser.LakestepSqlLexer._

/**
 * The script in `BEGIN ATOMIC … END`. Spark parses a script in one go and asks no other parser, so a
 * statement that only Lakestep's or Delta's knows is taken out before, and put in again after that. What
 * stands for it meanwhile has as many lines.
 *
 * @param filled puts values for the parameters of a text
 * @param script parses a whole script
 * @param statement parses one statement, by all parsers
 */
private[parse] final class AtomicScript(
    filled: String => String,
    script: String => LogicalPlan,
    statement: String => LogicalPlan) {

  import AtomicScript._

  /** Condition: LAKESTEP_STATEMENT_IN_BLOCK. */
  def parse(text: String): LogicalPlan = {
    // Of two that overlap the first is the statement.
    val taken = parts(text).foldLeft(Vector.empty[(Part, LogicalPlan)]) { (taken, part) =>
      if (taken.lastOption.exists(_._1.end > part.start)) taken
      else taken ++ ourPlan(part).orElse(foreignPlan(part)).map(part -> _)
    }
    withPlans(text, taken)
  }

  private def ourPlan(part: Part): Option[LogicalPlan] =
    if (!part.mayBeOurs) None
    else
      Statements.parse(part.text) match {
        case ParsedText.Ours(
              _: BeginTransaction | _: CommitTransaction | _: RollbackTransaction
            ) =>
          throw refused(part)
        // A value may stand anywhere in its condition.
        case ParsedText.Ours(_: AssertStatement) => Some(statement(filled(part.placed)))
        case ParsedText.Ours(plan) => Some(plan)
        case ParsedText.Atomic(_) => throw refused(part)
        case _ => None
      }

  private def refused(part: Part): Throwable = Errors(
    "LAKESTEP_STATEMENT_IN_BLOCK",
    "statement" -> s"${part.text.linesIterator.nextOption().getOrElse("")} (line ${part.line})"
  )

  /** The plan of a statement that means something else to another parser than to Spark's own. */
  private def foreignPlan(part: Part): Option[LogicalPlan] =
    if (OfScripts(part.first.getType)) None
    else
      for {
        text <- Try(filled(part.text)).toOption
        plan <- Try(statement(text)).toOption
        if !Try(sparks.parsePlan(text)).toOption.exists(shape(_) == shape(plan))
      } yield statement(filled(part.placed))

  private def withPlans(text: String, parts: Vector[(Part, LogicalPlan)]): LogicalPlan = {
    val standIns = parts.zipWithIndex.foldRight(text) { case (((part, _), index), done) =>
      val start = done.offsetByCodePoints(0, part.start)
      val end = done.offsetByCodePoints(0, part.end)
      val lines = part.text.filter(_ == '\n')
      s"${done.substring(0, start)}TABLE ${StandIn(index)}$lines${done.substring(end)}"
    }
    script(filled(standIns)) match {
      case body: CompoundBody if parts.nonEmpty => restored(body, parts.map(_._2))
      case plan => plan
    }
  }
}

private[parse] object AtomicScript {

  private val sparks = new SparkSqlParser()

  /** A plan without the numbers that each parsing gives anew. */
  private def shape(plan: LogicalPlan): String =
    plan.treeString(verbose = true, maxFields = Int.MaxValue).replaceAll("#\\d+", "")

  /**
   * What may be a statement of a script: it begins where one may begin, and ends before a semicolon.
   *
   * @param start where it begins, and `end` where it ends, in code points
   */
  private final case class Part(text: String, start: Int, end: Int, first: Token) {
    def line: Int = first.getLine
    def mayBeOurs: Boolean = OurFirst(first.getType)

    /** So that errors tell its line of the script. */
    def placed: String = "\n" * (line - 1) + text
  }

  /** With these our statements begin. */
  private val OurFirst = Set(
    ASSERT,
    BEGIN,
    COMMIT,
    DESC,
    DESCRIBE,
    EXPLAIN,
    FORGET,
    RECOVER,
    RELEASE,
    ROLLBACK,
    SAVEPOINT,
    SET,
    SHOW,
    START,
    VACUUM
  )

  /** Of a script these say something of their own. */
  private val OfScripts = Set(BEGIN, CASE, END, IF, FOR, LOOP, REPEAT, SET, WHILE)

  /** After these a statement may begin, beside the semicolon. */
  private val Before = Set("BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT")

  private def parts(text: String): Vector[Part] = {
    val tokens = Statements.tokens(text)
    def word(i: Int) = tokens(i).getText.toUpperCase(java.util.Locale.ROOT)
    def isSemicolon(i: Int) = tokens(i).getType == SEMICOLON
    def segment(first: Int): Part = {
      val last = Iterator.from(first).takeWhile(i => i < tokens.size && !isSemicolon(i)).max
      val (start, end) = (tokens(first).getStartIndex, tokens(last).getStopIndex + 1)
      val found = text.substring(text.offsetByCodePoints(0, start), text.offsetByCodePoints(0, end))
      Part(found, start, end, tokens(first))
    }
    def wordAt(i: Int) = if (i < tokens.size) word(i) else ""
    // The statement of `DECLARE … HANDLER FOR …` follows the conditions.
    @tailrec
    def afterConditions(i: Int): Int = {
      val next = wordAt(i) match {
        case "NOT" => i + 2
        case "SQLSTATE" => if (wordAt(i + 1) == "VALUE") i + 3 else i + 2
        case _ => i + 1
      }
      if (wordAt(next) == ",") afterConditions(next + 1) else next
    }
    val ofHandlers = tokens.indices.drop(2).collect {
      case i if word(i) == "HANDLER" && word(i - 2) == "DECLARE" && wordAt(i + 1) == "FOR" =>
        afterConditions(i + 2)
    }.toSet
    tokens.indices.drop(1).filter { i =>
      !isSemicolon(i) && (isSemicolon(i - 1) || Before(word(i - 1)) || ofHandlers(i)) &&
      word(i) != "DECLARE"
    }.map(segment).toVector
  }

  private object StandIn {
    private val Prefix = "__lakestep_statement_"
    def apply(index: Int): String = s"$Prefix$index"
    def unapply(plan: LogicalPlan): Option[Int] = plan match {
      case UnresolvedRelation(Seq(name), _, _) if name.startsWith(Prefix) =>
        name.drop(Prefix.length).toIntOption
      case _ => None
    }
  }

  private def restored(body: CompoundBody, plans: Vector[LogicalPlan]): CompoundBody = {
    def statement(node: CompoundPlanStatement): CompoundPlanStatement =
      CurrentOrigin.withOrigin(node.origin)(restoredIn(node))
    def restoredIn(node: CompoundPlanStatement): CompoundPlanStatement = node match {
      case SingleStatement(StandIn(index)) => SingleStatement(plans(index))
      case nested: CompoundBody => inside(nested)
      // Not by `mapChildren`: that of Spark takes the last branch but one for ELSE.
      case s: IfElseStatement =>
        s.copy(
          conditionalBodies = s.conditionalBodies.map(inside),
          elseBody = s.elseBody.map(inside)
        )
      case s: SearchedCaseStatement =>
        s.copy(
          conditionalBodies = s.conditionalBodies.map(inside),
          elseBody = s.elseBody.map(inside)
        )
      case s: SimpleCaseStatement =>
        s.copy(
          conditionalBodies = s.conditionalBodies.map(inside),
          elseBody = s.elseBody.map(inside)
        )
      case s: WhileStatement => s.copy(body = inside(s.body))
      case s: RepeatStatement => s.copy(body = inside(s.body))
      case s: LoopStatement => s.copy(body = inside(s.body))
      case s: ForStatement => s.copy(body = inside(s.body))
      case other => other
    }
    def inside(body: CompoundBody): CompoundBody = body.copy(
      collection = body.collection.map(statement),
      handlers = body.handlers.map { (handler: ExceptionHandler) =>
        handler.copy(body = inside(handler.body))
      }
    )
    inside(body)
  }
}
