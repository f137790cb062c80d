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
import io.lakestep.commit.AsOf

/**
 * Reads tables in a version of the database: `t VERSION AS OF 'db:42'` or `'snapshot:eoy'`, `FOR SYSTEM_VERSION
 * AS OF`, and the option `lakestepVersion` of a reader: `42` or `snapshot:eoy`. It becomes the version of the table, which Delta reads.
 */
final case class ReadAsOf(session: SparkSession) extends Rule[LogicalPlan] {
  import ReadAsOf._

  override def apply(plan: LogicalPlan): LogicalPlan = {
    // Only a query that asks for an earlier version is looked through for all of its tables.
    lazy val past = {
      val tables = new PastTables(session)
      tables.ahead(plan.collectWithSubqueries {
        case Asked(relation, asOf) if isTable(relation) => relation.multipartIdentifier -> asOf
      })
      tables
    }
    AnalysisHelper.allowInvokingTransformsInAnalyzer {
      plan.transformDownWithSubqueries {
        case Asked(relation, asOf) => at(relation, asOf, past)
        case source: UnresolvedDataSource
            if source.options.contains(VersionOption) &&
              DeltaSourceUtils.isDeltaDataSourceName(source.format) =>
          val path = onePath(source)
          val table = past(Seq("delta", path), AsOf.asked(source.options(VersionOption)))
          val others = source.options.originalMap.filterNot { case (key, _) =>
            key.equalsIgnoreCase(VersionOption) || key.equalsIgnoreCase("path")
          }
          RedirectTables.done(source.copy(
            paths = Seq(table.name.last),
            options = CaseInsensitiveMap(others + ("versionAsOf" -> table.version.toString))
          ))
      }
    }
  }

  private def isTable(relation: UnresolvedRelation) = !relation.isStreaming &&
    !session.sessionState.catalog.isTempView(relation.multipartIdentifier)

  private def onePath(source: UnresolvedDataSource): String = {
    def refuse(reason: String) = throw Errors(
      "LAKESTEP_AS_OF_NOT_FOUND",
      "asked" -> AsOf.asked(source.options(VersionOption)).toString,
      "reason" -> reason
    )
    if (source.isStreaming) refuse(ReadAsOf.IsStream)
    if (Seq("versionAsOf", "timestampAsOf").exists(source.options.contains))
      refuse("versionAsOf or timestampAsOf is given, too")
    (source.paths ++ source.options.get("path")).distinct match {
      case Seq(path) => path
      case Seq() => refuse("there is no path")
      case _ => refuse("there are several paths")
    }
  }

  private def at(
      relation: UnresolvedRelation,
      asOf: AsOf,
      tables: => PastTables): LogicalPlan =
    if (relation.isStreaming)
      throw Errors(
        "LAKESTEP_AS_OF_NOT_FOUND",
        "asked" -> asOf.toString,
        "reason" -> ReadAsOf.IsStream
      )
    else if (session.sessionState.catalog.isTempView(relation.multipartIdentifier))
      // Spark says that it cannot.
      RelationTimeTravel(relation, None, Some(asOf.toString))
    else {
      val past = tables(relation.multipartIdentifier, asOf)
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

  private val IsStream = "a stream reads what is new"

  private def option(options: CaseInsensitiveStringMap) = Option(options.get(VersionOption))

  /** A table that is asked for in a version of the database. */
  private object Asked {
    def unapply(plan: LogicalPlan): Option[(UnresolvedRelation, AsOf)] = plan match {
      case travel: RelationTimeTravel =>
        for {
          relation <- Some(travel.relation).collect { case r: UnresolvedRelation => r }
          asOf <- travel.version.flatMap(AsOf.inQuery)
        } yield relation -> asOf
      case relation: UnresolvedRelation =>
        option(relation.options).map { version =>
          val others = relation.options.asCaseSensitiveMap.asScala
            .filterNot(_._1.equalsIgnoreCase(VersionOption))
          val plain = new CaseInsensitiveStringMap(others.asJava)
          relation.copy(options = plain) -> AsOf.asked(version)
        }
      case _ => None
    }
  }
}
