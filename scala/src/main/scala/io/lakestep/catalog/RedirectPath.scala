package io.lakestep.catalog

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.DeltaTableUtils

import io.lakestep.LakestepException
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.Transactions

/** A path that a user typed, as the open transaction sees it. */
object RedirectPath {

  /** As `apply`, for a statement that may make the table: also where there is none. */
  def ofTarget(
      session: SparkSession,
      path: String,
      fsOptions: Map[String, String] = Map.empty): Option[String] =
    found(session, path, fsOptions).orElse {
      for {
        transaction <- Transactions.open(session)
        if !transaction.isReadOnly && !OverlayPath.isOverlay(path)
        conf = session.sessionState.newHadoopConfWithOptions(fsOptions)
      } yield transaction.overlayOfNew(new Path(path), conf).toString
    }

  /** Where others have staged a table, or left its folder, there is none yet. */
  private def found(session: SparkSession, path: String, options: Map[String, String]) =
    try apply(session, path, options).filter(isTable(session, _))
    catch {
      case e: LakestepException if e.getCondition == "LAKESTEP_NOT_A_TABLE" => None
    }

  /** A folder inside a table may be a table of its own. */
  private def isTable(session: SparkSession, overlay: String): Boolean =
    Transactions.open(session).flatMap(_.table(new Path(overlay)))
      .forall(_.overlay == new Path(overlay))

  /**
   * The overlay of the Delta table that `path` lies in, with what follows the table's root (a
   * partition, `@v3`) kept. None outside a transaction, for a path without a Delta log, and for a
   * path that is an overlay already.
   */
  def apply(
      session: SparkSession,
      path: String,
      fsOptions: Map[String, String] = Map.empty): Option[String] =
    for {
      transaction <- Transactions.open(session)
      if !OverlayPath.isOverlay(path)
      conf = session.sessionState.newHadoopConfWithOptions(fsOptions)
      plain = DeltaTableUtils.extractIfPathContainsTimeTravel(session, path, fsOptions)._1
      // As Hadoop writes it: `file:///t/` and `file:/t` are one path.
      written = new Path(plain)
      root <- DeltaTableUtils.findDeltaTableRoot(session, written, fsOptions)
      overlay <- transaction.overlayOf(root, conf)
    } yield overlay.toString + written.toString.stripPrefix(root.toString) + path.stripPrefix(plain)
}
