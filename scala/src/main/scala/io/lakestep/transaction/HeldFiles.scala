package io.lakestep.transaction

import java.net.URI

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SparkSession}

import org.apache.spark.sql.delta.lakestep.VersionFiles
import io.lakestep.Errors
import io.lakestep.commit.Holder
import io.lakestep.log.TableRef
import io.lakestep.overlay.{Chain, OverlayPath}

/**
 * What is held of a table that its newest version does not have.
 *
 * @param hasDeletedRows whether rows may be among it that the newest version does not have: whether there is
 *                       a data file that is not there any more, or has another deletion vector there
 */
final case class Held(files: Long, bytes: Long, hasDeletedRows: Boolean)

/** The data files of a table that somebody holds. */
final class HeldFiles(session: SparkSession, table: TableRef) {

  private val path = new Path(new URI(table.uri))

  private lazy val newest = data(VersionFiles.head(session, path))(path.toString)

  /**
   * Those of the version that is held, by the copy of the log, by the log itself, or by the copy that was
   * made for another snapshot.
   *
   * @param base how their paths begin
   *
   * Condition: LAKESTEP_HELD_VERSION_UNREADABLE.
   */
  def data(holder: Holder, version: Long)(base: String): DataFrame = {
    val snapshots = Databases.of(session).snapshots
    def own = holder.snapshot.flatMap(snapshots.kept(table, _)).map(k => Option(k.copy))
    def others = snapshots.copies(table, version).map(k => Option(k.copy))
    val logs = own.iterator ++ Iterator(None) ++ others.iterator
    logs.flatMap(of(version, _, base)).nextOption().getOrElse {
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

  /** Condition: as `data`. */
  def count(holder: Holder, version: Long): Held = count(data(holder, version)(_: String))

  /** Of those that were removed since a time. */
  def countRemoved(sinceMs: Long): Held = count(removed(sinceMs)(_: String))

  private def count(held: String => DataFrame): Held = {
    val all = held(path.toString)
    val now = newest.getOrElse(all.limit(0))
    val counts = all.where("bytes > 0").dropDuplicates("path").as("held")
      .join(now.where("bytes > 0").as("now"), Seq("path"), "left")
      .selectExpr(
        "count_if(now.bytes IS NULL)",
        "coalesce(sum(CASE WHEN now.bytes IS NULL THEN held.bytes END), 0)",
        "count_if(now.vector IS DISTINCT FROM held.vector)"
      ).head()
    Held(counts.getLong(0), counts.getLong(1), counts.getLong(2) > 0)
  }
}
