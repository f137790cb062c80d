package io.lakestep.transaction

import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{DeltaFence, LogCleanup}
import io.lakestep.{LakestepConf, LakestepException}
import io.lakestep.commit.{Database, ReadNames}
import io.lakestep.log.TableRef
import io.lakestep.timeline.NameKey
import io.lakestep.storage.{CanonicalPath, HadoopStores, LocalStore}

/**
 * Step 12: what statements of a session without a transaction owe the transactions of others. A table
 * that no transaction has written is left alone, also where its store permits none.
 */
object Autocommit {

  /**
   * Before a statement writes: its tables hold no unfinished entry any more.
   *
   * @return whether one of them did
   */
  def beforeWrite(session: SparkSession, tables: Seq[Path]): Boolean = {
    val conf = session.sessionState.newHadoopConf()
    tables.distinct.map(ref(_, conf)).filter(isBound(_, conf))
      .map(Databases.of(session).helpBeforeWrite(_)).contains(true)
  }

  /**
   * Before a statement changes names: the metastore has what transactions have made of them, but for
   * those that are given.
   */
  def beforeNames(session: SparkSession): Set[NameKey] =
    try Databases.of(session).makeNames()
    catch {
      // As for a query, where nothing is known of the timeline.
      case NonFatal(_) => Set.empty
    }

  /**
   * Versions of tables that belong to one snapshot, none older than what the session has met.
   *
   * Where the session itself has committed above a part of an unfinished entry, the entry is finished.
   * Condition: LAKESTEP_SNAPSHOT_BEHIND_SESSION, if it cannot be.
   *
   * @param seen the versions that a query has loaded before this call. Only then does a table without
   *             a binding hold no commit of ours.
   * @param names what the query has met as the names of its tables
   */
  def consistent(
      session: SparkSession,
      seen: Map[Path, Long],
      names: Option[ReadNames]): Map[Path, Long] = {
    val conf = session.sessionState.newHadoopConf()
    val refs = seen.keySet.map(table => table -> ref(table, conf)).toMap
    val loaded = seen.groupMapReduce(t => refs(t._1))(_._2)(math.min)
    val versions =
      if (loaded.keys.exists(isBound(_, conf))) consistent(session, loaded, names, loaded.size)
      else loaded
    Transactions.saw(session, versions)
    refs.view.mapValues(versions).toMap
  }

  @tailrec
  private def consistent(
      session: SparkSession,
      loaded: Map[TableRef, Long],
      names: Option[ReadNames],
      helps: Int): Map[TableRef, Long] = {
    val database = Databases.of(session)
    val found =
      try Right(database.consistent(loaded, Transactions.seenVersions(session), names))
      catch {
        case behind: LakestepException
            if helps > 0 && behind.getCondition == "LAKESTEP_SNAPSHOT_BEHIND_SESSION" =>
          Left(behind)
      }
    found match {
      case Right(versions) => versions
      case Left(behind) =>
        try database.helpBeforeWrite(TableRef(behind.getMessageParameters.get("table")))
        catch {
          case NonFatal(failure) =>
            behind.addSuppressed(failure)
            throw behind
        }
        consistent(session, loaded, names, helps - 1)
    }
  }

  /** After a statement of the session has committed to a table. */
  def committed(session: SparkSession, table: Path, version: Long): Unit =
    Transactions.saw(session, Seq(ref(table, session.sessionState.newHadoopConf()) -> version))

  /** What a clean-up of the log has to leave after that, if a transaction has written the table. */
  def needs(session: SparkSession, table: Path): Option[LogCleanup.Needs] = {
    val conf = session.sessionState.newHadoopConf()
    Some(ref(table, conf)).filter(isBound(_, conf))
      .map(needs(session, Databases.of(session), _, own = None))
  }

  /** @param own the transaction that asks, which needs nothing any more */
  private[transaction] def needs(
      session: SparkSession,
      database: Database,
      table: TableRef,
      own: Option[String]): LogCleanup.Needs =
    LogCleanup.Needs(
      LakestepConf.undoMs(session.conf.getOption),
      () => database.snapshots.oldestNeeded(table, own)
    )

  /**
   * Whether the table takes no commits but those of transactions. Where that is unknown Delta's
   * transaction meets the feature.
   *
   * @param isLoaded whether the analysis of the statement has loaded the table
   */
  def isFenced(session: SparkSession, table: Path, isLoaded: Boolean): Boolean =
    Try {
      if (isLoaded) DeltaFence.isOn(session, table)
      else {
        val conf = session.sessionState.newHadoopConf()
        isBound(ref(table, conf), conf) && DeltaFence.isOnNow(session, table)
      }
    }.getOrElse(false)

  /** Whether a transaction, of whatever timeline, has written a table. */
  def isBound(session: SparkSession, table: Path): Boolean = {
    val conf = session.sessionState.newHadoopConf()
    isBound(ref(table, conf), conf)
  }

  /** The path that stores know a table by. */
  private def ref(table: Path, conf: Configuration): TableRef =
    BasePath.ref(CanonicalPath(table, conf))

  /** Whether the table has been bound: if it is not any more, its binding is read in vain. */
  private def isBound(table: TableRef, conf: Configuration): Boolean = bound.contains(table) || {
    val binding = new Path(new java.net.URI(table.binding))
    // Hadoop's local file system takes what nobody may look at for absent.
    val isThere =
      if (binding.toUri.getScheme == "file") new LocalStore().exists(binding.toUri.toString)
      else HadoopStores.hasFile(binding.getFileSystem(conf), binding)
    if (isThere) bound.add(table)
    isThere
  }

  private val bound = ConcurrentHashMap.newKeySet[TableRef]
}
