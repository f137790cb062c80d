package io.lakestep.session

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import io.lakestep.delta.TablePath

/**
 * Step 12: what statements of a session without a transaction owe the transactions of others. A table
 * that no transaction has written is left alone, also where its store permits none.
 */
object Autocommit {

  /** Before a statement writes: its tables hold no unfinished entry any more. */
  def beforeWrite(session: SparkSession, tables: Seq[Path]): Unit =
    bound(session, tables).values.foreach(uri => Databases.of(session).helpBeforeWrite(uri))

  /**
   * Versions of tables that belong to one snapshot, out of the versions that a query has loaded.
   *
   * @return nothing for a table that has no part in transactions of this timeline
   */
  def consistent(session: SparkSession, tables: Seq[Path])(
      seen: Path => Long): Map[Path, Long] = {
    val uris = bound(session, tables)
    if (uris.isEmpty) Map.empty
    else {
      val versions = uris.toSeq.groupMapReduce(_._2)(t => seen(t._1))(math.min)
      val found = Databases.of(session).consistent(versions)
      uris.flatMap { case (table, uri) => found.get(uri).map(table -> _) }
    }
  }

  /** The tables with a binding, by the path that stores know them by. */
  private def bound(session: SparkSession, tables: Seq[Path]): Map[Path, String] = {
    lazy val conf: Configuration = session.sessionState.newHadoopConf()
    tables.distinct.flatMap { table =>
      val base = BasePath.uri(BasePath.canonical(table, conf))
      val binding = new Path(new java.net.URI(TablePath.binding(base)))
      Option.when(binding.getFileSystem(conf).exists(binding))(table -> base)
    }.toMap
  }
}
