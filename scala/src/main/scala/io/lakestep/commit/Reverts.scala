package io.lakestep.commit

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import io.lakestep.Errors
import io.lakestep.log.{
  Action, AddFile, DomainMetadata, FileAction, LogCommit, MarkKind, MetaData, Protocol,
  SetTransaction, TableRef, TableState
}
import io.lakestep.timeline.{
  BatchKey, BatchTakenBack, CommitEntry, Conflict, EntryStatus, EntryTable, NameKey, Rule,
  TimelineSnapshot
}

/**
 * What takes the change of a committed transaction in one table back.
 *
 * @param actions of a commit that does so
 * @param blockers commits of others that build upon it, so that it cannot be taken back
 * @param missing files that would have to come back and are not there any more
 * @param kept applications whose newest mark is not that of the transaction
 * @param versions that have what comes back
 */
final case class RevertPlan(
    actions: Vector[Action],
    blockers: Vector[Conflict],
    missing: Vector[String],
    kept: Vector[String],
    versions: Vector[Long])

/** Takes committed transactions back, by the rules of UNDO; see `UndoPlan`. */
final class Reverts private[commit] (env: Environment) {
  import env.{clock, states, stores, timeline}

  /**
   * @param slots the commits of the entry in its tables
   * @param later the entries since then
   * @param upTo the version of the table that is read
   * @param drops whether the table goes as a whole, as the entry has made it
   *
   * Condition: LAKESTEP_REVERT_LOG_GONE.
   */
  def plan(
      entry: CommitEntry,
      slots: Vector[Vector[Long]],
      later: Vector[CommitEntry],
      index: Int,
      upTo: Long,
      drops: Boolean): RevertPlan = {
    val table = entry.tables(index)
    def gone(version: Long) = Errors(
      "LAKESTEP_REVERT_LOG_GONE",
      "table" -> table.name,
      "version" -> version.toString,
      "transaction" -> entry.transaction.id
    )
    val log = env.log(table.path)
    val first = slots(index).head
    val read = env.inParallel((first to upTo).toVector)(v => log.read(v).toRight(v)).map {
      case Right(commit) => commit
      case Left(version) => throw gone(version)
    }
    val before =
      try
        Option.when(first > 0)(states.stateAt(table.path, first - 1))
          .filter(_.metadataId.nonEmpty)
      catch { case NonFatal(_) => None }
    if (table.base >= 0 && before.isEmpty) throw gone(first - 1)
    val commits = withoutIdentities(read, before.map(_.metaData))
    def isOwn(c: LogCommit) = c.mark.exists(_.isOf(timeline.id, entry.number, index))
    val own = commits.filter(c => isOwn(c) && c.mark.exists(_.kind == MarkKind.Publish))
    if (own.size != table.parts) throw gone(first)
    val since =
      Cancelled.without(commits.filter(c => c.version > own.head.version && !isOwn(c)), later)
    if (drops) {
      val upon = since.filter(c => c.changesData || c.actions.exists(_.isInstanceOf[MetaData]))
      RevertPlan(
        Vector.empty,
        upon.map(conflict(table, _, Vector.empty)),
        Vector.empty,
        Vector.empty,
        Vector.empty
      )
    } else {
      val now = states.stateAt(table.path, upTo)
      val reverts = later.filter(Cancelled.isRevert).map(_.transaction.id).toSet
      val surroundings = around(table, own ++ since, before).copy(restores =
        c => Returned.isRestore(c) && !c.mark.exists(m => reverts(m.transaction))
      )
      judged(table, own, since, now, surroundings)
    }
  }

  private def around(
      table: EntryTable,
      commits: Vector[LogCommit],
      before: Option[TableState]): UndoPlan.Surroundings = {
    val store = stores.forPath(table.path.uri)
    val known = new ConcurrentHashMap[(String, Option[String]), Boolean]
    def exists(f: FileAction): Boolean = known.computeIfAbsent(
      (f.path, f.dvId),
      _ =>
        store.exists(table.path.dataFile(f.path)) &&
          f.deletionVector.flatMap(table.path.deletionVectorFile(_)).forall(store.exists)
    )
    // Most are asked for one after another.
    env.inParallel(commits.flatMap(_.files).filter(_.isRemoved))(exists)
    UndoPlan.Surroundings(
      originals = paths =>
        before.fold(Map.empty[String, AddFile])(_.liveFiles(paths).view.mapValues(_.add).toMap),
      before = before,
      header = None,
      isNew = table.base < 0,
      exists = exists,
      fits = now =>
        table.metaDataHash.contains(env.hashOf(now.body)) ||
          before.exists(_.metaData.isFitFor(now)),
      nowMs = clock.nowMs()
    )
  }

  /** The protocol stays, as RESTORE leaves it; an application that has gone on keeps its mark. */
  private def judged(
      table: EntryTable,
      own: Vector[LogCommit],
      since: Vector[LogCommit],
      now: TableState,
      surroundings: UndoPlan.Surroundings): RevertPlan = {
    val plan = UndoPlan(own, since, surroundings)
    val fits = surroundings.fits(now.metaData)
    val apps = own.flatMap(_.actions).collect { case t: SetTransaction => t.appId }.distinct
    val kept = apps.filter(app => plan.residue.contains(UndoPlan.ofApplication(app)))
    val stays = kept.map(UndoPlan.ofApplication).toSet + UndoPlan.ProtocolName
    val derived =
      if (isAnythingLeft(own, since, now)) Set.empty[String]
      else addedBy(since) -- surroundings.returned(own, since)
    // What was made of its rows and has gone since is no obstacle.
    val residue =
      plan.residue.filterNot(stays).filterNot(derived -- own.flatMap(_.files).map(_.path))
    val files = residue.map(FileAction.plain).toSet
    def touched(c: LogCommit) = c.files.filter(f => files(f.plainPath))
    val upon = since.filter(touched(_).nonEmpty)
    val named = upon.flatMap(touched).map(_.plainPath).toSet
    val others = residue.filterNot(r => named(FileAction.plain(r)))
    // What is there and cannot stand under the schema of before, or under that of now.
    def overHeader = since.filter(c =>
      c.actions.exists {
        case _: MetaData | _: AddFile | _: DomainMetadata => true
        case _ => false
      }
    )
    val paths = (own ++ since).flatMap(_.files).map(_.plainPath).toSet
    val isOverHeader =
      others.nonEmpty && (!fits || others.exists(r => !paths(FileAction.plain(r))))
    // One that has only rearranged rows stands in the way where what it has replaced is gone.
    def replacedBy(c: LogCommit) =
      if (c.changesData) Vector.empty
      else c.files.filter(f => f.isRemoved && !surroundings.exists(f)).map(_.path)
    val replaced = upon.flatMap(replacedBy)
    val over = if (isOverHeader) overHeader else Vector.empty
    val blockers = (upon.filter(replacedBy(_).isEmpty) ++ over).distinct
    RevertPlan(
      plan.actions.filterNot(_.isInstanceOf[Protocol]),
      blockers.map(c => conflict(table, c, touched(c).map(_.path).distinct)),
      if (blockers.isEmpty) (others ++ replaced).distinct else Vector.empty,
      kept,
      // Those before the change, and before what only rearranged it.
      (own.take(1) ++ since.filter(c => c.files.exists(f => f.isRemoved && !f.dataChange)))
        .map(_.version - 1).filter(_ >= 0)
    )
  }

  private def conflict(table: EntryTable, by: LogCommit, files: Vector[String]): Conflict =
    env.conflict(Rule.SameFile, table.name, table.path, by, files)

  /** Each INSERT notes the last number of an identity column in the metadata: that is no change of these. */
  private def withoutIdentities(
      commits: Vector[LogCommit],
      before: Option[MetaData]): Vector[LogCommit] =
    commits.foldLeft((Vector.empty[LogCommit], before.map(_.withoutIdentityMarks))) {
      case ((done, known), c) =>
        val changed = c.actions.collect { case m: MetaData => m.withoutIdentityMarks }.lastOption
        val isSame = changed.isDefined && changed == known
        val left = if (isSame) c.actions.filterNot(_.isInstanceOf[MetaData]) else c.actions
        (done :+ c.copy(actions = left), changed.orElse(known))
    }._1

  private def addedBy(commits: Vector[LogCommit]): Set[String] =
    commits.flatMap(_.files).filterNot(_.isRemoved).map(_.path).toSet

  /** Whether a file is live that others have made of those of the change, or of files made of these. */
  private def isAnythingLeft(
      own: Vector[LogCommit],
      since: Vector[LogCommit],
      now: TableState): Boolean = {
    val made = since.foldLeft(addedBy(own)) { (tainted, c) =>
      if (c.files.exists(f => f.isRemoved && tainted(f.path))) tainted ++ addedBy(Vector(c))
      else tainted
    }
    now.liveFiles(made -- addedBy(own)).nonEmpty
  }

  /**
   * The batches of an entry that are the newest of their queries, and those that are not.
   *
   * @param txn the transaction that takes them back, and may have taken back others
   */
  def batches(
      entry: CommitEntry,
      txn: BegunTransaction): (Vector[BatchTakenBack], Vector[BatchKey]) =
    if (entry.batches.isEmpty) (Vector.empty, Vector.empty)
    else {
      val earlier = timeline.snapshotAt(entry.number - 1)
      entry.batches.partitionMap { key =>
        val newest = txn.takenBack.find(_.key.query == key.query).map(t => t.key.batch -> t.from)
          .orElse(txn.base.batches.byQuery.get(key.query).map(a => Some(a.batch) -> a.entry))
        newest.filter { case (batch, from) =>
          from == entry.number || batch == key.batch && isUndo(from, txn)
        }.map { case (_, from) => taken(key.query, from, earlier) }.toLeft(key)
      }
    }

  /** Whether the newest batch of a query is one of before, as this entry has taken a later one back. */
  private def isUndo(number: Long, txn: BegunTransaction): Boolean =
    txn.takenBack.exists(_.from == number) || (timeline.status(number).entry match {
      case c: CommitEntry => c.undoes.nonEmpty
      case _ => false
    })

  /**
   * The same for all queries that have gone on since an earlier state: those alone whose transactions have
   * written no other table.
   *
   * @param isRestored whether a log is made as it was then
   */
  def batchesSince(earlier: TimelineSnapshot, base: TimelineSnapshot)(
      isRestored: String => Boolean): (Vector[BatchTakenBack], Vector[BatchKey]) = {
    val moved = base.batches.byQuery.toVector.sortBy(_._1)
      .filter { case (query, applied) => !earlier.batches.byQuery.get(query).contains(applied) }
    if (moved.isEmpty) (Vector.empty, Vector.empty)
    else {
      val written = completed(timeline.allAfter(earlier.number), base.number)
        .flatMap(c => c.batches.map(_.query -> c.tables.map(_.log).toSet))
        .groupMapReduce(_._1)(_._2)(_ ++ _)
      moved.partitionMap { case (query, applied) =>
        Either.cond(
          !written.getOrElse(query, Set.empty).forall(isRestored),
          BatchKey(query, Some(applied.batch), applied.stream),
          taken(query, applied.entry, earlier)
        )
      }
    }
  }

  private def taken(query: String, entry: Long, earlier: TimelineSnapshot): BatchTakenBack = {
    val before = earlier.batches.byQuery.get(query)
    BatchTakenBack(BatchKey(query, before.map(_.batch), before.flatMap(_.stream)), entry)
  }

  /** The completed entries after one, up to what a transaction reads. */
  def later(entry: CommitEntry, txn: BegunTransaction): Vector[CommitEntry] =
    completed(timeline.allAfter(entry.number), txn.snapshot)

  /** Of entries of which some may have been read without their ends. */
  private def completed(entries: Iterator[EntryStatus], upTo: Long): Vector[CommitEntry] =
    entries.takeWhile(_.entry.number <= upTo).map(timeline.ended).filter(_.isCompleted)
      .map(_.entry).collect { case c: CommitEntry => c }.toVector

  /** Those of them that have changed a name, or given a table another one, and were not taken back. */
  def over(key: NameKey, path: Option[TableRef], later: Vector[CommitEntry]): Vector[CommitEntry] =
    Cancelled.without(later).filter(_.names.exists { c =>
      c.key.meets(key) && c.key.name == key.name ||
      path.isDefined && c.after.exists(_.path == path) && c.key != key
    })
}
