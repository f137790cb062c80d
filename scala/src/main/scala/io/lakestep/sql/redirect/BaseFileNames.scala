package io.lakestep.sql.redirect

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{
  AttributeReference, Expression, GetStructField, InputFileName, Literal, RegExpReplace
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.FileFormat

import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.{InternalClones, SessionState, Transactions}

/**
 * Where a user's statement asks for the file of a row, it gets the file's own path and not that of
 * an overlay: `input_file_name()`, `_metadata.file_path`. Delta's commands find files by the same
 * names, and theirs stay what they are.
 */
final case class BaseFileNames(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = Transactions.state(session) match {
    case SessionState.Open(transaction)
        if !transaction.isRunningStatement && !InternalClones.contains(session) =>
      plan.resolveOperatorsUp { case node =>
        node.transformExpressionsUp {
          case name: InputFileName => base(name)
          case path: GetStructField if isFilePath(path) => base(path)
        }
      }
    case _ => plan
  }

  private def isFilePath(field: GetStructField): Boolean = field.child match {
    case a: AttributeReference =>
      a.name == FileFormat.METADATA_NAME && field.extractFieldName == FileFormat.FILE_PATH
    case _ => false
  }

  private def base(path: Expression): Expression = {
    val overlay = s"^${OverlayPath.Scheme}://[^/]+/([^/]+)/"
    def replace(e: Expression, pattern: String, by: String) =
      new RegExpReplace(e, Literal(pattern), Literal(by))
    replace(replace(path, overlay + "_/", "$1:/"), overlay + "([^/]+)/", "$1://$2/")
  }
}
