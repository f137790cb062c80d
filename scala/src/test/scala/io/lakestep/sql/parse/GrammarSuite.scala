package io.lakestep.sql.parse

import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.catalog.UndoModes
import io.lakestep.commit.TransactionModes
import io.lakestep.timeline.Labels
import io.lakestep.transaction.AskedAsOf
import io.lakestep.sql.command.{
  AssertStatement, BeginTransaction, BlockEnd, CommitTransaction, CreateSnapshot,
  DescribeTransaction, DropSnapshot, ExplainConflict, ForgetBatchKeys, Recover, ReleaseSavepoint,
  Restore, Revert, RollbackToSavepoint, RollbackTransaction, SetSavepoint, SetTransaction,
  ShowAssertions, ShowSnapshots, ShowTimeline, ShowTransactions, VacuumTransactions, VerifyDatabase
}

/** The texts of `sql-grammar/statements`, each parsed as its file says. */
class GrammarSuite extends AnyFunSuite {

  private def paragraphs(file: String): Seq[String] =
    Files
      .readString(Paths.get("sql-grammar/statements", file))
      .split("\n\\s*\n")
      .map(_.trim)
      .filter(_.nonEmpty)
      .toSeq

  private def shown(labels: Labels): Seq[String] =
    labels.comment.map(c => s"saying $c").toSeq ++
      labels.tags.toSeq.sorted.map { case (key, value) => s"$key=$value" }

  private def past(asOf: AskedAsOf): String = asOf match {
    case AskedAsOf.Version(number) => s"as of version $number"
    case AskedAsOf.Timestamp(time) => s"as of $time"
    case AskedAsOf.Snapshot(name) => s"as of snapshot $name"
    case AskedAsOf.Before(id) => s"before $id"
  }

  private def undo(modes: UndoModes): String =
    (if (modes.keepsKeys) " keep keys" else "") + (if (modes.isDry) " dry run" else "")

  private def shown(text: String): String =
    try
      Statements.parse(text) match {
        case ParsedText.PassThrough => "pass through"
        case ParsedText.Ours(BeginTransaction(name, said, batch, labels, asOf)) =>
          val asked = batch.map(b => s"batch ${b.number} of ${b.query.getOrElse("this query")}")
          val parts = name.toSeq ++ modes(said) ++ asOf.map(past) ++ asked ++ shown(labels)
          ("begin" +: parts).mkString(" ")
        case ParsedText.Ours(AssertStatement(text, noRows, name, message, isImmediate)) =>
          val kind = if (noRows) "assert no rows" else "assert"
          val now = Option.when(isImmediate)("now")
          (Seq(
            kind,
            text
          ) ++ name.map("as " + _) ++ message.map("saying " + _) ++ now).mkString("|")
        case ParsedText.Ours(ShowAssertions()) => "show assertions"
        case ParsedText.Ours(ForgetBatchKeys(query)) => s"forget $query"
        case ParsedText.Ours(SetTransaction(said)) => ("set" +: modes(said).toSeq).mkString(" ")
        case ParsedText.Ours(CommitTransaction()) => "commit"
        case ParsedText.Ours(RollbackTransaction()) => "rollback"
        case ParsedText.Ours(ShowTransactions(false)) => "show transactions"
        case ParsedText.Ours(ShowTransactions(true)) => "show all transactions"
        case ParsedText.Ours(ShowTimeline(from, to, last)) =>
          (Seq("timeline") ++ from.map(n => s"from $n") ++ to.map(n => s"to $n") ++
            last.map(n => s"last $n")).mkString(" ")
        case ParsedText.Ours(DescribeTransaction(id)) => s"describe $id"
        case ParsedText.Ours(ExplainConflict(id)) => ("explain conflict" +: id.toSeq).mkString(" ")
        case ParsedText.Ours(VacuumTransactions(hours)) => s"vacuum $hours"
        case ParsedText.Ours(Recover()) => "recover"
        case ParsedText.Ours(SetSavepoint(name)) => s"savepoint $name"
        case ParsedText.Ours(RollbackToSavepoint(name)) => s"rollback to $name"
        case ParsedText.Ours(ReleaseSavepoint(name)) => s"release $name"
        case ParsedText.Ours(CreateSnapshot(name, asOf, days, comment)) =>
          (Seq("create snapshot", name) ++ asOf.map(past) ++ days.map(d => s"for $d days") ++
            comment.map("saying " + _)).mkString(" ")
        case ParsedText.Ours(DropSnapshot(name, ifExists)) =>
          s"drop snapshot $name${if (ifExists) " if exists" else ""}"
        case ParsedText.Ours(ShowSnapshots()) => "show snapshots"
        case ParsedText.Ours(VerifyDatabase(asOf)) =>
          s"verify database${asOf.fold("")(a => s" ${past(a)}")}"
        case ParsedText.Ours(Revert(id, modes)) => s"revert $id${undo(modes)}"
        case ParsedText.Ours(Restore(what, to, modes)) =>
          s"restore $what to ${past(to).stripPrefix("as of ")}${undo(modes)}"
        case ParsedText.Ours(other) => other.toString
        case ParsedText.Atomic(script) =>
          // In its place, so that Spark tells the places of errors.
          val length = script.codePointCount(0, script.length)
          if (length == text.codePointCount(0, text.length)) "atomic block" else script
        case ParsedText.Block(_, pieces, BlockEnd.Commit) => s"block commit ${pieces.size}"
        case ParsedText.Block(_, pieces, BlockEnd.Rollback) => s"block rollback ${pieces.size}"
      }
    catch {
      case e: LakestepException if e.getCondition == "LAKESTEP_BLOCK_NOT_FINISHED" => "unfinished"
      case e: LakestepException if e.getCondition == "LAKESTEP_TRANSACTION_MODE_TWICE" =>
        "mode twice"
    }

  private def modes(said: TransactionModes): Option[String] = {
    val texts = said.isolation.map(_.name) ++
      said.readOnly.map(readOnly => if (readOnly) "read only" else "read write")
    Option.when(texts.nonEmpty)(texts.mkString("[", ", ", "]"))
  }

  for (paragraph <- paragraphs("ours.sql")) {
    val (comments, statement) = paragraph.linesIterator.toSeq.span(_.startsWith("# "))
    val text = statement.mkString("\n")
    test(s"ours: $text") {
      assert(shown(text) == comments.last.stripPrefix("# "))
    }
  }

  for (paragraph <- paragraphs("spark.sql")) {
    val text = paragraph.linesIterator.filterNot(_.startsWith("# ")).mkString("\n")
    test(s"Spark's: $text")(assert(shown(text) == "pass through"))
  }

  test("the pieces of a block are the user's own texts") {
    val text = "BEGIN;\n insert into A values ('x;y') ;-- c\n Select 1 ; COMMIT"
    Statements.parse(text) match {
      case ParsedText.Block(_, pieces, _) =>
        assert(pieces == Seq("insert into A values ('x;y')", "Select 1"))
      case other => fail(other.toString)
    }
  }

  test("a character outside the basic plane does not move what follows it") {
    val text = "BEGIN `n😀`; /* 😀 */ DELETE FROM t WHERE v = '😀' AND id = 12; SELECT 12; COMMIT"
    Statements.parse(text) match {
      case ParsedText.Block(BeginTransaction(name, _, _, _, _), pieces, _) =>
        assert(name.contains("n😀"))
        assert(pieces == Seq("DELETE FROM t WHERE v = '😀' AND id = 12", "SELECT 12"))
      case other => fail(other.toString)
    }
  }
}
