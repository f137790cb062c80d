package io.lakestep.commit

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.log.{
  AddFile, CommitMark, ForeignWriters, LogCommit, LogTail, MarkKind, MarkStatus, MetaData,
  NetChanges, Protocol, StateMark, TableLog, TableState
}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{CommitEntry, EntryTable, RolledBackTable}

/**
 * Step 9 for one table: gives an aborted entry its last mark in the table's own log.
 *
 * A table in which nothing of it is published gets a CLOSE commit, which takes its fence away if it
 * has one; a published one gets an UNDO commit. Anyone may do this at any time; it ends when the log
 * holds one close or undo of the entry. Called only when the outcome says `aborting`.
 */
private[commit] final class Undo(env: Environment) {
  import env.{timeline, stores, states, clock, observer, options, safeguards}

  private val late = new MisplacedCommits(env)

  private case class Job(entry: CommitEntry, index: Int) {
    val table: EntryTable = entry.tables(index)
    val log: TableLog = env.log(table.path)
    lazy val changes: NetChanges = env.changes(entry, table)
    val appId: String = CommitMark.appId(timeline.id, table.tableId)
    def mark(kind: MarkKind, lifts: Boolean): CommitMark =
      CommitMark(
        timeline.id,
        entry.number,
        entry.transaction.id,
        index,
        1,
        table.parts,
        kind,
        lifts
      )
    def isOwn(commit: LogCommit): Boolean =
      commit.mark.exists(_.isOf(timeline.id, entry.number, index))
  }

  /** What the log asks for next: it is settled, or this commit is to be put after the head. */
  private sealed trait Next
  private case class Done(settled: RolledBackTable) extends Next
  private case class Put(
      head: Long,
      kind: MarkKind,
      plan: UndoPlan,
      previousMs: Option[Long],
      stamped: Boolean)
      extends Next

  def apply(entry: CommitEntry, index: Int): RolledBackTable = {
    val table = entry.tables(index)
    try loop(Job(entry, index), options.publishAttempts, options.putAttempts)
    catch {
      // What was staged went with the table.
      case NonFatal(_) if env.isAnotherLog(table) => Undo.Gone
    }
  }

  @tailrec
  private def loop(job: Job, attempts: Int, unclear: Int): RolledBackTable = {
    if (attempts == 0)
      throw env.unfinished(job.entry, s"other writers of ${job.table.name} took every slot")
    look(job, attempts) match {
      case Done(settled) =>
        settled.version.foreach(version => env.keep(job.table.path.slot(version)))
        settled
      case Put(_, MarkKind.Close, _, _, _) if !safeguards.closes =>
        RolledBackTable("closed", None, Vector.empty)
      case Put(head, kind, plan, previousMs, stamped) =>
        if (plan.residue.nonEmpty && !safeguards.endsWithResidue)
          throw env.unfinished(job.entry, s"somebody built upon its files in ${job.table.name}")
        val slot = head + 1
        val place = PublishedCommit.Place(slot, clock.nowMs(), previousMs, None)
        val lifts = job.table.reserve.isDefined && kind == MarkKind.Close && plan.actions.nonEmpty
        val mark = job.mark(kind, lifts)
        val actions =
          PublishedCommit.settle(plan.actions, plan.residue, stamped, job.table, mark, place)
        val store = stores.forPath(job.table.path.uri)
        observer.beforeSettle(job.entry, job.table, slot)
        store.putIfAbsent(job.table.path.slot(slot), TableLog.text(actions)) match {
          case PutOutcome.Created =>
            observer.settled(job.entry, job.table, slot)
            loop(job, attempts - 1, unclear)
          case PutOutcome.AlreadyExists => loop(job, attempts - 1, unclear)
          case PutOutcome.Unknown(cause) =>
            if (unclear == 0)
              throw env.unfinished(
                job.entry,
                s"the store of ${job.table.name} does not answer",
                Some(cause)
              )
            loop(job, attempts - 1, unclear - 1)
        }
    }
  }

  @tailrec
  private def look(job: Job, attempts: Int): Next = {
    val tail = job.log.tail(job.table.base)
    tail.head match {
      case None if job.table.base < 0 => closeNew(job)
      case None => gone
      case Some(head) if head < job.table.base => gone
      case Some(head) if env.isAnotherTable(job.table, tail, head) => gone
      case Some(head) if !tail.isCompleteFrom(job.table.base + 1) => byState(job, tail, head)
      case Some(head) =>
        read(job.log, job.table.base + 1, head) match {
          case Some(commits) =>
            byCommits(job, tail, head, commits) match {
              case Some(next) => next
              case None if attempts == 0 =>
                throw env.unfinished(
                  job.entry,
                  s"other writers of ${job.table.name} took every slot"
                )
              case None => look(job, attempts - 1)
            }
          case None if attempts == 0 =>
            throw env.unfinished(job.entry, "its log is being cleaned up")
          case None => look(job, attempts - 1)
        }
    }
  }

  private def read(log: TableLog, from: Long, to: Long): Option[Vector[LogCommit]] = {
    val commits = (from to to).iterator.map(log.read).takeWhile(_.isDefined).flatten.toVector
    Option.when(commits.size == to - from + 1)(commits)
  }

  /** Nothing when the log has gone on since it was listed, and the state is needed to judge it. */
  private def byCommits(
      job: Job,
      tail: LogTail,
      head: Long,
      commits: Vector[LogCommit]): Option[Next] = {
    val own = commits.filter(job.isOwn)
    // The last one: a publish above a close means that the close landed in a deleted slot.
    val end = own.lastOption.filter(_.mark.exists(_.settles))
    // The listing from before may be older than a clean-up; see `Publish`.
    val fresh = if (own.isEmpty || !safeguards.checksAfterPut) tail else job.log.tail(tail.from)
    val newest = fresh.head.getOrElse(head)
    val last = own.lastOption
      .filter(c => safeguards.checksAfterPut && fresh.hasCheckpointFrom(c.version))
    def void = hidesCommits(own) || last.exists(!isInState(job, newest, _))
    val previousMs = commits.lastOption.flatMap(_.info).flatMap(_.inCommitTimestampMs)
      .orElse(tail.slot(head).map(_.modifiedMs)).orElse(job.table.inCommitTimestampMs)
    def stampsNow = commits.flatMap(_.actions).collect { case m: MetaData => m }.lastOption
      .fold(job.table.inCommitTimestamps)(PublishedCommit.keepsTimestamps)
    val parts = own.filter(_.mark.exists(_.kind == MarkKind.Publish))
    if (last.isDefined && newest > head) None
    else if (void) Some(byState(job, fresh, newest))
    else
      Some(end match {
        case Some(c) =>
          val how = if (c.mark.exists(_.kind == MarkKind.Close)) "closed" else "undone"
          Done(RolledBackTable(
            how,
            Some(c.version),
            c.info.fold(Vector.empty[String])(PublishedCommit.residueOf)
          ))
        case None if parts.isEmpty =>
          val protocol = commits.flatMap(_.actions).collect { case p: Protocol => p }.lastOption
          close(head, protocol.flatMap(lifted(job, _)), previousMs, stampsNow)
        case None =>
          val since = commits.filter(c => c.version > parts.head.version && !job.isOwn(c))
          undo(head, UndoPlan(parts, since, around(job)), previousMs, stampsNow)
      })
  }

  /**
   * Whether one of ours in the listing cannot be where its entry put it first: it stands in a slot
   * that a clean-up had emptied, and others may have built upon ours in what it hides.
   */
  private def hidesCommits(own: Vector[LogCommit]): Boolean = {
    val marks = own.flatMap(_.mark)
    val isInOrder = marks.zip(marks.drop(1)).forall { case (m, next) =>
      !m.settles && (next.settles || m.part < next.part)
    }
    safeguards.checksAfterPut && !isInOrder
  }

  /**
   * Whether the state agrees with our last listed commit, which may have landed in a deleted slot.
   * Of three commits and more the state does not say which of them it holds, before it holds all.
   */
  private def isInState(job: Job, head: Long, own: LogCommit): Boolean =
    states.stateAt(job.table.path, head).txnVersion(job.appId).map(StateMark.of).exists { mark =>
      def isClear = mark.status != MarkStatus.Partly || job.table.partly.isDefined
      mark.entry > job.entry.number ||
      isClear && own.mark.exists(m => mark == StateMark(m.entry, m.status))
    }

  private def byState(job: Job, tail: LogTail, head: Long): Next = {
    val state = states.stateAt(job.table.path, head)
    val previousMs = job.log.timeOf(head)
      .orElse(tail.slot(head).map(_.modifiedMs))
    // The settling commit itself, where it is still there; else a version after it. Below a commit
    // that is gone there may be one that landed in a deleted slot.
    lazy val listed = tail.firstOfRun.getOrElse(head).to(head).reverseIterator
      .flatMap(job.log.read).find(c => job.isOwn(c) && c.mark.exists(_.settles))
    def done(how: String) = {
      val unknown = if (how == "undone") Vector(Undo.UnknownResidue) else Vector.empty
      Done(
        RolledBackTable(
          how,
          listed.map(_.version).orElse(Some(head)),
          listed.flatMap(_.info).fold(unknown)(PublishedCommit.residueOf)
        )
      )
    }
    def stampsNow = PublishedCommit.keepsTimestamps(state.metaData)
    def closed = close(head, lifted(job, state.protocol), previousMs, stampsNow)
    // Where others have made the table, a mark tells that no commit of ours below it counts.
    if (job.table.base >= 0 && !env.isOf(job.table, state, job.changes)) gone
    else
      state.txnVersion(job.appId).map(StateMark.of).filter(_.entry >= job.entry.number) match {
        case None => closed
        case Some(StateMark(entry, _)) if entry > job.entry.number => done("undone")
        case Some(StateMark(_, MarkStatus.Closed)) => done("closed")
        case Some(StateMark(_, MarkStatus.Undone)) => done("undone")
        case Some(StateMark(_, MarkStatus.Partly)) if job.table.reserve.isDefined => closed
        case Some(StateMark(_, status)) =>
          val isWhole = status != MarkStatus.Partly || job.changes.parts.size == 1
          val plan = UndoPlan.fromState(job.changes, isWhole, state, around(job))
          undo(head, plan, previousMs, stampsNow)
      }
  }

  /** The protocol without the fence of this entry, if that is on. */
  private def lifted(job: Job, now: Protocol): Option[Protocol] =
    job.table.reserve.map(Protocol(_)).filter(_ => ForeignWriters.isFenced(now)).map { before =>
      if (now.sameAs(ForeignWriters.fenced(before))) before else ForeignWriters.unfenced(now)
    }

  private def close(
      head: Long,
      protocol: Option[Protocol],
      previousMs: Option[Long],
      stamped: Boolean): Next =
    Put(head, MarkKind.Close, UndoPlan(protocol.toVector, Vector.empty), previousMs, stamped)

  /**
   * Whoever publishes late has to find slot 0 taken, and the log of a table begins with its header: what
   * is left of a table that was to be made is an empty one, to which no name leads.
   */
  private def closeNew(job: Job): Next = {
    val made = job.changes.parts.flatMap(_.actions)
    val metaData = made.collect { case m: MetaData => m }.lastOption
    val header = made.collect { case p: Protocol => p }.lastOption ++ metaData
    val stamped = metaData.exists(PublishedCommit.keepsTimestamps)
    Put(-1, MarkKind.Close, UndoPlan(header.toVector, Vector.empty), None, stamped)
  }

  private def undo(
      head: Long,
      plan: UndoPlan,
      previousMs: Option[Long],
      stampsNow: Boolean): Next = {
    val restores = plan.actions.exists {
      case m: MetaData => PublishedCommit.keepsTimestamps(m)
      case _ => false
    }
    Put(head, MarkKind.Undo, plan, previousMs, stampsNow || restores)
  }

  private def gone: Next = Done(Undo.Gone)

  private def around(job: Job): UndoPlan.Surroundings = {
    val path = job.table.path
    def read: Option[TableState] =
      try Some(states.stateAt(path, job.table.base))
      catch { case NonFatal(_) => None }
    def isDoubtful = {
      val tail = job.log.tail(job.table.base)
      late.mayBeIn(job.log, job.table.log, job.table.base, tail)
    }
    // The listing after the reading.
    lazy val before = read.filterNot(_ => isDoubtful)
    val store = stores.forPath(path.uri)
    UndoPlan.Surroundings(
      originals = paths =>
        before.fold(Map.empty[String, AddFile])(_.liveFiles(paths).view.mapValues(_.add).toMap),
      before = before,
      header = job.changes.before,
      isNew = job.table.base < 0,
      exists = f =>
        store.exists(path.dataFile(f.path)) &&
          f.deletionVector.flatMap(path.deletionVectorFile(_)).forall(store.exists),
      fits = now =>
        job.table.metaDataHash.contains(env.hashOf(now.body)) ||
          job.changes.before.map(_.metaData).orElse(before.map(_.metaData)).exists(_.isFitFor(now)),
      nowMs = clock.nowMs()
    )
  }
}

private[commit] object Undo {

  /** What was published in it went with the table. */
  val Gone: RolledBackTable = RolledBackTable("gone", None, Vector("the table"))

  /** Of an UNDO commit that was cleaned up before anybody could note what it left. */
  val UnknownResidue = "unknown, as the log was cleaned up"
}
