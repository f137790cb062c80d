package io.lakestep.commit

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.{Errors, Json}
import io.lakestep.log.{
  CommitMark, DomainMetadata, ForeignWriters, LogCommit, LogTail, MarkKind, MarkStatus, NetChanges,
  Protocol, RowTracking, ListedCommit, StateMark, TableLog, TableState
}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{CommitEntry, Conflict, EntryTable, Rule}

/**
 * Step 7 for one table: walks its log from the base and puts what is missing at the head.
 *
 * Anyone may do this at any time, any number of times at once; each part gets into the log once,
 * because whoever puts at a slot has read every slot below it since the base.
 */
private[commit] final class Publish(env: Environment) {
  import env.{timeline, stores, states, clock, observer, options, safeguards}

  /**
   * @param last the part after which the work is done: 0, the fence, or the table's last one
   * @param read gives the table's net actions, which a walk may never need
   * @param tell is told of each commit that this client itself has put
   */
  private case class Job(
      entry: CommitEntry,
      index: Int,
      last: Int,
      read: () => NetChanges,
      tell: LogCommit => Unit = _ => ()) {
    val table: EntryTable = entry.tables(index)
    val log: TableLog = env.log(table.path)
    lazy val changes: NetChanges = read()
    def ours(walk: Walk): OurChanges =
      OurChanges.of(
        changes.parts.drop(walk.part - 1),
        walk.reads,
        bakesRows = table.rowIds.exists(_.asStaged)
      )
    def mark(part: Int): CommitMark =
      CommitMark(
        timeline.id,
        entry.number,
        entry.transaction.id,
        index,
        part,
        table.parts,
        if (part == 0) MarkKind.Reserve else MarkKind.Publish,
        lifts = part == table.parts && table.reserve.isDefined &&
          changes.parts(part - 1).protocol.isEmpty
      )
    val appId: String = CommitMark.appId(timeline.id, table.tableId)

    /** Whether nobody else can commit from the base to the last part: none of these opens it. */
    lazy val isAlone: Boolean =
      table.closed && changes.parts.flatMap(_.protocol).forall(ForeignWriters.isFenced)
  }

  /**
   * @param isAtHead whether the log has just been seen to end with the base, or where the walk is: if
   *   others were quicker, the slot is taken, or the listing after the put tells
   * @param from where the walk through the fence ended, if it is known
   */
  def apply(
      entry: CommitEntry,
      index: Int,
      changes: => NetChanges,
      isAtHead: Boolean,
      from: Option[Walk] = None,
      tell: LogCommit => Unit = _ => ()): Vote =
    walk(Job(entry, index, entry.tables(index).parts, () => changes, tell), isAtHead, from)

  /** The data files of the parts that are not in the log yet; puts nothing. */
  def missing(entry: CommitEntry, index: Int, changes: => NetChanges): Vector[String] = {
    // Goes on to the head, where no part is left.
    val job = Job(entry, index, entry.tables(index).parts + 1, () => changes)
    try advance(job, start(job.table), options.publishAttempts) match {
        case Right(walk) => job.changes.madeFiles(job.table.path, walk.part.max(1))
        case Left(_) => Vector.empty
      }
    catch { case NonFatal(_) if env.isAnotherLog(job.table) => Vector.empty }
  }

  /** Only the fence of a table that has one; the vote says whether that, or more, is in the log. */
  def reserve(
      entry: CommitEntry,
      index: Int,
      changes: => NetChanges,
      isAtHead: Boolean,
      tell: LogCommit => Unit): Vote =
    walk(Job(entry, index, last = 0, () => changes, tell), isAtHead, None)

  private def walk(job: Job, isAtHead: Boolean, from: Option[Walk]): Vote = {
    val (attempts, unclear) = (options.publishAttempts, options.putAttempts)
    val begin = from.getOrElse(start(job.table))
    try loop(job, begin, attempts, unclear, isAtHead && safeguards.listsFirst)
    // What was staged went with the table.
    catch { case NonFatal(_) if env.isAnotherLog(job.table) => gone(job) }
  }

  private def start(table: EntryTable): Walk = Walk(
    table.base,
    table.baseSlot,
    table.first,
    Vector.empty,
    table.inCommitTimestampMs.orElse(table.baseSlot.map(_.modifiedMs)),
    table.rowIds.map(_.atBase),
    table.reads
  )

  /** The vote, once every commit that it counts on is durable, also those that others put. */
  private def published(job: Job, walk: Walk, ended: Option[Walk] = None): Vote = {
    val theirs = walk.slots.filterNot(walk.put)
    env.keep(theirs.map(job.table.path.slot(_)): _*)
    Vote.Published(walk.slots, walk.hashes, ended)
  }

  @tailrec
  private def loop(
      job: Job,
      from: Walk,
      attempts: Int,
      unclear: Int,
      isAtHead: Boolean): Vote =
    (if (isAtHead) Right(from) else advance(job, from, attempts)) match {
      case Left(vote) => vote
      case Right(walk) =>
        if (attempts == 0)
          throw env.unfinished(job.entry, s"other writers of ${job.table.name} took every slot")
        val slot = walk.cursor + 1
        val place = placed(job, walk)
        val mark = job.mark(walk.part)
        val actions = job.table.reserve.filter(_ => walk.part == 0)
          .map(p => PublishedCommit.reserve(Protocol(p), job.table, mark, place))
          .getOrElse(PublishedCommit.publish(job.changes, job.table, mark, place))
        val store = stores.forPath(job.table.path.uri)
        observer.beforePublish(job.entry, job.table, walk.part, slot)
        val bytes = TableLog.text(actions)
        store.putIfAbsent(job.table.path.slot(slot), bytes) match {
          case PutOutcome.Created =>
            observer.published(job.entry, job.table, walk.part, slot)
            val now = job.log.tail(walk.cursor)
            if (isDoubtful(now, slot)) loop(job, walk, attempts - 1, unclear, isAtHead = false)
            else if (isElsewhere(job, walk, now)) gone(job)
            else {
              val commit = LogCommit(slot, actions, Some(Json.blake3(bytes)))
              job.tell(commit)
              val next = after(walk, commit, now.slot(slot))
                .copy(part = walk.part + 1, slots = walk.slots :+ slot, put = walk.put + slot)
              val isLast = now.head.contains(slot) && safeguards.listsFirst
              if (walk.part < job.last) loop(job, next, attempts - 1, unclear, isLast)
              else published(job, next, Option.when(isLast)(next))
            }
          case PutOutcome.AlreadyExists => loop(job, walk, attempts - 1, unclear, isAtHead = false)
          case PutOutcome.Unknown(cause) =>
            if (unclear == 0)
              throw env.unfinished(
                job.entry,
                s"the store of ${job.table.name} does not answer",
                Some(cause)
              )
            loop(job, walk, attempts - 1, unclear - 1, isAtHead = false)
        }
    }

  private def placed(job: Job, walk: Walk) = PublishedCommit.Place(
    walk.cursor + 1,
    clock.nowMs(),
    walk.previousMs,
    walk.rowIdHighWaterMark,
    walk.slots,
    job.log.timeOf
  )

  /** Whether our put may have landed in a deleted slot: a checkpoint at or above it exists by now. */
  private def isDoubtful(now: LogTail, slot: Long): Boolean =
    safeguards.checksAfterPut && now.hasCheckpointFrom(slot)

  /** Whether our put went into a log that was dropped before it, or into another one made since. */
  private def isElsewhere(job: Job, walk: Walk, now: LogTail): Boolean =
    walk.cursor >= 0 && safeguards.listsFirst && {
      val below = now.slot(walk.cursor).map(Environment.stamp)
      def isLost = below.isEmpty && !now.hasCheckpointFrom(walk.cursor)
      (below.isEmpty || below != walk.at) && (isLost || env.isAnotherLog(job.table))
    }

  /** To the head of the log, or to what decides. */
  @tailrec
  private def advance(job: Job, walk: Walk, attempts: Int): Either[Vote, Walk] = {
    val tail =
      if (safeguards.listsFirst) job.log.tail(walk.cursor) else probed(job.log, walk.cursor)
    tail.head match {
      case None if walk.cursor < 0 => Right(walk)
      case None => Left(gone(job))
      case Some(head) if head < walk.cursor => Left(gone(job))
      case Some(head) if isAnother(job, walk, tail, head) => Left(gone(job))
      case Some(head) if !tail.isCompleteFrom(walk.cursor + 1) => byState(job, walk, tail, head)
      case Some(head) =>
        through(job, walk, tail, head) match {
          case Some(result) => result
          case None if attempts == 0 =>
            throw env.unfinished(job.entry, "its log is being cleaned up")
          case None => advance(job, walk, attempts - 1)
        }
    }
  }

  /** The log without a listing, as far as slots can be read one after another. */
  private def probed(log: TableLog, cursor: Long): LogTail = {
    val slots = Iterator.from(1).map(i => cursor + i).takeWhile(v => log.read(v).isDefined)
      .map(v => ListedCommit(v, 0L, 0L)).toVector
    LogTail(
      cursor,
      if (slots.isEmpty) Vector(ListedCommit(cursor, 0L, 0L)) else slots,
      Vector.empty
    )
  }

  /** The folder holds another log than the one that was validated. */
  private def isAnother(job: Job, walk: Walk, tail: LogTail, head: Long): Boolean =
    walk.cursor == job.table.base && safeguards.listsFirst && env.isAnotherTable(
      job.table,
      tail,
      head
    )

  /** Reads the commits up to the head; nothing when one was cleaned up meanwhile. */
  @tailrec
  private def through(
      job: Job,
      walk: Walk,
      tail: LogTail,
      head: Long): Option[Either[Vote, Walk]] =
    if (walk.cursor >= head) Some(Right(walk))
    else
      job.log.read(walk.cursor + 1) match {
        case None => None
        case Some(commit) =>
          step(job, walk, tail, commit) match {
            case Right(next) if next.part > job.last => Some(Left(published(job, next)))
            case Right(next) => through(job, next, tail, head)
            case left => Some(left)
          }
      }

  private def step(job: Job, walk: Walk, tail: LogTail, commit: LogCommit): Either[Vote, Walk] = {
    def next = after(walk, commit, tail.slot(commit.version))
    commit.mark match {
      case Some(m)
          if m.isOf(timeline.id, job.entry.number, job.index) &&
            m.transaction != job.entry.transaction.id =>
        throw Errors(
          "LAKESTEP_TIMELINE_CORRUPT",
          "file" -> job.table.path.slot(commit.version),
          "reason" -> (s"it is of entry ${m.entry}, but of transaction ${m.transaction}: the folder of " +
            "the database was copied, and both copies are in use")
        )
      case Some(m) if m.isOf(timeline.id, job.entry.number, job.index) =>
        // A put that landed in a deleted slot hides what stood there, so only the state can tell. The
        // listing from before may be older than the clean-up.
        lazy val fresh = job.log.tail(walk.cursor)
        if (safeguards.checksAfterPut && fresh.hasCheckpointFrom(commit.version))
          byState(job, walk, fresh, fresh.head.getOrElse(commit.version))
        else if (!m.settles) {
          val part = if (safeguards.partsInMarks) m.part else job.table.parts
          Right(next.copy(part = part + 1, slots = walk.slots :+ commit.version))
        } else Left(Vote.Decided(met(job, Rule.Aborted, commit)))
      case _ if commit.version == 0 && !safeguards.readsVersionZero =>
        Right(next.copy(part = job.last + 1, slots = Vector(0L)))
      case Some(m) if m.timeline == timeline.id && m.entry > job.entry.number =>
        Left(Vote.Decided(met(job, Rule.Aborted, commit)))
      case _ =>
        val ours = job.ours(walk)
        options.rules.check(ours, commit) match {
          case Some(finding) =>
            Left(Vote.Conflicting(met(job, finding.rule, commit, finding.files)))
          case None => Right(next.copy(reads = ours.above(commit).reads))
        }
    }
  }

  private def after(walk: Walk, commit: LogCommit, slot: Option[ListedCommit]): Walk = walk.copy(
    cursor = commit.version,
    at = slot.map(Environment.stamp),
    previousMs = commit.info.flatMap(_.inCommitTimestampMs)
      .orElse(slot.map(_.modifiedMs)).orElse(walk.previousMs),
    rowIdHighWaterMark = commit.rowIdHighWaterMark.orElse(walk.rowIdHighWaterMark),
    hashes = seen(walk, Some(commit))
  )

  private def seen(walk: Walk, commits: Iterable[LogCommit]) =
    walk.hashes ++ commits.flatMap(c => c.hash.map(c.version -> _))

  /** Commits after the cursor are gone: the table's state has to answer. */
  private def byState(job: Job, walk: Walk, tail: LogTail, head: Long): Either[Vote, Walk] = {
    val state = states.stateAt(job.table.path, head)
    def settled = Left(Vote.Decided(over(job, Rule.Aborted)))
    if (!env.isOf(job.table, state, job.changes)) Left(gone(job))
    else {
      val run = tail.firstOfRun.getOrElse(head)
      val listed =
        tail.slots.filter(_.version >= run).flatMap(s => job.log.read(s.version)).filter {
          _.mark.exists(m =>
            m.isOf(timeline.id, job.entry.number, job.index) && !m.settles
          )
        }
      val mark = state.txnVersion(job.appId).map(StateMark.of).filter(_.entry >= job.entry.number)
      val known = listed.flatMap(_.mark).map(_.part).maxOption
      // Everything above the base of a table that is closed throughout is ours.
      def alone = Option.when(job.isAlone)((head - job.table.base).toInt)
      // A commit above every checkpoint is in the state; another one may stand in a deleted slot.
      val counted = listed.filterNot(c => tail.hasCheckpointFrom(c.version))
        .flatMap(_.mark).map(_.part).maxOption
      // Of two commits of one part the first one landed in a deleted slot. Those that the walk has
      // counted did not, and this listing may begin after them.
      val further = listed.filter(_.mark.exists(_.part >= walk.part))
      val slots = walk.slots ++
        further.groupBy(_.mark.map(_.part)).values.map(_.map(_.version).max).toVector.sorted
      val all = walk.copy(slots = slots, hashes = seen(walk, further))
      mark match {
        case Some(StateMark(entry, _)) if entry > job.entry.number => settled
        case Some(StateMark(_, MarkStatus.Published)) =>
          Left(
            if (known.contains(job.table.parts)) published(job, all)
            else Vote.Published(Vector(head))
          )
        case Some(StateMark(_, MarkStatus.Partly)) =>
          job.table.partly.orElse(alone).orElse(counted) match {
            case Some(part) if part >= job.last => Left(published(job, all))
            case Some(part)
                if job.isAlone || isFenced(job, state) || allows(job, walk, part + 1, state) =>
              Right(atHead(job, all, state, head).copy(part = part + 1))
            case _ => Left(cleaned(job))
          }
        case Some(_) => settled
        case None if allows(job, walk, walk.part, state) =>
          Right(atHead(job, walk, state, head))
        case None => Left(cleaned(job))
      }
    }
  }

  /** Whether the fence of this entry is on: whoever put it has looked at what was before it. */
  private def isFenced(job: Job, state: TableState): Boolean =
    job.table.reserve.isDefined && ForeignWriters.isFenced(state.protocol)

  /** Whether the state excludes a conflict with the parts from this one on. */
  private def allows(job: Job, walk: Walk, part: Int, state: TableState): Boolean = {
    val rest = job.changes.copy(parts = job.changes.parts.drop(part - 1))
    StateCheck.excludesConflict(job.table, job.ours(walk.copy(part = part)), rest, state, env)
  }

  private def atHead(job: Job, walk: Walk, state: TableState, head: Long): Walk = walk.copy(
    cursor = head,
    at = None,
    previousMs = job.log.timeOf(head).orElse(walk.previousMs),
    rowIdHighWaterMark = state.domain(DomainMetadata.RowTracking).flatMap(RowTracking.highWaterMark)
      .orElse(walk.rowIdHighWaterMark)
  )

  private def gone(job: Job): Vote =
    Vote.Conflicting(over(job, Rule.TableGone))

  private def cleaned(job: Job): Vote =
    Vote.Conflicting(over(job, Rule.LogCleanedUp))

  private def over(job: Job, rule: Rule): Conflict =
    Conflict.overTable(rule, job.table.name, job.table.path)

  private def met(
      job: Job,
      rule: Rule,
      commit: LogCommit,
      files: Vector[String] = Vector.empty): Conflict =
    env.conflict(rule, job.table.name, job.table.path, commit, files)
}
