package org.apache.spark.sql.delta.lakestep

import java.net.URI
import java.util.concurrent.atomic.AtomicReference

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import io.lakestep.log.{
  Action, AddFile, DomainMetadata, LiveFile, MetaData, Protocol, StateReader, TableRef, TableState
}

/**
 * Reads the state of a table through Delta, checkpoints included. Needed only where commits are
 * gone from the log, and for the header of a table whose metadata a transaction changes.
 *
 * Reads in a session of its own: that of the user may be in the middle of its COMMIT, where no
 * statement of it is let through.
 */
object DeltaStateReader extends StateReader {

  /** The session that reads, one for each Spark that this process has started. */
  private val reading = new AtomicReference(Option.empty[SparkSession])

  /** Settings by which the user's session reaches its storage. */
  private val Settings = Seq("fs.", "spark.hadoop.", "spark.databricks.delta.")

  private def session(): SparkSession = {
    val active = SparkSession.active
    val own = reading.updateAndGet { known =>
      known.filter(_.sparkContext eq active.sparkContext).orElse(Some(active.newSession()))
    }
    own.foreach { s =>
      active.conf.getAll.filter(e => Settings.exists(e._1.startsWith)).foreach {
        case (key, value) =>
          if (!s.conf.getOption(key).contains(value)) s.conf.set(key, value)
      }
    }
    own.getOrElse(active)
  }

  override def stateAt(table: TableRef, version: Long): TableState =
    new Snapshot(new DeltaState(session(), new Path(new URI(table.uri)), version))

  private final class Snapshot(state: DeltaState) extends TableState {

    override def version: Long = state.version

    override def liveFiles(paths: Set[String]): Map[String, LiveFile] =
      state.addFiles(paths).map(parsed).collect { case a: AddFile => a.path -> LiveFile(a) }.toMap

    override def txnVersion(appId: String): Option[Long] = state.txnVersion(appId)

    override lazy val metaData: MetaData =
      parsed(state.metadata) match {
        case m: MetaData => m
        case other => throw new IllegalStateException(s"Delta's metadata reads as ${other.kind}")
      }

    override lazy val protocol: Protocol =
      parsed(state.protocol) match {
        case p: Protocol => p
        case other => throw new IllegalStateException(s"Delta's protocol reads as ${other.kind}")
      }

    override def domain(name: String): Option[DomainMetadata] =
      state.domain(name).map(parsed).collect { case d: DomainMetadata => d }

    private def parsed(line: String): Action = Action.parse(line)
  }
}
