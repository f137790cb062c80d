package io.lakestep.commit

import scala.annotation.tailrec

import io.lakestep.log.{
  CommitMark, ListedCommit, LogCommit, LogTail, MarkKind, NetChanges, ReadSet, SetTransaction,
  StateMark, TableLog, TableRef
}
import io.lakestep.timeline.{Conflict, EntryRead, Rule}

/** A table's log, checked up to its head, and what the transaction does there. */
private[commit] final case class Checked(
    changes: NetChanges,
    head: Long,
    slot: Option[ListedCommit],
    inCommitTimestampMs: Option[Long],
    rowIdHighWaterMark: Option[Long],
    reads: Option[ReadSet])

/** The logs of all tables that a transaction wrote, and of those that it read where that counts. */
private[commit] final case class Validated(written: Vector[Checked], reads: Vector[EntryRead])

/** Step 5c: every log from its pin to its head, against the transaction's changes and reads. */
private[commit] final class Validate(env: Environment, bindings: Bindings) {
  import env.{timeline, states, vectors, options, safeguards}

  private val late = new MisplacedCommits(env)

  /**
   * The commits after a pin, up to the head that was listed, none of which conflicts.
   *
   * @param reads what the transaction has read, and where others have moved it
   */
  private case class Walked(
      tail: LogTail,
      head: Long,
      commits: Vector[LogCommit],
      reads: Option[ReadSet])

  def apply(
      txn: BegunTransaction,
      staged: Vector[Staged],
      reads: Vector[ReadTable],
      known: KnownCommits): Either[Conflict, Validated] = {
    val counted = if (txn.readsCount) reads else Vector.empty
    val checks = staged.map(s => () => checkTable(s, readSet(txn, s), known)) ++
      counted.map(read => () => checkRead(read, known))
    val seen = env.inParallel(checks)(_())
    seen.collectFirst { case Left(c) => c }.toLeft(Validated(
      seen.collect { case Right(c: Checked) => c },
      seen.collect { case Right(r: EntryRead) => r }
    ))
  }

  private def readSet(txn: BegunTransaction, s: Staged): Option[ReadSet] =
    s.table.reads.filter(_ => txn.readsCount)

  private def checkTable(
      s: Staged,
      reads: Option[ReadSet],
      known: KnownCommits): Either[Conflict, Checked] = {
    val ours = OurChanges.of(s.changes.parts, reads, s.changes.bakesRows)
      .copy(vectorUpdates = RowMerge.vectorUpdates(s.changes))
    val walked = walk(s.log, s.table.name, s.table.pin, s.table.pinnedAs, ours, known)
    val isPinned = s.table.pinnedAs.forall(_.isOf(Some(s.binding.log)))
    // After the listing: what was dropped before it, and perhaps made anew, has lost its binding.
    val checked =
      if (isPinned && bindings.holds(s.table.path, s.binding))
        walked.filterOrElse(
          seen => !late.mayBeIn(s.log, s.binding.log, s.table.pin, seen.tail),
          cleaned(s.table.name, s.log)
        )
      else Left(gone(s.table.name, s.table.path))
    for {
      seen <- checked
      changes <- RowMerge(s.changes, seen.commits, vectors).left.map(sameRows(s, seen.commits, _))
    } yield {
      val Walked(tail, head, commits, read) = seen
      keepOthers(s, tail, commits)
      val last = commits.lastOption.orElse(
        Option.when(s.table.inCommitTimestamps && head >= 0)(s.log.read(head)).flatten
      )
      Checked(
        changes,
        head,
        tail.slot(head),
        last.flatMap(_.info).flatMap(_.inCommitTimestampMs),
        commits.flatMap(_.rowIdHighWaterMark).lastOption.orElse(s.table.rowIdHighWaterMark),
        read
      )
    }
  }

  /** Commits of others below ours: the one that is pinned, and those that came after it. */
  private def keepOthers(s: Staged, tail: LogTail, commits: Vector[LogCommit]): Unit = {
    val isOurs = timeline.known.lastSlot(s.binding.log).contains(s.table.pin)
    val pinned = Option.unless(isOurs)(s.table.pin).filter(tail.slot(_).isDefined)
    env.keep((pinned ++ commits.filter(_.mark.isEmpty).map(_.version)).toSeq
      .map(s.table.path.slot(_)): _*)
  }

  private def sameRows(s: Staged, commits: Vector[LogCommit], files: Vector[String]): Conflict = {
    val last = commits.reverseIterator.find(_.files.exists(f => files.contains(f.path)))
    last.fold(Conflict.overTable(Rule.SameRows, s.table.name, s.log.table, files))(
      env.conflict(Rule.SameRows, s.table.name, s.log.table, _, files)
    )
  }

  private def checkRead(read: ReadTable, known: KnownCommits): Either[Conflict, EntryRead] =
    walk(
      env.log(read.path),
      read.name,
      read.pin,
      read.pinnedAs,
      ConflictCheck.reading(read.reads),
      known
    ).flatMap { case Walked(tail, head, _, reads) =>
      val found = bindings.find(read.path).map(_.log)
      val id = found.getOrElse("")
      if (!read.pinnedAs.forall(_.isOf(found))) Left(gone(read.name, read.path))
      else if (late.mayBeIn(env.log(read.path), id, read.pin, tail))
        Left(cleaned(read.name, env.log(read.path)))
      else {
        val now = reads.getOrElse(read.reads)
        Right(EntryRead(id, read.path, read.name, read.pin, head, now))
      }
    }

  /** What the transaction read cannot be told any more. */
  private def cleaned(name: String, log: TableLog): Conflict =
    Conflict.overTable(Rule.LogCleanedUp, name, log.table)

  @tailrec
  private def walk(
      log: TableLog,
      name: String,
      pin: Long,
      pinned: Option[Pin],
      ours: OurChanges,
      known: KnownCommits,
      attempts: Int = 10): Either[Conflict, Walked] = {
    val tail = log.tail(pin)
    def over(rule: Rule) = Left(Conflict.overTable(rule, name, log.table))
    tail.head match {
      case _ if pin < 0 && (tail.head.isEmpty || !safeguards.looksForMade) =>
        Right(Walked(tail, -1L, Vector.empty, ours.reads))
      case None => over(Rule.TableGone)
      case Some(head) if head < pin || !pinned.forall(_.isIn(tail)) =>
        over(Rule.TableGone)
      case Some(_) if !tail.isCompleteFrom(pin + 1) => over(Rule.LogCleanedUp)
      case Some(head) =>
        val listed = tail.slots.filter(slot => slot.version > pin && slot.version <= head)
        val commits = env.inParallel(listed)(known(log, _))
        if (commits.exists(_.isEmpty)) {
          if (attempts > 0) walk(log, name, pin, pinned, ours, known, attempts - 1)
          else over(Rule.LogCleanedUp)
        } else {
          val read = commits.flatten
          judge(ours, read) match {
            case Left((commit, finding)) =>
              Left(env.conflict(finding.rule, name, log.table, commit, finding.files))
            case _ if hidesOthers(log, tail, read) => over(Rule.LogCleanedUp)
            case Right(now) => Right(Walked(tail, head, read, now.reads))
          }
        }
    }
  }

  private def judge(
      ours: OurChanges,
      commits: Vector[LogCommit]): Either[(LogCommit, Finding), OurChanges] =
    commits.foldLeft[Either[(LogCommit, Finding), OurChanges]](Right(ours)) { (judged, commit) =>
      judged.flatMap { now =>
        options.rules.check(now, commit).map(commit -> _).toLeft(now.above(commit))
      }
    }

  /**
   * Whether a commit of ours stands where the log had been cleaned up: a client that woke up late put
   * it there, and what it hides is not known. The real mark of its entry is a later one, or none.
   */
  private def hidesOthers(log: TableLog, before: LogTail, commits: Vector[LogCommit]): Boolean = {
    val ours = commits.filter(_.mark.exists(_.timeline == timeline.id))
    val tail = if (ours.isEmpty) before else log.tail(before.from)
    val marked = ours.filter(c => tail.hasCheckpointFrom(c.version))
    def isRepeated(mark: CommitMark, version: Long) = commits.exists { later =>
      later.version > version && later.mark.exists { m =>
        val follows = mark.kind match {
          case MarkKind.Reserve => m.kind != MarkKind.Reserve
          case MarkKind.Publish =>
            m.kind == MarkKind.Undo || (m.kind == MarkKind.Publish && m.part > mark.part)
          case _ => false
        }
        m.isOf(mark.timeline, mark.entry, mark.table) && !follows
      }
    }
    // Its own id of the table: one that others made, where an entry was to make it, has another.
    def isUnknown(commit: LogCommit) = tail.checkpoints.lastOption.exists { version =>
      val state = states.stateAt(log.table, version)
      val known = commit.actions.collect {
        case t: SetTransaction if CommitMark.isOwnAppId(t.appId) => state.txnVersion(t.appId)
      }.flatten.map(StateMark.of(_).entry)
      !known.exists(entry => commit.mark.exists(entry >= _.entry))
    }
    safeguards.checksAfterPut &&
    (marked.exists(c => c.mark.exists(isRepeated(_, c.version))) ||
      marked.lastOption.exists(isUnknown))
  }

  private def gone(name: String, path: TableRef): Conflict =
    Conflict.overTable(Rule.TableGone, name, path)
}
