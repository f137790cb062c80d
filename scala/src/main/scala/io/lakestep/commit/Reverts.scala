package io.lakestep.commit

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import io.lakestep.Errors
import io.lakestep.log.{
  Action, AddFile, FileAction, Flatten, LogCommit, MarkKind, MetaData, Protocol, SetTransaction,
  TableState
}
import io.lakestep.timeline.{
  BatchKey, BatchTakenBack, CommitEntry, Conflict, EntryTable, Rule, TimelineEntry, TimelineSnapshot
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
   * @param upTo the version of the table that is read
   *
   * Condition: LAKESTEP_REVERT_LOG_GONE.
   */
  def plan(entry: CommitEntry, slots: Vector[Vector[Long]], index: Int, upTo: Long): RevertPlan = {
    val table = entry.tables(index)
    def gone(version: Long) = Errors(
      "LAKESTEP_REVERT_LOG_GONE",
      "table" -> table.name,
      "version" -> version.toString,
      "transaction" -> entry.transaction.id
    )
    val log = env.log(table.path)
    val first = slots(index).head
    val commits = env.inParallel((first to upTo).toVector)(v => log.read(v).toRight(v)).map {
      case Right(commit) => commit
      case Left(version) => throw gone(version)
    }
    def isOwn(c: LogCommit) = c.mark.exists(_.isOf(timeline.id, entry.number, index))
    val own = commits.filter(c => isOwn(c) && c.mark.exists(_.kind == MarkKind.Publish))
    if (own.size != table.parts) throw gone(first)
    val since = commits.filter(c => c.version > own.head.version && !isOwn(c))
    val before =
      try Some(states.stateAt(table.path, own.head.version - 1))
      catch { case NonFatal(_) => None }
    if (table.base >= 0 && before.isEmpty) throw gone(own.head.version - 1)
    val now = states.stateAt(table.path, upTo)
    val left = leftOf(since, own, now)
    judged(table, own, since, now, UndoPlan(own, left, around(table, own ++ since, before)))
  }

  /**
   * What has happened since. Where the table is as the change left it, in all that the change is over, it is
   * only what is left of that.
   */
  private def leftOf(
      since: Vector[LogCommit],
      own: Vector[LogCommit],
      now: TableState): Vector[LogCommit] = {
    val files = Flatten.net(own)
    val added = files.collect { case a: AddFile => a.path -> a.dvId }.toMap
    val live = now.liveFiles(files.map(_.path).toSet)
    val isAsLeft = files.forall(f => live.get(f.path).map(_.dvId) == added.get(f.path))
    if (!isAsLeft || since.isEmpty) since
    else {
      val ours = files.map(_.plainPath).toSet
      val actions = own.flatMap(_.actions)
      val header = actions.collect { case m: MetaData => m.body }.lastOption
      val marks = actions.collect { case t: SetTransaction => t.appId -> t.version }.toMap
      def counts(action: Action) = action match {
        case _: FileAction => false
        case _: MetaData => !header.contains(now.metaData.body)
        case t: SetTransaction => !marks.get(t.appId).exists(now.txnVersion(t.appId).contains)
        case _ => true
      }
      val net = Flatten.net(since).filterNot(f => ours(f.plainPath))
      Vector(LogCommit(since.last.version, net ++ since.flatMap(_.actions).filter(counts)))
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
      plan: UndoPlan): RevertPlan = {
    val apps = own.flatMap(_.actions).collect { case t: SetTransaction => t.appId }.distinct
    val kept = apps.filter(app => plan.residue.contains(UndoPlan.ofApplication(app)))
    val stays = kept.map(UndoPlan.ofApplication).toSet + UndoPlan.ProtocolName
    val derived = if (isAnythingLeft(own, since, now)) Set.empty[String] else addedBy(since)
    // What was made of its rows and has gone since is no obstacle.
    val residue = plan.residue.filterNot(stays).filterNot(derived -- addedBy(own))
    val files = residue.map(FileAction.plain).toSet
    def touched(c: LogCommit) = c.files.filter(f => files(f.plainPath))
    val upon = since.filter(touched(_).nonEmpty)
    val named = upon.flatMap(touched).map(_.plainPath).toSet
    val others = residue.filterNot(r => named(FileAction.plain(r)))
    // What is there and cannot stand under the schema of before, or under that of now.
    def overHeader = since.filter(c =>
      c.actions.exists {
        case _: MetaData | _: AddFile => true
        case _ => false
      }
    )
    val isOverHeader = others.contains(UndoPlan.MetadataName) ||
      others.nonEmpty && since.exists(_.actions.exists(_.isInstanceOf[MetaData]))
    val blockers = if (upon.isEmpty && isOverHeader) overHeader else upon
    RevertPlan(
      plan.actions.filterNot(_.isInstanceOf[Protocol]),
      blockers.map { c =>
        env.conflict(Rule.SameFile, table.name, table.path, c, touched(c).map(_.path).distinct)
      },
      if (blockers.isEmpty) others else Vector.empty,
      kept,
      // Those before the change, and before what only rearranged it.
      (own.take(1) ++ since.filter(c => c.files.exists(f => f.isRemoved && !f.dataChange)))
        .map(_.version - 1).filter(_ >= 0)
    )
  }

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
   * @param base what the transaction reads that takes them back
   */
  def batches(
      entry: CommitEntry,
      base: TimelineSnapshot): (Vector[BatchTakenBack], Vector[BatchKey]) =
    if (entry.batches.isEmpty) (Vector.empty, Vector.empty)
    else {
      val earlier = stateBefore(entry.number)
      entry.batches.partitionMap { key =>
        Either.cond(
          !base.batches.byQuery.get(key.query).exists(_.entry == entry.number),
          key,
          taken(key.query, entry.number, earlier)
        )
      }
    }

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
      val written = timeline.after(earlier).takeWhile(_.entry.number <= base.number)
        .filter(_.isCompleted).map(_.entry).collect { case c: CommitEntry => c }
        .flatMap(c => c.batches.map(_.query -> c.tables.map(_.log).toSet)).toVector
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

  private def stateBefore(number: Long): TimelineSnapshot =
    if (number == TimelineEntry.First) TimelineSnapshot.empty else timeline.snapshotAt(number - 1)

  /** Who has reverted an entry, if somebody has. */
  def revertedBy(entry: CommitEntry): Option[CommitEntry] =
    timeline.since(entry.number).filter(_.isCompleted).map(_.entry).collect {
      case c: CommitEntry if c.undoes.exists(_.transaction.contains(entry.transaction.id)) => c
    }.toVector.lastOption
}
