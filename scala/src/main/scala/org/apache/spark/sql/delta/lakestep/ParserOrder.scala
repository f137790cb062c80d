package org.apache.spark.sql.delta.lakestep

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.parser.ParserInterface

import io.lakestep.Errors

/**
 * Keeps Lakestep's parser outermost also when the user lists Delta's extension after it. Delta's
 * parser drops the parameters of `spark.sql(text, args)`, so ours must see them first.
 *
 * Spark has no interface for that order; this replaces the list that it folds over.
 */
object ParserOrder {

  type Builder = (SparkSession, ParserInterface) => ParserInterface

  def injectOutermost(extensions: SparkSessionExtensions, ours: Builder): Unit =
    try {
      val field = classOf[SparkSessionExtensions].getDeclaredField("parserBuilders")
      field.setAccessible(true)
      val builders = new OutermostLast(ours)
      builders ++= field.get(extensions).asInstanceOf[mutable.Buffer[Builder]]
      field.set(extensions, builders)
    } catch {
      case NonFatal(cause) => throw Errors.caused("LAKESTEP_EXTENSION_ORDER", cause)
    }

  private final class OutermostLast(ours: Builder) extends mutable.ArrayBuffer[Builder] {
    override def foldLeft[B](zero: B)(op: (B, Builder) => B): B =
      op(super.foldLeft(zero)(op), ours)
  }
}
