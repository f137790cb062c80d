package io.lakestep

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.{ErrorClassesJsonReader, SparkThrowable}

/**
 * The one exception type of Lakestep: a condition of `lakestep-error-conditions.json`, its
 * parameters and an SQLSTATE. The message says what happened, where, and what to do next.
 */
class LakestepException(
    condition: String,
    parameters: Map[String, String],
    cause: Option[Throwable] = None)
    extends RuntimeException(Errors.message(condition, parameters), cause.orNull)
    with SparkThrowable {

  override def getCondition: String = condition

  override def getSqlState: String = Errors.sqlState(condition)

  override def getMessageParameters: JMap[String, String] = parameters.asJava
}

/** Error conditions: their texts live in JSON as Spark's and Delta's do. */
object Errors {

  private lazy val reader = new ErrorClassesJsonReader(
    Seq(getClass.getClassLoader.getResource("lakestep-error-conditions.json"))
  )

  def message(condition: String, parameters: Map[String, String]): String = {
    // Parameters that only `getMessageParameters` tells would be an error in Spark's own tests.
    val used = parameters.view.filterKeys(reader.getMessageParameters(condition).toSet).toMap
    s"[$condition] ${reader.getErrorMessage(condition, used)} SQLSTATE: ${sqlState(condition)}"
  }

  /** The last line of a condition's message: what to do about it. */
  def nextStep(condition: String): String =
    reader.getMessageTemplate(condition).linesIterator.toSeq.last

  def sqlState(condition: String): String = reader.getSqlState(condition)

  def apply(condition: String, parameters: (String, String)*): LakestepException =
    new LakestepException(condition, parameters.toMap)

  def caused(
      condition: String,
      cause: Throwable,
      parameters: (String, String)*): LakestepException =
    new LakestepException(condition, parameters.toMap, Option(cause))
}
