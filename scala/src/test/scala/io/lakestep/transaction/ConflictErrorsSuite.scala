package io.lakestep.transaction

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.timeline.{Conflict, Rule}
import io.lakestep.log.TableRef

/** What a person reads of a conflict: its kind, the fields that there are, the next step. */
final class ConflictErrorsSuite extends AnyFunSuite {

  private val over =
    Conflict.overTable(Rule.SameFile, "db.orders", TableRef("file:/orders"), Vector("f"))
  private val withCommit = over.copy(
    version = Some(7L),
    operation = Some("UPDATE"),
    user = Some("ana"),
    otherTransaction = Some("t2")
  )

  private val cases: Seq[Conflict] = Rule.all.map {
    case rule @ (Rule.Aborted | Rule.CommitTimeout) => Conflict.overEntry(rule, 12L)
    case rule @ (Rule.TableGone | Rule.LogCleanedUp | Rule.FileGone) => over.copy(rule = rule)
    case rule @ Rule.BatchApplied => withCommit.copy(rule = rule, entry = Some(12L))
    case rule => withCommit.copy(rule = rule)
  } :+ withCommit.copy(rule = Rule.Other("stricter"))

  for (conflict <- cases) test(s"${conflict.rule.name} has a condition, and says what to do") {
    val error = ConflictErrors("t1", conflict)
    assert(error.getCondition.startsWith("LAKESTEP_CONFLICT.") && error.getSqlState == "40001")
    assert(error.getMessage.contains("t1") && error.conflict == conflict)
    assert(!error.getMessage.contains("<") && !error.getMessage.contains("unknown"))
    if (conflict.table.nonEmpty) assert(error.getMessage.contains("db.orders"))
    val nextStep = ConflictErrors.nextStep(conflict, Nil)
    assert(nextStep.nonEmpty && error.getMessage.contains(nextStep))
  }

  test("parameters are the fields that the conflict has, and no others") {
    def of(conflict: Conflict) = ConflictErrors("t1", conflict).getMessageParameters.asScala
    assert(of(withCommit).toMap == Map(
      "transaction" -> "t1",
      "rule" -> "same-file",
      "commit" -> "UPDATE by ana in version 7 (transaction t2)",
      "table" -> "db.orders",
      "version" -> "7",
      "operation" -> "UPDATE",
      "user" -> "ana",
      "other" -> "t2",
      "files" -> "f"
    ))
    assert(of(Conflict.overEntry(Rule.CommitTimeout, 12L)).toMap ==
      Map("transaction" -> "t1", "rule" -> "commit-timeout", "entry" -> "12"))
    assert(of(over.copy(version = Some(3L)))("commit") == "a change in version 3")
  }

  test("residue is named in the next step") {
    val residue = ConflictErrors.nextStep(withCommit, Seq("db.orders: f1", "f2"))
    assert(residue.contains("db.orders: f1, f2") && residue.contains("count twice"))
  }
}
