package io.lakestep.sql.command

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.StringType

import io.lakestep.LakestepException
import io.lakestep.commit.{VerificationFinding, Severity}
import io.lakestep.transaction.{AskedAsOf, Databases, LiveFiles, Transactions}

/** `VERIFY DATABASE`: whether timeline, commits and data files are what they were. Changes nothing. */
final case class VerifyDatabase(asOf: Option[AskedAsOf]) extends TransactionCommand {

  override val output: Seq[Attribute] = Columns(
    "severity" -> StringType,
    "what" -> StringType,
    "finding" -> StringType,
    "next_step" -> StringType
  )

  override def run(session: SparkSession): Seq[Row] = {
    Transactions.refuseOpen(session)
    val database = Databases.of(session)
    val entries = database.verification.entries()
    val files =
      try new LiveFiles(session).of(asOf.map(_.in(session)))
      catch {
        case e: LakestepException if e.getCondition == "LAKESTEP_TIMELINE_CORRUPT" =>
          val text = s"No data file was looked for: ${e.getMessage}"
          val step = "Restore the file from a backup. Do not edit or delete files of a timeline."
          Vector(VerificationFinding(Severity.Problem, database.root, text, step))
      }
    (entries ++ files).map(f => Row(f.severity.text, f.what, f.text, f.nextStep))
  }
}
