package io.lakestep.transaction

import java.net.URI

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SparkSession}

import org.apache.spark.sql.delta.lakestep.VersionFiles
import io.lakestep.Errors
import io.lakestep.commit.Holder
import io.lakestep.log.TableRef
import io.lakestep.overlay.{Chain, OverlayPath}

/** The data files of a table that somebody holds. */
final class HeldFiles(session: SparkSession, table: TableRef) {

  private val path = new Path(new URI(table.uri))

  /**
   * Those of the version that is held, by the copy of the log or by the log itself.
   *
   * @param base how their paths begin
   *
   * Condition: LAKESTEP_HELD_VERSION_UNREADABLE.
   */
  def data(holder: Holder, version: Long)(base: String): DataFrame = {
    val kept = holder.snapshot.flatMap(Databases.of(session).snapshots.kept(table, _)).map(_.copy)
    (kept.map(Some(_)).toSeq :+ None).flatMap(of(version, _, base)).headOption.getOrElse {
      throw Errors(
        "LAKESTEP_HELD_VERSION_UNREADABLE",
        "table" -> table.uri,
        "version" -> version.toString,
        "holder" -> holder.name
      )
    }
  }

  /** Those of a version that the log shows. */
  def data(version: Long)(base: String): Option[DataFrame] = of(version, None, base)

  /** Those that were removed since a time. */
  def removed(sinceMs: Long)(base: String): DataFrame =
    VersionFiles.removed(session, path, sinceMs, base)

  private def of(version: Long, kept: Option[String], base: String): Option[DataFrame] = {
    val state = OverlayPath(Chain(version, Vector.empty, kept), path).toPath
    VersionFiles.data(session, state, version, base)
  }

  /** How many files, and bytes, are held that the newest version does not have. */
  def count(holder: Holder, version: Long): (Long, Long) = {
    val base = path.toString
    val now = data(VersionFiles.head(session, path))(base).map(_.select("path"))
    val held = data(holder, version)(base)
    val sums = now.fold(held)(held.join(_, Seq("path"), "left_anti"))
      .selectExpr("count_if(bytes > 0)", "coalesce(sum(bytes), 0)").head()
    (sums.getLong(0), sums.getLong(1))
  }
}
