package io.lakestep.sql.listing

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.unsafe.types.UTF8String

import io.lakestep.Errors

/** Listings as table functions of SQL: `SELECT * FROM lakestep_timeline()`. */
object TableFunctions {

  def inject(extensions: SparkSessionExtensions): Unit = {
    add(extensions, "lakestep_timeline()") { case Seq() => TimelineListing }
    add(extensions, "lakestep_transactions()") { case Seq() => TransactionsListing }
    add(extensions, "lakestep_table_versions('table')") { case Seq(table: UTF8String) =>
      VersionsListing.of(SparkSession.active, table.toString)
    }
    add(extensions, "lakestep_held('table')") { case Seq(table: UTF8String) =>
      HeldListing(VersionsListing.of(SparkSession.active, table.toString).table)
    }
    add(extensions, "lakestep_changes(from_entry, to_entry)") {
      case Seq(Whole(from), Whole(to)) => ChangesListing(KeyRange(from, to))
    }
  }

  private def add(extensions: SparkSessionExtensions, usage: String)(
      listing: PartialFunction[Seq[Any], Listing]): Unit = {
    val name = usage.takeWhile(_ != '(')
    def plan(arguments: Seq[Expression]): LogicalPlan = {
      val values = arguments.map(a => if (a.resolved && a.foldable) a.eval() else a)
      val made = listing.applyOrElse(
        values,
        (_: Seq[Any]) => throw Errors("LAKESTEP_FUNCTION_ARGUMENTS", "usage" -> usage)
      )
      ListingRelation(made)
    }
    extensions.injectTableFunction(
      (FunctionIdentifier(name), new ExpressionInfo(getClass.getName, name), plan _)
    )
  }

  private object Whole {
    def unapply(value: Any): Option[Long] = value match {
      case n @ (_: Byte | _: Short | _: Int | _: Long) => Some(n.asInstanceOf[Number].longValue)
      case _ => None
    }
  }
}
