package io.lakestep.sql.run

import java.net.URI

import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkException
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.files.{TahoeFileIndex, TahoeLogFileIndex}
import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper

import io.lakestep.Errors
import io.lakestep.overlay.OverlayPath
import io.lakestep.storage.CanonicalPath
import io.lakestep.transaction.{BasePath, Databases, Transactions}

/**
 * A data file that a query of an older version needs, and that is gone: which table and version that is, and
 * which snapshot keeps it. Spark's own error tells to refresh the table, which helps nobody here.
 *
 * What is read once the plan has been executed (`toPandas`, a write of another format) gets Spark's error.
 */
private[run] object LostFiles extends AdaptiveSparkPlanHelper {

  /** @param plan what is executed */
  def explained[A](session: SparkSession, plan: SparkPlan)(work: => A): A =
    try work
    catch {
      case lost: SparkException if lost.getCondition == "FAILED_READ_FILE.FILE_NOT_EXIST" =>
        throw Try(explanation(session, plan, lost)).toOption.flatten.getOrElse(lost)
    }

  private def explanation(
      session: SparkSession,
      plan: SparkPlan,
      lost: SparkException): Option[Throwable] = {
    val file = OverlayPath.baseOf(new Path(new URI(lost.getMessageParameters.get("path"))))
    for ((table, version) <- scans(session, plan, file).headOption) yield {
      val ref = BasePath.ref(CanonicalPath(table, session.sessionState.newHadoopConf()))
      val snapshots = Databases.of(session).timeline.snapshots
      val same = snapshots.all().find(s => !s.isHold && s.table(ref).exists(_.version == version))
      Errors.caused(
        "LAKESTEP_DATA_FILE_GONE",
        lost,
        "file" -> file.toString,
        "table" -> table.toString,
        "version" -> version.toString,
        "reason" -> same.fold(snapshots.keeper(ref)((_, held) => held.version - version)) {
          reads => s"snapshot ${reads.name} reads it, too, so no session with Lakestep did"
        }
      )
    }
  }

  /** Tables that are read at a version that nobody changes any more, where that has the file. */
  private def scans(session: SparkSession, plan: SparkPlan, file: Path): Seq[(Path, Long)] =
    collectWithSubqueries(plan) {
      case scan: FileSourceScanExec =>
        scan.relation.location match {
          case index: TahoeFileIndex if has(index, file) =>
            versionOf(session, index).map(OverlayPath.baseOf(index.path) -> _)
          case _ => None
        }
    }.flatten

  /** The name of a data file is no other's. */
  private def has(index: TahoeFileIndex, file: Path): Boolean = index match {
    case prepared: PreparedDeltaFileIndex =>
      prepared.preparedScan.files.exists(f => new Path(new URI(f.path)).getName == file.getName)
    case _ => isBelow(file, OverlayPath.baseOf(index.path))
  }

  private def versionOf(session: SparkSession, index: TahoeFileIndex): Option[Long] = index match {
    // What a transaction has staged is of no version yet.
    case _ if OverlayPath.isOverlay(index.path) =>
      val chain = OverlayPath.parse(index.path).chain
      Option.when(chain.isReadOnly || Transactions.isReadOnly(session)) {
        named(index).getOrElse(chain.pin)
      }
    case _ => named(index)
  }

  /** Where the query names it. */
  private def named(index: TahoeFileIndex): Option[Long] = index match {
    case prepared: PreparedDeltaFileIndex => prepared.versionScanned
    case log: TahoeLogFileIndex if log.isTimeTravelQuery => Some(log.getSnapshot.version)
    case _ => None
  }

  private def isBelow(file: Path, table: Path): Boolean =
    file.toString.startsWith(table.toString.stripSuffix("/") + "/")
}
