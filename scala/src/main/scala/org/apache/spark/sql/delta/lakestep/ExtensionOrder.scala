package org.apache.spark.sql.delta.lakestep

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

import io.lakestep.Errors

/**
 * Keeps Lakestep's place also when the user lists Delta's extension after it. Delta's parser drops
 * the parameters of `spark.sql(text, args)`, so ours must see them first; and what changes Delta's
 * scans must come after Delta has made them.
 *
 * Spark has no interface for that order; this replaces the lists that it goes through.
 */
object ExtensionOrder {

  type Parser = (SparkSession, ParserInterface) => ParserInterface
  type RuleOf = SparkSession => Rule[LogicalPlan]

  def injectOutermostParser(extensions: SparkSessionExtensions, ours: Parser): Unit =
    replace[Parser](extensions, "parserBuilders", new OutermostLast(ours))

  def injectLastPreCBORule(extensions: SparkSessionExtensions, ours: RuleOf): Unit =
    replace[RuleOf](extensions, "preCBORules", new RuleLast(ours))

  private def replace[B](
      extensions: SparkSessionExtensions,
      list: String,
      by: mutable.Buffer[B]): Unit =
    try {
      val field = classOf[SparkSessionExtensions].getDeclaredField(list)
      field.setAccessible(true)
      by ++= field.get(extensions).asInstanceOf[mutable.Buffer[B]]
      field.set(extensions, by)
    } catch {
      case NonFatal(cause) => throw Errors.caused("LAKESTEP_EXTENSION_ORDER", cause)
    }

  private final class OutermostLast(ours: Parser) extends mutable.ArrayBuffer[Parser] {
    override def foldLeft[B](zero: B)(op: (B, Parser) => B): B =
      op(super.foldLeft(zero)(op), ours)
  }

  private final class RuleLast(ours: RuleOf) extends mutable.ArrayBuffer[RuleOf] {
    override def map[B](make: RuleOf => B): mutable.ArrayBuffer[B] = super.map(make) += make(ours)
  }
}
