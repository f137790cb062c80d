package io.lakestep.sql.run

import scala.jdk.CollectionConverters._

import org.apache.spark.{SparkException, SparkThrowable}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.delta.DeltaAnalysisException
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.types.UTF8String

import io.lakestep.overlay.OverlayPath

/** A user sees where a table lies, not the path of its overlay. */
private[run] object ShownPaths {

  /** A row that a command gives. */
  def apply(row: InternalRow, types: Seq[DataType]): InternalRow = {
    val values = row.toSeq(types)
    val shown = values.map {
      case text: UTF8String =>
        val before = text.toString
        val after = OverlayPath.replacedIn(before)
        if (after eq before) text else UTF8String.fromString(after)
      case other => other
    }
    if (shown == values) row else InternalRow.fromSeq(shown)
  }

  /** What Spark throws when files cannot be read or written, and Delta when a table cannot be made, names them. */
  def inFailure[A](work: => A): A =
    try work
    catch {
      case e: SparkException if e.getClass == classOf[SparkException] && e.getCondition != null =>
        shown(e)(new SparkException(e.getCondition, _, e.getCause))
      case e: DeltaAnalysisException =>
        shown(e) { _ =>
          val values = e.getMessageParametersArray.map(OverlayPath.replacedIn)
          new DeltaAnalysisException(e.getCondition, values, Option(e.getCause))
        }
    }

  private def shown(failure: Throwable with SparkThrowable)(
      make: Map[String, String] => Throwable): Nothing = {
    val parameters = failure.getMessageParameters.asScala.toMap
    val shown = parameters.view.mapValues(OverlayPath.replacedIn).toMap
    if (shown == parameters) throw failure
    val other = make(shown)
    other.setStackTrace(failure.getStackTrace)
    throw other
  }
}
