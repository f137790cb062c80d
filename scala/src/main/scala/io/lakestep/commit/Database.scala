package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.{Clock, Ids}
import io.lakestep.log.{DeletionVectors, StateReader, TableRef}
import io.lakestep.storage.ObjectStores
import io.lakestep.timeline.{
  AbortEntry, Aborting, AppliedBatch, AtOnce, CommitEntry, Completed, Conflict, DroppedTable,
  EntryStatus, NameChange, NameKey, NamedObject, Purge, Timeline, TimelineEntry
}

/**
 * A database: the transactions over all tables that belong to one timeline.
 *
 * Any number of threads may use one; there is no lock, and an open transaction never delays the
 * COMMIT of another. Everything that counts is done by the calling thread and the publish executor;
 * what may fail without harm follows, where `options` say.
 */
final class Database private[lakestep] (
    val timeline: Timeline,
    stores: ObjectStores,
    states: StateReader,
    vectors: DeletionVectors,
    clock: Clock,
    ids: Ids,
    private[lakestep] val observer: CommitSteps,
    options: DatabaseOptions,
    safeguards: Safeguards) {

  private val env =
    new Environment(timeline, stores, states, vectors, clock, ids, observer, options, safeguards)
  private val bindings =
    new Bindings(stores, () => timeline.existingId, ids, observer, safeguards, env.keep(_))
  private val lateNames: LateNames = new LateNames(env, names(_, _, _))
  private lazy val names: Names = new Names(env, lateNames)
  private val finish = new Finish(env, names)
  private val pins = new Pins(env, bindings)
  private val droppedVacuum = new DroppedVacuum(env)
  private val helping = new Helping(env, finish, names)
  private val begins = new Begin(env, helping, names, lateNames)
  private val reruns = new Reruns(env, pins, helping)
  private val consistentRead = new ConsistentRead(env, pins, names)
  private val aborts = new Aborts(env)
  private val files = new StagedFiles(env)
  private val commits = new Commit(env, bindings, finish, names)
  val snapshots: Snapshots = new Snapshots(env, bindings, pins, helping)
  val reverts: Reverts = new Reverts(env)

  /** A new one each time. */
  def verification: Verification = new Verification(env)

  /** The folder of the timeline; it tells databases of one process apart. */
  def root: String = timeline.root

  /**
   * Step 2: a transaction that reads the longest prefix of finished entries.
   *
   * Unless it is READ ONLY it first helps what is unfinished, so it sees every COMMIT that had
   * returned, anywhere, before this call; an entry that this client cannot finish is left out.
   * READ ONLY puts nothing anywhere. Conditions: LAKESTEP_SNAPSHOT_BEHIND_DATABASE when the prefix is
   * older than `notBefore`; LAKESTEP_AS_OF_NOT_FOUND.
   */
  def begin(request: BeginRequest): BegunTransaction = begins(request)

  /**
   * Step 3: the version of the table that the transaction reads; see `Pins`.
   *
   * Asking again may give another answer: the caller keeps the first.
   *
   * @param notBelow newest version that this session has read or written, -1 for none
   */
  def pin(txn: BegunTransaction, tablePath: TableRef, notBelow: Long): Long =
    pinned(txn, tablePath, notBelow).version

  /** As `pin`, with what tells the version from that of another table at the same path. */
  def pinned(txn: BegunTransaction, tablePath: TableRef, notBelow: Long): Pin =
    pins(txn.readPoint, tablePath, notBelow, txn.id)

  /** Whether the table that was pinned is still at its path, as far as its log tells. */
  def isThere(tablePath: TableRef, pin: Pin): Boolean = pin.version < 0 || {
    val tail = env.log(tablePath).tail(pin.version)
    def binding = Bindings.read(stores, tablePath).map(_.log)
    // Where the commit file was cleaned up before the pin, only the binding can tell.
    tail.head.exists(_ >= pin.version) && pin.isIn(tail) &&
    (pin.slot.isDefined || pin.isOf(binding))
  }

  /**
   * Step 13: where a transaction goes on whose COMMIT met a conflict before the order point. The
   * statements before `statement` read and staged nothing but what the snapshot of now has, too.
   *
   * None when the conflict is over no table of the transaction, so that it has ended. Stages and
   * removes nothing.
   */
  def rerun(txn: BegunTransaction, touched: Seq[FirstTouch], conflict: Conflict): Option[Rerun] =
    reruns(txn, touched, conflict)

  /**
   * Versions of tables that belong to one snapshot, for a query outside a transaction: no commit of
   * ours that is not finished, and of no finished one only a part. Puts nothing, helps nobody.
   *
   * One reading of the timeline, and nothing more where the versions given are such a snapshot.
   *
   * @param seen by path, the version that a reader has loaded before this call
   * @param notBelow by path, the newest version that the reader has met before
   * @param names what the query has met as the names of its tables: rows of who has changed one since are
   *   not shown, as far as the versions before are there and the reader has met no newer ones
   * @return the versions to read; as seen for a table that does not belong to this timeline
   *
   * Condition: LAKESTEP_SNAPSHOT_BEHIND_SESSION, when what the reader has met stands above a part of
   * an unfinished entry.
   */
  def consistent(
      seen: Map[TableRef, Long],
      notBelow: Map[TableRef, Long] = Map.empty,
      names: Option[ReadNames] = None): Map[TableRef, Long] =
    consistentRead(seen, notBelow, names)

  /**
   * Steps 4 to 9: makes the staged commits of all tables visible, or none.
   *
   * Reads the staged commits itself. What throws has changed nothing: conditions of flattening,
   * of the stores, LAKESTEP_TABLE_OF_ANOTHER_TIMELINE, LAKESTEP_TABLE_TWICE, LAKESTEP_TABLE_IS_A_COPY, and
   * LAKESTEP_ENTRY_UNFINISHED when an earlier entry on these tables cannot be finished here. What is not
   * committed and has no entry is the caller's to discard.
   *
   * @param reads tables that were only read; they count under SERIALIZABLE
   * @param changes what is made of names once the transaction is committed
   * @param readNames names that it depends on (SERIALIZABLE)
   * @param purges dropped tables whose data are deleted then, by the caller
   * @param compaction what small files are written by as fewer ones
   */
  def commit(
      txn: BegunTransaction,
      tables: Seq[WrittenTable],
      reads: Seq[ReadTable] = Nil,
      changes: Vector[NameChange] = Vector.empty,
      readNames: Set[NameKey] = Set.empty,
      purges: Vector[Purge] = Vector.empty,
      compaction: Compaction = Compaction.Off): CommitOutcome = {
    val outcome =
      if (txn.replays.isDefined) CommitOutcome.NothingToCommit
      else commits(txn, tables, reads, TouchedNames(changes, readNames, purges), compaction)
    outcome match {
      case _: CommitOutcome.Committed => options.afterwards(Seq(() => timeline.checkpoint()))
      case _ => ()
    }
    outcome
  }

  /**
   * Names that a metastore may show otherwise than they were at the snapshot of a transaction, with what they
   * stood for then. The metastore is asked before this call.
   *
   * @param refreshes whether the timeline is to be read, which it has not been since
   */
  def namesBefore(
      txn: BegunTransaction,
      refreshes: Boolean): Map[NameKey, Option[NamedObject]] = {
    if (refreshes && timeline.existingId.isDefined) timeline.refreshEntries()
    names.before(txn)
  }

  /**
   * The same for a query outside a transaction. None where nothing is known of a transaction that has changed
   * a name.
   */
  def namesOfQuery(): Option[QueryNames] = Option.when(timeline.known.lastNames > 0) {
    names.look(timeline.known)
    // What is made from here on may be missing in what a metastore said.
    new QueryNames(timeline, names, timeline.known)
  }

  /**
   * Makes what committed transactions have made of names, where it is not made yet; what could not be made in
   * the metastores of this client. Where no such transaction is known, the store is not asked.
   */
  def makeNames(): Set[NameKey] =
    if (timeline.known.lastNames == 0) Set.empty
    else {
      try {
        val view = timeline.refresh()
        if (view.snapshot.names.unapplied.nonEmpty) names.applyPending(view)
        names.applyAbove(view)
      } catch { case NonFatal(_) => () }
      val known = timeline.known
      (known.snapshot.names.pending.keySet ++ names.unmadeAbove(known))
        .filter(k => options.catalogs.has(k.metastore))
    }

  /** Where tables lie that have been dropped, or that a metastore may not show yet, as the timeline is now. */
  def claimed(): Vector[TableRef] =
    if (timeline.existingId.isEmpty) Vector.empty
    else {
      val view = timeline.refresh()
      val names = view.snapshot.names
      val above = view.after(view.finished).flatMap(_.names).flatMap(c => c.before ++ c.after)
      names.dropped.flatMap(_.table.path) ++ (names.pending.values.flatten ++ above).flatMap(_.path)
    }

  /** The newest committed batch of a query, as the timeline is now. */
  def batch(query: String): Option[AppliedBatch] =
    if (timeline.existingId.isEmpty) None else timeline.refresh().batch(query)

  /** Tables that transactions have dropped, and given no name again, as the timeline is now. */
  def dropped(): Vector[DroppedTable] =
    if (timeline.existingId.isEmpty) Vector.empty else timeline.refresh().snapshot.names.dropped

  /** Those of these tables that have a name in a metastore of this client. */
  def named(tables: Vector[TableRef]): Set[TableRef] = env.namesAt(tables).keySet

  /** What VACUUM DROPPED TABLES finds; its transaction purges what is not kept, `undoMs` for undo. */
  def oldDropped(
      txn: BegunTransaction,
      retainMs: Long,
      undoMs: Option[Long] = None): Vector[OldDroppedTable] =
    droppedVacuum.old(txn, retainMs, undoMs)

  /** Deletes the data of what committed transactions have purged, as far as nobody has. */
  def purge(): Vector[(Purge, Purged)] = droppedVacuum.purge()

  /** To be called once, so that what others have made of names is known. */
  def lookForNames(): Unit =
    if (timeline.known.next == TimelineEntry.First && timeline.existingId.isDefined) {
      timeline.refresh()
      ()
    }

  /**
   * ROLLBACK of a transaction that has no entry, and gets none any more: removes its staged commits and its
   * REQUESTED file, once nothing else waits. Idempotent.
   *
   * @param made staged versions of tables, whose data files go first
   */
  def discard(
      txn: BegunTransaction,
      tables: Seq[TableRef],
      made: Seq[(TableRef, Long)] = Nil): Unit = if (!txn.readOnly) {
    // Nobody takes it for open any more.
    try timeline.deleteRequested(txn.id)
    catch { case NonFatal(_) => () }
    val first = made.map { case (table, v) => () => files.deleteMadeBy(txn, table, v) }
    env.cleanUp(txn.id, tables, first)
  }

  /** Tells the listener; never throws. */
  def tell(event: TransactionEvent): Unit = env.tell(event)

  /** Makes files durable that somebody else wrote, before something is deleted that they replace. */
  def keep(files: String*): Unit = env.keep(files: _*)

  /** How many things are done at once, on as many threads as COMMIT. */
  def together: AtOnce = env.options.publishExecutor.atOnce

  /** The same work on different tables, on as many threads as COMMIT; throws the first failure. */
  def atOnce[A](tables: Seq[A])(work: A => Unit): Unit = {
    env.inParallel(tables.toVector)(work)
    ()
  }

  /**
   * Takes staged commits of an open transaction back: those of a statement that failed, or that is run
   * again. What an earlier COMMIT made of them goes, too: the same changes of another version would
   * have its name. Idempotent.
   */
  def dropStaged(txn: BegunTransaction, tablePath: TableRef, versions: Seq[Long]): Unit =
    files.drop(txn, tablePath, versions)

  /** The data files that staged commits have made, where they can still be read. */
  def madeBy(txn: BegunTransaction, table: TableRef, versions: Seq[Long]): Vector[String] =
    files.madeBy(txn, table, versions)

  /** Deletes data files that no commit names any more, or will, and does `more` then; nobody waits. */
  def deleteFiles(unnamed: Vector[String], more: (() => Unit)*): Unit =
    if (unnamed.nonEmpty || more.nonEmpty)
      options.afterwards(unnamed.map(file => () => files.delete(file)), more)

  /** Removes all staged commits of a transaction in a table. */
  def dropStaging(txn: BegunTransaction, table: TableRef): Unit =
    stores.forPath(table.uri).deleteFolder(table.staging(txn.id))

  /** Entries that nobody has finished yet; helps none of them. */
  def unfinished(): Vector[CommitEntry] =
    if (timeline.existingId.isEmpty) Vector.empty else timeline.refresh().unfinished

  /** Finishes everything that is unfinished, oldest first. Any number of clients may do it at once. */
  def recover(): RecoveryReport =
    if (timeline.existingId.isEmpty) RecoveryReport(Vector.empty, Vector.empty)
    else {
      // What a late client has left may keep names from being made, and those may have been left by one.
      lateNames.all(forgets = true)
      val report = helping.all()._1
      lateNames.all(forgets = false)
      report
    }

  /**
   * Step 12: finishes the entries that write this table, before a statement outside a transaction
   * builds on what one of them has published and may have to take back.
   *
   * One small read for a table that no transaction of this timeline has written, and another one
   * for others. Says whether there were any. Condition: LAKESTEP_ENTRY_UNFINISHED, naming the entry and its tables.
   */
  def helpBeforeWrite(tablePath: TableRef): Boolean = helping.beforeWrite(tablePath)

  /**
   * Step 10: ends transactions of others that have no entry, for ever. Those that have one already
   * are left out. Their staged files may be deleted after this returns, not before.
   *
   * Gives the ids that were ended. Condition: LAKESTEP_OUTCOME_UNKNOWN.
   */
  def abort(transactions: Seq[String], reason: String): Vector[String] =
    aborts(transactions, reason)

  /**
   * Ends the transactions without an entry that began longer ago than `olderThanMs`, and removes the
   * staged commits of all that have ended; never a data file. Age is by this client's clock and the
   * store's: it is policy, and a live owner that is judged dead gets a conflict at COMMIT.
   */
  def collect(olderThanMs: Long): CollectionReport =
    if (timeline.existingId.isEmpty) CollectionReport(Vector.empty, 0, Vector.empty)
    else new Collector(env, abort(_, "it was silent for long"))(clock.nowMs() - olderThanMs)

  /**
   * Where a transaction is, by its id. One that is not among the recent entries is looked for in all
   * those that were put since it began; when nothing tells when that was, in all.
   */
  def describe(id: String): TransactionStatus = {
    if (timeline.existingId.isDefined) timeline.refresh()
    timeline.entriesOf(Set(id)).get(id).map(describe)
      .orElse(timeline.known.aborted(id).map(TransactionStatus.Aborted(_)))
      .orElse(timeline.requested(id).map(TransactionStatus.Open(_)))
      .getOrElse(TransactionStatus.NotFound)
  }

  private def describe(status: EntryStatus): TransactionStatus =
    (status.entry, status.outcome, status.rolledBack) match {
      case (entry: CommitEntry, Some(c: Completed), _) =>
        TransactionStatus.Committed(entry, c.slots)
      case (entry: CommitEntry, Some(a: Aborting), Some(end)) =>
        TransactionStatus.RolledBack(entry, a.evidence, Residue.of(entry, end))
      case (entry: CommitEntry, _, _) => TransactionStatus.InFlight(entry)
      case (entry: AbortEntry, _, _) => TransactionStatus.Aborted(entry.number)
    }
}

object Database {

  /** The database under `root`, the folder of `format.json`; creates nothing before it is needed. */
  def open(
      root: String,
      stores: ObjectStores,
      states: StateReader,
      vectors: DeletionVectors,
      clock: Clock,
      ids: Ids,
      observer: CommitSteps,
      options: DatabaseOptions): Database =
    open(root, stores, states, vectors, clock, ids, observer, options, Safeguards.all)

  private[lakestep] def open(
      root: String,
      stores: ObjectStores,
      states: StateReader,
      vectors: DeletionVectors,
      clock: Clock,
      ids: Ids,
      observer: CommitSteps,
      options: DatabaseOptions,
      safeguards: Safeguards): Database = {
    val base = TableRef(root).uri
    val timeline = new Timeline(
      stores.forPath(base),
      base,
      ids,
      options.putAttempts,
      options.checkpointInterval,
      options.publishExecutor.atOnce
    )
    new Database(timeline, stores, states, vectors, clock, ids, observer, options, safeguards)
  }
}
