package io.lakestep.transaction

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{
  AutoCompaction, CatalogUpdate, DeltaHousekeeping, SparkInternals
}
import io.lakestep.commit.CommitOutcome
import io.lakestep.log.LogCommit
import io.lakestep.storage.StoreKind

/**
 * What Delta does after each commit, done once for the published commits of a transaction, in the
 * thread of its COMMIT: cached data, checkpoints, the metastore's copy of a schema, auto compaction;
 * and checksums, for which COMMIT does not wait. The transaction is committed whatever happens here; failures are logged.
 *
 * Tables with UniForm or a symlink manifest, of which Delta makes hooks, too, are not written by
 * transactions.
 */
private[transaction] object AfterCommit {

  /** A table that was published, and in which versions. */
  private final case class Published(
      table: TransactionTable,
      versions: Vector[Long],
      put: Vector[LogCommit])

  /**
   * @param alone runs work as a transaction of its own, with this name, in this session
   */
  def apply(
      session: SparkSession,
      transaction: Transaction,
      done: CommitOutcome.Committed)(
      alone: (SparkSession, String) => (Transaction => Unit) => Unit): Unit = {
    val tables =
      for (table <- transaction.touched; versions <- done.published.get(table.ref))
        yield Published(table, versions, done.put.getOrElse(table.ref, Vector.empty))
    for (t <- tables) DeltaHousekeeping.refresh(session, t.table.base)
    putChecksums(session, transaction, tables)
    putCheckpoints(session, transaction, tables)
    if (CatalogUpdate.isOn(session))
      for (t <- tables; name <- t.table.identifier if transaction.names.isOf(name, t.table.base))
        DeltaHousekeeping.logged(s"The metastore's copy of the schema of $name is not up to date")(
          CatalogUpdate(session, name, t.table.base)
        )
    for (t <- tables; written <- t.table.mayCompact)
      DeltaHousekeeping.logged(s"No auto compaction of ${t.table.name}")(
        AutoCompaction(session, t.table.base, written)(compact(session, t.table)(alone))
      )
  }

  /** Whoever reads a table in this process waits for its checksum, where that is only to be put. */
  private def putChecksums(
      session: SparkSession,
      transaction: Transaction,
      tables: Seq[Published]): Unit = {
    val stores = Databases.quickStores(session, transaction.database)
    val observer = transaction.database.observer
    val id = transaction.id
    for (Published(table, versions, put) <- tables) {
      val (ref, base) = (table.ref, table.base)
      def after(isAwaited: Boolean)(work: => Unit): Unit =
        Databases.background.inOrder(ref, isAwaited)(work)
      val work =
        DeltaHousekeeping.checksums(session, stores, base, table.snapshot, id, versions, put)
      def slow(): Unit = {
        work.slow()
        observer.checksumsPut(ref)
      }
      work.quick match {
        case None =>
          after(isAwaited = false) {
            observer.beforeChecksums(ref)
            slow()
          }
        case Some(quick) =>
          val isPut = new AtomicBoolean
          after(isAwaited = true) {
            observer.beforeChecksums(ref)
            isPut.set(quick())
            if (isPut.get) observer.checksumsPut(ref)
          }
          // Not awaited: whoever waits for the checksum may hold the log that this reads.
          after(isAwaited = false) {
            if (!isPut.get) slow()
            // Where a request costs next to nothing, this takes more from who goes on than it gives.
            if (!StoreKind.of(base).contains(StoreKind.Local))
              DeltaHousekeeping.learn(session, base)
          }
      }
    }
  }

  private def putCheckpoints(
      session: SparkSession,
      transaction: Transaction,
      tables: Seq[Published]): Unit = {
    def keep(files: Seq[Path]): Unit =
      transaction.database.keep(files.map(_.toUri.toString): _*)
    for (t <- tables; interval <- t.table.checkpointInterval)
      DeltaHousekeeping.checkpoint(
        session,
        t.table.base,
        t.versions,
        interval,
        keep,
        Autocommit.needs(session, transaction.database, t.table.ref, Some(transaction.id))
      )
  }

  private def compact(session: SparkSession, table: TransactionTable)(
      alone: (SparkSession, String) => (Transaction => Unit) => Unit)(
      rewrite: (SparkSession, Path) => Unit): Unit = {
    val own = SparkInternals.cloned(session)
    Transactions.seeAs(own, session)
    SparkInternals.within(own) {
      alone(own, "auto compaction") { transaction =>
        for (overlay <- transaction.overlayOf(table.base, own.sessionState.newHadoopConf()))
          transaction.runStatement(DeltaHousekeeping.forget(own, _))(
            StagingWatch.during(transaction)(rewrite(own, overlay))
          )
      }
    }
    Transactions.seeAs(session, own)
  }
}
