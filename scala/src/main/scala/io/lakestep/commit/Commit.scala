package io.lakestep.commit

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.{Errors, Json, LakestepException}
import io.lakestep.log.{
  CommitMark, FileAction, Flatten, ForeignWriters, ListedCommit, LogCommit, LogTail, MarkKind,
  NetChanges, ReadSet, StateMark, TableLog, TableRef
}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{
  CommitEntry, Conflict, EntryRead, EntryTable, FileSums, RowIds, Rule, TimelineCodec, TimelineView
}

/**
 * Steps 4 to 6 of a transaction, then `Finish`.
 *
 * Before the order point whatever throws has changed nothing that anybody reads. From the order
 * point on nothing but a foreign conflict can fail the transaction.
 */
private[commit] final class Commit(env: Environment, bindings: Bindings, finish: Finish) {
  import env._

  /** A written table with what it does, bound. */
  private case class Staged(table: WrittenTable, binding: Binding, changes: NetChanges) {
    val log: TableLog = env.log(table.path)
  }

  /** A table's log, checked up to its head, and what we do there. */
  private case class Checked(
      changes: NetChanges,
      head: Long,
      slot: Option[ListedCommit],
      inCommitTimestampMs: Option[Long],
      rowIdHighWaterMark: Option[Long],
      reads: Option[ReadSet])

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
      tables: Seq[WrittenTable],
      reads: Seq[ReadTable]): CommitOutcome = {
    val staged =
      try Right(inParallel(tables.toVector)(stage(txn, _)))
      catch { case NonFatal(e) => Left(e) }
    val gone = staged.toSeq.flatten.collectFirst { case Left(conflict) => conflict }
    val written = staged.map(_.collect { case Right(s) if !s.changes.isEmpty => s })
    // Whoever ends a transaction by an ABORT entry deletes its staged commits after that.
    val ended = if (gone.isEmpty && written.exists(_.nonEmpty)) None else abortOf(txn)
    (written, ended.map(aborted).orElse(gone)) match {
      case (_, Some(conflict)) => CommitOutcome.Conflicted(conflict)
      case (Left(cause), None) => throw cause
      case (Right(Vector()), None) => CommitOutcome.NothingToCommit
      case (Right(all), None) =>
        // What takes its own change back has still been read.
        val unchanged =
          staged.toSeq.flatten.collect { case Right(s) if s.changes.isEmpty => s.table }
        val read = reads.toVector ++ unchanged.flatMap(_.asRead)
        refuseOneLogTwice(all)
        lateAbort(txn)(inParallel(all)(persist(txn, _))) match {
          case Some(conflict) => CommitOutcome.Conflicted(conflict)
          case None => order(txn, all, read, options.maxAttempts)
        }
    }
  }

  private val waiting = new Waiting(env)
  private val late = new MisplacedCommits(env)

  /** The conflict when this fails because an ABORT entry has ended the transaction meanwhile. */
  private def lateAbort(txn: BegunTransaction)(work: => Any): Option[Conflict] =
    try {
      work
      None
    } catch { case NonFatal(e) => Some(aborted(abortOf(txn).getOrElse(throw e))) }

  /** The ABORT entry that ended the transaction, if one did. */
  private def abortOf(txn: BegunTransaction): Option[Long] =
    if (safeguards.obeysAborts) timeline.refresh().aborted(txn.id) else None

  /** Steps 1 and 4. What was staged is gone when the table was deleted, or another is there. */
  private def stage(txn: BegunTransaction, table: WrittenTable): Either[Conflict, Staged] =
    log(table.path).staged(txn.id, table.pin, table.stagedTo).map(flatten(txn, table, _))
      .toRight(gone(table.name, table.path))

  private def gone(name: String, path: TableRef): Conflict =
    Conflict.overTable(Rule.TableGone, name, path)

  private def flatten(
      txn: BegunTransaction,
      table: WrittenTable,
      commits: Vector[LogCommit]): Staged = {
    val about =
      Flatten.Table(table.name, table.path, table.pin, table.rowTracking, table.pinned)
    val changes =
      if (table.oneCommit) Flatten(txn.id, about, commits)
      else Flatten.keepingCommits(txn.id, about, commits)
    val binding =
      if (changes.isEmpty) Binding(timeline.id, "", table.path)
      else bindings.bind(table.path, timeline.id)
    observer.flattened(txn.id, table.path)
    Staged(table, binding, changes)
  }

  /** Two paths to one log would publish one of the two changes only. */
  private def refuseOneLogTwice(staged: Vector[Staged]): Unit =
    staged.groupBy(_.binding.log).values.find(_.size > 1).foreach { same =>
      throw Errors(
        "LAKESTEP_TABLE_TWICE",
        "tables" -> same.map(_.table.name).mkString(", "),
        "paths" -> same.map(_.table.path).mkString(", ")
      )
    }

  /** The net actions, and every data file that they name, durable before the order point. */
  private def persist(txn: BegunTransaction, s: Staged): Unit = {
    val path = s.table.path
    val store = stores.forPath(path.uri)
    if (s.binding.path != path) {
      val staging = s.binding.path.staging(txn.id)
      val original = stores.forPath(s.binding.path.uri)
      // Another log there is that of a table to which the name went: this one was renamed.
      if (original.list(staging, "0").isEmpty &&
        Bindings.read(stores, s.binding.path).exists(_.log == s.binding.log))
        throw Errors(
          "LAKESTEP_TABLE_IS_A_COPY",
          "table" -> path.uri,
          "original" -> s.binding.path.uri
        )
    }
    val file = path.netActions(txn.id, s.changes.hash)
    val bytes = s.changes.encode
    // Only the entry tells others of it.
    store.putUnannounced(file, bytes) match {
      case PutOutcome.Created => ()
      case _ if store.get(file).exists(java.util.Arrays.equals(_, bytes)) => keep(file)
      case PutOutcome.Unknown(cause) =>
        throw Errors.caused("LAKESTEP_OUTCOME_UNKNOWN", cause, "file" -> file)
      case PutOutcome.AlreadyExists =>
        throw Errors(
          "LAKESTEP_LOG_CORRUPT",
          "file" -> file,
          "reason" -> "it holds another commit of this transaction"
        )
    }
    if (options.syncDataFiles) {
      val made = s.changes.madeFiles(path)
      made.foreach { file =>
        if (!stores.forPath(file).sync(file))
          throw Errors(
            "LAKESTEP_STAGED_FILE_LOST",
            "file" -> file,
            "transaction" -> txn.id,
            "table" -> s.table.name
          )
      }
      keep(made.flatMap(path.foldersAbove(_)).distinct: _*)
    }
  }

  /** Steps 5 and 6; again when somebody else took the number. */
  @tailrec
  private def order(
      txn: BegunTransaction,
      staged: Vector[Staged],
      reads: Vector[ReadTable],
      attempts: Int): CommitOutcome = {
    val early = if (safeguards.timelineFirst) None else Some(check(txn, staged, reads))
    val view = timeline.refresh()
    observer.timelineRead(txn.id, view.next)
    view.aborted(txn.id).filter(_ => safeguards.obeysAborts) match {
      case Some(entry) => CommitOutcome.Conflicted(aborted(entry))
      case None =>
        val gaveUp = help(txn, view, staged, reads)
        val checks = gaveUp.toLeft(()).flatMap(_ => early.getOrElse(check(txn, staged, reads)))
        checks.flatMap(makeEntry(txn, view, staged, _)) match {
          case Left(conflict) => CommitOutcome.Conflicted(conflict)
          case Right((entry, changes)) =>
            place(entry, options.putAttempts, None) match {
              case Placed.Ours(isDurable) => publish(entry, changes, isDurable)
              case Placed.Unclear(cause) => CommitOutcome.Unknown(cause)
              case Placed.Theirs if attempts <= 1 =>
                CommitOutcome.Conflicted(Conflict.overEntry(Rule.TooManyAttempts, view.next))
              case Placed.Theirs => order(txn, staged, reads, attempts - 1)
            }
        }
    }
  }

  private sealed trait Placed
  private object Placed {
    case class Ours(isDurable: Boolean) extends Placed
    case object Theirs extends Placed
    case class Unclear(cause: Throwable) extends Placed
  }

  /**
   * Step 6. Only a number that was read decides after a put that may have had an effect: while it is
   * absent, or cannot be read, the entry may be ours or may still become it.
   *
   * @param doubt why an earlier put of this entry may have had an effect, if one may
   */
  @tailrec
  private def place(entry: CommitEntry, attempts: Int, doubt: Option[Throwable]): Placed = {
    observer.beforeOrder(entry)
    val put =
      try timeline.putEntry(entry)
      catch {
        case e: LakestepException if doubt.isEmpty => throw e
        case NonFatal(e) => PutOutcome.Unknown(e)
      }
    put match {
      case PutOutcome.Created => Placed.Ours(isDurable = true)
      case other =>
        val cause = other match {
          case PutOutcome.Unknown(e) => e
          case _ =>
            doubt.getOrElse(new java.io.IOException(s"entry ${entry.number} cannot be read"))
        }
        readBack(entry) match {
          case Some(true) => Placed.Ours(isDurable = false)
          case Some(false) => Placed.Theirs
          case None if attempts <= 1 => Placed.Unclear(cause)
          case None => place(entry, attempts - 1, Some(cause))
        }
    }
  }

  private def readBack(entry: CommitEntry): Option[Boolean] =
    try timeline.holds(entry)
    catch { case NonFatal(_) => None }

  private def publish(
      entry: CommitEntry,
      changes: Vector[NetChanges],
      isDurable: Boolean): CommitOutcome =
    try {
      if (!isDurable) keep(timeline.entryFile(entry.number))
      observer.ordered(entry)
      val hash = Json.blake3(TimelineCodec.encode(entry))
      finish.own(entry, hash, changes) match {
        case Finished.Completed(slots) => CommitOutcome.Committed(entry, slots)
        case Finished.RolledBack(conflict, residue) =>
          val left = Residue.visible(residue)
          if (left.isEmpty) CommitOutcome.Conflicted(conflict, Some(entry.number))
          else CommitOutcome.LeftResidue(conflict, entry.number, left)
      }
    } catch {
      case e @ (NonFatal(_) | _: LinkageError) => CommitOutcome.Unknown(e, Some(entry.number))
      case e: InterruptedException =>
        Thread.currentThread.interrupt()
        CommitOutcome.Unknown(e, Some(entry.number))
    }

  /** Step 5b: finishes entries that write what we wrote, and what we read if that counts. */
  private def help(
      txn: BegunTransaction,
      view: TimelineView,
      staged: Vector[Staged],
      reads: Vector[ReadTable]): Option[Conflict] = {
    val read =
      if (safeguards.helpsReads && isSerializable(txn))
        reads.flatMap(r => bindings.find(r.path)).map(_.log)
      else Vector.empty
    val logs = staged.map(_.binding.log).toSet ++ read
    val met = view.unfinished.filter(_.tables.exists(t => logs(t.log)))
    val gaveUp = met.iterator.flatMap(waiting(_, logs)).nextOption()
    if (gaveUp.isEmpty) {
      met.foreach(entry => view.status(entry.number).foreach(s => finish.help(entry, s.hash)))
      observer.helped(txn.id)
    }
    gaveUp
  }

  private def isSerializable(txn: BegunTransaction) = txn.isolation == IsolationLevel.Serializable

  /** Step 5c: every log from its pin to its head, against our changes. */
  private def check(
      txn: BegunTransaction,
      staged: Vector[Staged],
      reads: Vector[ReadTable]): Either[Conflict, (Vector[Checked], Vector[EntryRead])] = {
    val written = inParallel(staged)(s => checkTable(s, readSet(txn, s)))
    written.collectFirst { case Left(c) => c } match {
      case Some(conflict) => Left(conflict)
      case None =>
        val counted = if (isSerializable(txn)) reads else Vector.empty
        val seen = inParallel(counted)(checkRead)
        seen.collectFirst { case Left(c) => c } match {
          case Some(conflict) => Left(conflict)
          case None =>
            Right((written.collect { case Right(c) => c }, seen.collect { case Right(r) => r }))
        }
    }
  }

  private def readSet(txn: BegunTransaction, s: Staged): Option[ReadSet] =
    s.table.reads.filter(_ => isSerializable(txn))

  private def checkTable(s: Staged, reads: Option[ReadSet]): Either[Conflict, Checked] = {
    val ours = OurChanges.of(s.changes.parts, reads)
      .copy(vectorUpdates = RowMerge.vectorUpdates(s.changes))
    val walked = walk(s.log, s.table.name, s.table.pin, s.table.pinnedAs, ours)
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
      Walked(tail, head, commits, read) = seen
      changes <- RowMerge(s.changes, commits, vectors).left.map(sameRows(s, commits, _))
    } yield {
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
    keep((pinned ++ commits.filter(_.mark.isEmpty).map(_.version)).toSeq
      .map(s.table.path.slot(_)): _*)
  }

  private def sameRows(s: Staged, commits: Vector[LogCommit], files: Vector[String]): Conflict = {
    val last = commits.reverseIterator.find(_.files.exists(f => files.contains(f.path)))
    last.fold(Conflict.overTable(Rule.SameRows, s.table.name, s.log.table, files))(
      conflict(Rule.SameRows, s.table.name, s.log.table, _, files)
    )
  }

  private def checkRead(read: ReadTable): Either[Conflict, EntryRead] =
    walk(
      log(read.path),
      read.name,
      read.pin,
      read.pinnedAs,
      ConflictCheck.reading(read.reads)
    ).flatMap { case Walked(tail, head, _, reads) =>
      val found = bindings.find(read.path).map(_.log)
      val known = found.getOrElse("")
      if (!read.pinnedAs.forall(_.isOf(found))) Left(gone(read.name, read.path))
      else if (late.mayBeIn(log(read.path), known, read.pin, tail))
        Left(cleaned(read.name, log(read.path)))
      else {
        val now = reads.getOrElse(read.reads)
        Right(EntryRead(known, read.path, read.name, read.pin, head, now))
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
      attempts: Int = 10): Either[Conflict, Walked] = {
    val tail = log.tail(pin)
    def over(rule: Rule) = Left(Conflict.overTable(rule, name, log.table))
    tail.head match {
      case None if pin < 0 => Right(Walked(tail, -1L, Vector.empty, ours.reads))
      case None => over(Rule.TableGone)
      case Some(head) if head < pin || !pinned.forall(_.isIn(tail)) =>
        over(Rule.TableGone)
      case Some(_) if !tail.isCompleteFrom(pin + 1) => over(Rule.LogCleanedUp)
      case Some(head) =>
        val commits = (pin + 1 to head).toVector.map(log.read)
        if (commits.exists(_.isEmpty)) {
          if (attempts > 0) walk(log, name, pin, pinned, ours, attempts - 1)
          else over(Rule.LogCleanedUp)
        } else {
          val read = commits.flatten
          judge(ours, read) match {
            case Left((commit, finding)) =>
              Left(conflict(finding.rule, name, log.table, commit, finding.files))
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
    def isUnknown(mark: CommitMark) = tail.checkpoints.lastOption.exists { version =>
      val state = states.stateAt(log.table, version)
      !state.txnVersion(CommitMark.appId(timeline.id, state.metadataId))
        .exists(StateMark.of(_).entry >= mark.entry)
    }
    safeguards.checksAfterPut &&
    (marked.exists(c => c.mark.exists(isRepeated(_, c.version))) ||
      marked.lastOption.flatMap(_.mark).exists(isUnknown))
  }

  /** The entry for what was checked, with its net actions; merged rows are durable before it. */
  private def makeEntry(
      txn: BegunTransaction,
      view: TimelineView,
      staged: Vector[Staged],
      checks: (Vector[Checked], Vector[EntryRead]))
      : Either[Conflict, (CommitEntry, Vector[NetChanges])] = {
    val (checked, reads) = checks
    val merged = staged.zip(checked).map { case (s, c) => s.copy(changes = c.changes) }
    val fresh = merged.zip(staged).collect { case (m, s) if m.changes ne s.changes => m }
    lateAbort(txn)(inParallel(fresh)(persist(txn, _))).toLeft {
      observer.validated(txn.id)
      val entry = CommitEntry(
        number = view.next,
        previousHash = view.lastHash,
        timeMs = clock.nowMs(),
        rules = options.rules.version,
        transaction = txn.requested,
        message = None,
        tables = reserving(merged.zip(checked).map { case (s, c) =>
          s -> entryTable(s, c)
        }),
        reads = reads
      )
      entry -> merged.map(_.changes)
    }
  }

  /**
   * Fences for tables of mode `reserve`, where there is something that could be undone: at least two
   * tables that a foreign commit can conflict with.
   */
  private def reserving(tables: Vector[(Staged, EntryTable)]): Vector[EntryTable] = {
    val contested = tables.count { case (_, t) => t.conflictCapable && !t.closed }
    tables.map {
      case (s, t)
          if contested > 1 && t.conflictCapable && t.parts == 1 &&
            isMode(s, ForeignWriters.Reserve) =>
        t.copy(reserve = s.table.pinned.map(_.protocol.body))
      case (_, t) => t
    }
  }

  private def isMode(s: Staged, mode: String): Boolean =
    s.table.pinned.exists(p => ForeignWriters.mode(p.metaData) == mode)

  private def entryTable(s: Staged, c: Checked): EntryTable = EntryTable(
    log = s.binding.log,
    tableId = s.table.tableId,
    path = s.table.path,
    name = s.table.name,
    metastore = s.table.metastore,
    pin = s.table.pin,
    base = c.head,
    baseSlot = c.slot.map(Environment.stamp),
    parts = s.changes.parts.size,
    conflictCapable =
      OurChanges.of(s.changes.parts, c.reads).isConflictCapable(s.changes.parts.size),
    // The property alone, set by somebody else, keeps nobody out.
    closed = isMode(s, ForeignWriters.Forbid) &&
      s.table.pinned.exists(p => ForeignWriters.isFenced(p.protocol)),
    reserve = None,
    reads = c.reads,
    actionsHash = s.changes.hash,
    metaDataHash = s.table.pinned.map(p => hashOf(p.metaData.body)),
    protocolHash = s.table.pinned.map(p => hashOf(p.protocol.body)),
    inCommitTimestamps = s.table.inCommitTimestamps,
    inCommitTimestampMs = c.inCommitTimestampMs,
    rowIds = Option.when(s.table.rowTracking) {
      val pinned = s.table.rowIdHighWaterMark.getOrElse(-1L)
      RowIds(pinned, c.rowIdHighWaterMark.getOrElse(pinned))
    },
    added = sums(s.changes.adds),
    removed = sums(s.changes.removes)
  )

  private def sums(files: Vector[FileAction]): FileSums =
    FileSums(files.size.toLong, files.flatMap(_.liveRows).sum, files.map(_.sizeBytes).sum)

  private def aborted(entry: Long): Conflict = Conflict.overEntry(Rule.Aborted, entry)
}
