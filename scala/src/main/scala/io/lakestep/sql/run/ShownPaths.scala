package io.lakestep.sql.run

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
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

  /** What Spark throws when files cannot be read or written names them. */
  def inFailure[A](work: => A): A =
    try work
    catch {
      case e: SparkException if e.getClass == classOf[SparkException] && e.getCondition != null =>
        val parameters = e.getMessageParameters.asScala.toMap
        val shown = parameters.view.mapValues(OverlayPath.replacedIn).toMap
        if (shown == parameters) throw e
        val other = new SparkException(e.getCondition, shown, e.getCause)
        other.setStackTrace(e.getStackTrace)
        throw other
    }
}
