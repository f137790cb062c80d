package io.lakestep.sql.redirect

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{
  Alias, Attribute, AttributeReference, Expression, FileSourceMetadataAttribute, GetStructField,
  InputFileName, Literal, NamedExpression, RegExpReplace, UpdateFields, WithField
}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation}
import org.apache.spark.sql.types.StructType

import org.apache.spark.sql.delta.lakestep.DeltaScan
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.{InternalClones, SessionState, Transactions}

/**
 * Where a user's statement asks for the file of a row, it gets the file's own path and not that of
 * an overlay: `input_file_name()`, `_metadata` and its `file_path`. Delta's commands find files by
 * the same names, and theirs stay what they are.
 */
final case class BaseFileNames(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = Transactions.state(session) match {
    case SessionState.Open(transaction)
        if !transaction.isRunningStatement && !InternalClones.contains(session) =>
      plan.resolveOperatorsUpWithNewOutput {
        case Project(columns, child) if columns.exists(isMetadata) =>
          val (named, renamed) = columnsWith(columns)
          Project(named, child) -> renamed
        case aggregate: Aggregate if aggregate.aggregateExpressions.exists(isMetadata) =>
          val (named, renamed) = columnsWith(aggregate.aggregateExpressions)
          val grouped = aggregate.groupingExpressions.map(inExpression)
          aggregate.copy(groupingExpressions = grouped, aggregateExpressions = named) -> renamed
        case node => node.mapExpressions(inOperator) -> Nil
      }
    case _ => plan
  }

  /** An attribute by itself is one that the operator reads, or makes. */
  private def inOperator(expression: Expression): Expression = expression match {
    case attribute: Attribute => attribute
    case other => inExpression(other)
  }

  private def inExpression(expression: Expression): Expression = expression match {
    case name: InputFileName => base(name)
    case field: GetStructField if isMetadata(field.child) =>
      if (field.extractFieldName == FileFormat.FILE_PATH) base(field) else field
    case column: AttributeReference if isMetadata(column) => metadata(column)
    case other => other.mapChildren(inExpression)
  }

  /** A column that is `_metadata` itself becomes another one, and which one became which. */
  private def columnsWith(columns: Seq[NamedExpression])
      : (Seq[NamedExpression], Seq[(Attribute, Attribute)]) = {
    val named = columns.map {
      case column: AttributeReference if isMetadata(column) =>
        column -> Alias(metadata(column), column.name)()
      case other => other -> other.mapChildren(inExpression).asInstanceOf[NamedExpression]
    }
    named.map(_._2) -> named.collect { case (was: Attribute, is: Alias) => was -> is.toAttribute }
  }

  private def isMetadata(expression: Expression): Boolean = expression match {
    case a: AttributeReference => FileSourceMetadataAttribute.unapply(a).isDefined
    case _ => false
  }

  private def metadata(column: AttributeReference): Expression = column.dataType match {
    case fields: StructType if fields.fieldNames.contains(FileFormat.FILE_PATH) =>
      val path = GetStructField(column, fields.fieldIndex(FileFormat.FILE_PATH))
      UpdateFields(column, Seq(WithField(FileFormat.FILE_PATH, base(path))))
    case _ => column
  }

  private def base(path: Expression): Expression = {
    val overlay = s"^${OverlayPath.Scheme}://[^/]+/([^/]+)/"
    def replace(e: Expression, pattern: String, by: String) =
      new RegExpReplace(e, Literal(pattern), Literal(by))
    replace(replace(path, overlay + "_/", "$1:/"), overlay + "([^/]+)/", "$1://$2/")
  }
}

/**
 * The same for `inputFiles()` of a DataFrame. It asks the optimized plan, in which Delta has put what
 * lists the files of a scan; so this runs after Delta.
 */
final case class BaseInputFiles(session: SparkSession) extends Rule[LogicalPlan] {
  import BaseInputFiles._

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (Transactions.isOpen(session)) named(plan) else plan

  private def named(plan: LogicalPlan): LogicalPlan = plan.transformWithSubqueries {
    case scan @ DeltaScan(index: PreparedDeltaFileIndex) if OverlayPath.isOverlay(index.path) =>
      scan.relation match {
        case files: HadoopFsRelation if !files.options.contains(Named) =>
          // Delta calls both lists equal, and Spark keeps a plan that equals the new one.
          val options = files.options + (Named -> "true")
          val named = files.copy(location = new NamesBaseFiles(index), options = options)(
            files.sparkSession
          )
          scan.copy(relation = named)
        case _ => scan
      }
  }
}

object BaseInputFiles {
  private val Named = "lakestep.files"

  private final class NamesBaseFiles(index: PreparedDeltaFileIndex)
      extends PreparedDeltaFileIndex(
        index.spark,
        index.deltaLog,
        index.path,
        index.catalogTableOpt,
        index.preparedScan,
        index.versionScanned
      ) {

    override def inputFiles: Array[String] = super.inputFiles.map { file =>
      val path = new Path(file)
      if (OverlayPath.isOverlay(path)) OverlayPath.parse(path).base.toString else file
    }
  }
}
