package io.lakestep.transaction

import io.lakestep.Errors
import io.lakestep.timeline.AssertionOutcome

/**
 * A condition that has to hold for a transaction to be committed.
 *
 * @param text as it was typed
 * @param judge asks it now; nothing where it holds, else the value, or some of the rows that it forbids
 */
final case class Assertion(
    name: String,
    text: String,
    message: Option[String],
    judge: () => Option[Seq[String]])

/** What was found of an assertion; nothing where it held. */
final case class JudgedAssertion(assertion: Assertion, found: Option[Seq[String]]) {
  def outcome: AssertionOutcome = AssertionOutcome(assertion.name, found.isEmpty)
}

/**
 * The assertions of a transaction.
 *
 * @param atCommit what COMMIT has to ask
 * @param judged what was asked by statements
 */
final case class Assertions(atCommit: Vector[Assertion], judged: Vector[JudgedAssertion]) {
  def count: Int = atCommit.size + judged.size
}

private[lakestep] object Assertions {
  val none: Assertions = Assertions(Vector.empty, Vector.empty)

  /**
   * Condition: LAKESTEP_ASSERTION_FAILED, which tells names and messages. What was found is for the caller
   * alone, and whoever listens to Spark is told of its errors.
   */
  def check(transaction: String, judged: Vector[JudgedAssertion]): Unit = {
    val failed = judged.filter(_.found.isDefined).map(_.assertion)
    if (failed.nonEmpty)
      throw Errors(
        "LAKESTEP_ASSERTION_FAILED",
        "transaction" -> transaction,
        "failures" -> failed.map(a => a.name + a.message.fold("")(": " + _)).mkString("; ")
      )
  }
}
