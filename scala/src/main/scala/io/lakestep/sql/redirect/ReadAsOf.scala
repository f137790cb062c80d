package io.lakestep.sql.redirect

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.AliasIdentifier
import org.apache.spark.sql.catalyst.analysis.{RelationTimeTravel, UnresolvedRelation}
import org.apache.spark.sql.catalyst.plans.logical.{
  AnalysisHelper, LogicalPlan, SubqueryAlias, UnresolvedDataSource
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.delta.sources.DeltaSourceUtils
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.lakestep.Errors
import io.lakestep.catalog.PastTables

/**
 * Reads tables in a version of the database: `t VERSION AS OF 'db:42'`, `FOR SYSTEM_VERSION AS OF`, and the
 * option `lakestepVersion` of a reader. It becomes the version of the table, which Delta reads.
 */
final case class ReadAsOf(session: SparkSession) extends Rule[LogicalPlan] {
  import ReadAsOf._

  override def apply(plan: LogicalPlan): LogicalPlan =
    AnalysisHelper.allowInvokingTransformsInAnalyzer {
      plan.transformDownWithSubqueries {
        case travel: RelationTimeTravel =>
          (travel.relation, travel.version.flatMap(databaseVersion)) match {
            case (relation: UnresolvedRelation, Some(number)) => at(relation, number)
            case _ => travel
          }
        case relation: UnresolvedRelation if option(relation.options).isDefined =>
          val others = relation.options.asCaseSensitiveMap.asScala
            .filterNot(_._1.equalsIgnoreCase(VersionOption))
          at(
            relation.copy(options = new CaseInsensitiveStringMap(others.asJava)),
            number(option(relation.options).mkString)
          )
        case source: UnresolvedDataSource
            if source.options.contains(VersionOption) &&
              DeltaSourceUtils.isDeltaDataSourceName(source.format) =>
          val path = source.paths.headOption.orElse(source.options.get("path")).getOrElse("")
          val asked = number(source.options(VersionOption))
          val past = PastTables(session, Seq("delta", path), asked)
          val others = source.options.originalMap.filterNot(_._1.equalsIgnoreCase(VersionOption))
          source.copy(options =
            CaseInsensitiveMap(others + ("versionAsOf" -> past.version.toString))
          )
      }
    }

  private def at(relation: UnresolvedRelation, number: Long): LogicalPlan =
    if (relation.isStreaming)
      throw Errors(
        "LAKESTEP_AS_OF_NOT_FOUND",
        "asked" -> s"VERSION $number",
        "reason" -> "a stream reads what is new"
      )
    else if (session.sessionState.catalog.isTempView(relation.multipartIdentifier))
      // Spark says that it cannot.
      RelationTimeTravel(relation, None, Some(number.toString))
    else {
      val past = PastTables(session, relation.multipartIdentifier, number)
      val travel = RelationTimeTravel(
        relation.copy(multipartIdentifier = past.name),
        None,
        Some(past.version.toString)
      )
      past.asked.fold[LogicalPlan](travel) { name =>
        SubqueryAlias(AliasIdentifier(name.last, name.init), travel)
      }
    }
}

object ReadAsOf {

  /** The option of a DataFrameReader. */
  val VersionOption = "lakestepVersion"

  private val Prefix = "db:"

  private def option(options: CaseInsensitiveStringMap) = Option(options.get(VersionOption))

  /** The number of a version of the database, where it is one and not a table's. */
  private def databaseVersion(text: String): Option[Long] =
    Option.when(text.toLowerCase.startsWith(Prefix))(number(text.drop(Prefix.length)))

  private def number(text: String): Long =
    text.trim.toLongOption.getOrElse(throw Errors("LAKESTEP_AS_OF_INVALID", "asked" -> text))
}
