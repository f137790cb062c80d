package io.lakestep.transaction

import java.net.URI

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.VersionFiles
import io.lakestep.commit.Holder
import io.lakestep.overlay.{Chain, OverlayPath}

/** What named snapshots hold of a table. */
object HeldFiles {

  /** The table as a snapshot reads it: by the copy of its log, if there is one. */
  def state(session: SparkSession, held: Holder.OfSnapshot): Path = {
    val kept = Databases.of(session).snapshots.kept(held.snapshot, held.table).map(_.copy)
    OverlayPath(Chain(held.table.version, Vector.empty, kept), base(held)).toPath
  }

  /** How many files, and bytes, it holds that the table has no more. */
  def count(session: SparkSession, held: Holder.OfSnapshot): (Long, Long) = {
    val path = base(held).toString
    val now = VersionFiles.data(session, base(held), path)
    val sums = VersionFiles.data(session, state(session, held), path)
      .join(now.select("path"), Seq("path"), "left_anti")
      .selectExpr("count_if(bytes > 0)", "coalesce(sum(bytes), 0)").head()
    (sums.getLong(0), sums.getLong(1))
  }

  private def base(held: Holder.OfSnapshot) = new Path(new URI(held.table.path.uri))
}
