package io.lakestep.simulation

import io.lakestep.commit.{CommitOutcome, TransactionStatus}
import io.lakestep.log.{AddFile, FileAction, LogCommit, MarkKind, MetaData, RemoveFile, TableRef}
import io.lakestep.timeline.{
  AbortEntry, Aborting, CommitEntry, Completed, Conflict, EntryTable, Rule
}

/**
 * Holds a finished history against the invariants and names every one that is broken.
 *
 * It knows what the clients planned, what they were told, and what really stands in the store; of
 * the product's code it uses only the decoders of files.
 *
 * @param strict whether some client judged every foreign commit a conflict
 */
final class Judge(
    world: World,
    roots: Vector[String],
    strict: Boolean) {
  import Judge.{isConflict, onlyTakesRows, rowsFit}

  private val attempts = world.attempts

  private val logs = Truth.logs(world)
  private val timelines = roots.flatMap(Truth.timeline(world, _))
  private val planned: Map[String, Attempt] = attempts.map(a => a.transaction -> a).toMap

  private def violated(message: String): Unit = world.violated(message)

  /** The logs of tables that nobody dropped. */
  private def kept: Vector[TrueLog] = logs.values.filterNot(l => world.dropped(l.table)).toVector

  def judge(): Unit = {
    kept.sortBy(_.table).flatMap(_.faults).foreach(violated)
    timelines.foreach { t =>
      t.faults.foreach(violated)
      t.entries.foreach(e => entry(t, e))
      onePerTransaction(t)
    }
    strayMarks()
    files()
    kept.foreach(rows)
    attempts.foreach(answer)
    world.statuses.foreach(described)
    world.snapshots.foreach(snapshot)
    world.queries.foreach(query)
    names.foreach(_.judge())
    if (world.hasPurges) world.purges.judge()
    timelines.foreach(batches)
  }

  /** A batch is committed once, and none before an earlier one; of one that is not, nobody is told so. */
  private def batches(timeline: TrueTimeline): Unit = {
    val all = completedBatches(timeline.root)
    if (all.nonEmpty) world.counts.event("committed batch", all.size.toLong)
    for (((entry, batch), (next, later)) <- all.zip(all.drop(1)) if later <= batch)
      violated(s"BATCH $batch of entry $entry is before $later of entry $next")
    world.replays.filter(_.root == timeline.root).foreach { replay =>
      world.counts.event("replayed batch")
      if (!all.contains(replay.entry -> replay.batch))
        violated(s"BATCH $replay, and $all are committed")
    }
  }

  private def completedBatches(root: String): Vector[(Long, Long)] = for {
    timeline <- timelines if timeline.root == root
    e <- timeline.entries if e.isCompleted
    c <- Vector(e.entry).collect { case c: CommitEntry => c }
    batch <- c.batches.flatMap(_.batch)
  } yield c.number -> batch

  private val names: Option[NamesJudge] =
    timelines.find(_.root == History.MainRoot).filter(_ => world.metastores.nonEmpty)
      .map(new NamesJudge(world, _, logs))

  private val entries: Map[(String, Long), TrueEntry] =
    (for (t <- timelines; e <- t.entries) yield (t.id, e.entry.number) -> e).toMap

  private def rows(log: TrueLog): Unit = {
    def entryOf(m: PlacedMark) = entries.get((m.mark.timeline, m.mark.entry))
    def change(m: PlacedMark): Option[RowChange] =
      if (!entryOf(m).exists(_.isCompleted)) None
      else
        planned.get(m.mark.transaction).flatMap(_.writes.find(_.table == log.table))
          .flatMap(_.parts.lift(m.mark.part - 1))
    def hasResidue(m: PlacedMark) = entryOf(m).flatMap(_.rolledBack)
      .flatMap(_.tables.lift(m.mark.table)).exists(_.residue.nonEmpty)
    new RowReplay(log, change, hasResidue, violated).check()
  }

  private def entry(timeline: TrueTimeline, e: TrueEntry): Unit = e.entry match {
    case _: AbortEntry => world.counts.event("abort entry")
    case c: CommitEntry if c.tables.exists(t => world.isDamaged(t.path.uri)) =>
      world.counts.event("entry over a damaged table")
    case c: CommitEntry =>
      val tables = c.tables.zipWithIndex.filterNot(t => world.dropped(t._1.path.uri)).map {
        case (t, i) =>
          new SettledLog(c, i, logs(t.path.uri), logs(t.path.uri).marksOf(timeline.id, c.number, i))
      }
      tables.foreach(ownMarks)
      saysHowToPublish(c)
      e.outcome match {
        case Some(done: Completed) =>
          if (isOverClosed(c)) world.counts.event("committed entry over closed tables")
          completed(c, done, tables)
        case Some(aborting: Aborting) =>
          overClosed(c, aborting)
          aborted(c, aborting, e, tables)
        case None => violated(s"I6 entry ${c.number} of ${timeline.root} has no outcome")
      }
  }

  /** Whether no foreign writer could commit to any of its tables since it was validated. */
  private def isOverClosed(c: CommitEntry): Boolean = c.tables.forall(isClosed)

  private def isClosed(t: EntryTable): Boolean =
    !world.dropped(t.path.uri) && logs(t.path.uri).headers.lift(t.base.toInt).exists(_.isClosed)

  /** What is ordered over closed tables is committed; no transaction here opens one half-way. */
  private def overClosed(c: CommitEntry, a: Aborting): Unit =
    if (isOverClosed(c))
      violated(s"CLOSED entry ${c.number} was rolled back, over closed tables: ${a.evidence}")

  private final class SettledLog(
      val entry: CommitEntry,
      val index: Int,
      val log: TrueLog,
      val marks: Vector[PlacedMark]) {
    def parts: Vector[PlacedMark] = marks.filter(_.mark.kind == MarkKind.Publish)
    def puts: Vector[PlacedMark] = marks.filterNot(_.mark.settles)
    def of(kind: MarkKind): Vector[PlacedMark] = marks.filter(_.mark.kind == kind)
    def write: Option[PlannedWrite] =
      planned.get(entry.transaction.id).flatMap(_.writes.find(_.table == log.table))
    def name: String = s"entry ${entry.number}, ${log.table}"
  }

  /** What every helper acts on must follow from what was planned, and from the logs at the pins. */
  private def saysHowToPublish(c: CommitEntry): Unit = {
    val known = new HowToPublish(logs, planned.get(c.transaction.id).toVector.flatMap(_.writes))
    val (dropped, kept) = c.tables.partition(t => world.dropped(t.path.uri))
    kept.foreach { t =>
      def hold[A](what: String, said: A, is: A): Unit =
        if (said != is)
          violated(s"MODE entry ${c.number}, ${t.path.uri}: $what is $said, and is $is at the pin")
      hold("pin", Option(t.pin), known.pin(t.path.uri))
      hold("closed", t.closed, known.isClosed(t.path.uri))
      hold("conflictCapable", t.conflictCapable, known.isCapable(t.path.uri))
      hold("parts", t.parts, known.parts(t.path.uri))
      // It depends on the other tables, too.
      if (dropped.isEmpty) hold("reserve", t.reserve, known.reserve(t.path.uri))
    }
  }

  private def ownMarks(t: SettledLog): Unit = {
    val parts = t.parts.map(_.mark.part)
    if (parts.distinct.size != parts.size) violated(s"I3 ${t.name} was published twice: $parts")
    if (t.of(MarkKind.Reserve).size > 1) violated(s"I3 ${t.name} was fenced twice")
    if (t.of(MarkKind.Close).size > 1 || t.of(MarkKind.Undo).size > 1)
      violated(s"I3 ${t.name} was settled twice")
    for (own <- t.parts; write <- t.write) {
      val commit = t.log.commits(own.slot.toInt)
      val actions = commit.actions
      val paths = actions.collect { case a: AddFile => a.path } ++
        actions.collect { case r: RemoveFile => r.path }
      if (!paths.forall(p => write.adds(p) || write.removes(p)))
        violated(s"I3 ${t.name} holds changes that nobody planned")
    }
    val published = t.parts.map(_.slot)
    val settled = (t.of(MarkKind.Close) ++ t.of(MarkKind.Undo)).map(_.slot)
    for (s <- settled; p <- published ++ t.of(MarkKind.Reserve).map(_.slot) if p > s)
      violated(s"I1 ${t.name} was published after it was settled")
  }

  private def completed(c: CommitEntry, done: Completed, tables: Vector[SettledLog]): Unit = {
    world.counts.event("committed entry")
    tables.foreach { t =>
      if (t.parts.map(_.mark.part) != (1 to c.tables(t.index).parts).toVector)
        violated(s"I1 ${t.name} is completed, and its log holds parts ${t.parts.map(_.mark.part)}")
      else if (done.slots(t.index) != t.puts.map(_.slot) && !isAfterCleanUp(
          t,
          done.slots(t.index)
        ))
        violated(
          s"I1 ${t.name} is completed with slots ${done.slots(t.index)}, not ${t.puts.map(_.slot)}"
        )
      if (t.of(MarkKind.Reserve).nonEmpty) world.counts.event("table fenced while published")
      if (t.marks.exists(_.mark.settles))
        violated(s"I1 ${t.name} is completed, and was closed or undone")
      val published = t.parts.map(p => t.log.commits(p.slot.toInt)).flatMap(_.actions)
      t.write.foreach { w =>
        val missing = w.adds -- published.collect { case a: AddFile => a.path }
        if (missing.nonEmpty) violated(s"I3 ${t.name} is completed without $missing")
        val vectors = published.collect { case a: AddFile => a.path -> Cells.deleted(a) }.toMap
        if (w.vectors.nonEmpty) world.counts.event("table with rows taken")
        if (w.vectors.exists { case (p, v) => vectors.get(p).exists(_ != v.ours) })
          world.counts.event("table with rows merged")
      }
      if (c.tables(t.index).base >= 0) {
        val wasClosed = logs(t.log.table).headers(c.tables(t.index).base.toInt).isClosed
        val isClosed = t.parts.lastOption.exists(p => t.log.headers(p.slot.toInt).isClosed)
        if (isClosed && !wasClosed) world.counts.event("table closed")
        if (wasClosed && !isClosed) world.counts.event("table opened")
      }
      firstCommitter(t)
      makes(t)
    }
  }

  /** Of those that make a table at most one is committed: the one whose commit is version 0. */
  private def makes(t: SettledLog): Unit = if (t.entry.tables(t.index).pin < 0) {
    world.counts.event("committed entry that makes a table")
    val id = t.log.headers.headOption.flatMap(_.metaData).map(_.id)
    if (!t.parts.headOption.exists(_.slot == 0) || !id.contains(t.entry.tables(t.index).tableId))
      violated(s"I1 ${t.name} is completed, and version 0 is of the table $id")
  }

  /** What is left of a table that it was to make holds nothing of it, whatever others did there. */
  private def unmade(t: SettledLog): Unit =
    for (write <- t.write if write.pin < 0; end <- t.marks.find(_.mark.settles)) {
      val where = if (end.slot == 0) "as version 0" else "of a table that was to be made"
      world.counts.event(s"${end.mark.kind.text} $where")
      val left = t.log.live(end.slot.toInt).keySet & write.adds
      if (left.nonEmpty)
        violated(s"I1 ${t.name} is rolled back, and $left is live where it was made")
    }

  /** Where the commit was cleaned up before the outcome was put, the slot may be a later one. */
  private def isAfterCleanUp(t: SettledLog, slots: Vector[Long]): Boolean =
    t.parts.lastOption.exists { last =>
      t.puts.exists(p =>
        world.wasDeleted(TableRef(t.log.table).slot(p.slot))
      ) && slots.lastOption.exists { said =>
        said >= last.slot && !t.log.marks.exists(m => m.slot > last.slot && m.slot <= said)
      }
    }

  /**
   * I5: what stands between what we read and what we published must not conflict with it. Up to the
   * version that was validated rows count, where both only took some; after it files do.
   */
  private def firstCommitter(t: SettledLog): Unit =
    for (write <- t.write; first <- t.parts.headOption) {
      val base = t.entry.tables(t.index).base
      def breaks(version: Long) =
        violated(s"I5 ${t.name} published over version $version, which conflicts")
      between(t.log, write.pin, base + 1)
        .filter(c => isConflict(write, c) && !onlyTakesRows(write, c))
        .foreach(c => breaks(c.version))
      if (!rowsFit(write, t.log, base)) breaks(base)
      between(t.log, base, first.slot).filter(isConflict(write, _)).foreach(c => breaks(c.version))
    }

  private def between(log: TrueLog, after: Long, before: Long): Vector[LogCommit] =
    log.commits.slice((after + 1).toInt, before.toInt)

  private def aborted(
      c: CommitEntry,
      a: Aborting,
      e: TrueEntry,
      tables: Vector[SettledLog]): Unit = {
    world.counts.event("rolled back entry")
    if (e.rolledBack.isEmpty) violated(s"I6 entry ${c.number} is aborting and never ended")
    // With several commits a foreign one between them can undo the first of them.
    val open = c.tables.filter(t => t.conflictCapable && t.reserve.isEmpty && !t.closed)
    val capable = open.size + open.count(_.parts > 1)
    // A change of metadata, or a DROP, can conflict with a table of appends as well.
    val exposed = c.tables.exists(t => world.dropped(t.path.uri)) || tables.exists { t =>
      !c.tables(t.index).conflictCapable &&
      between(t.log, c.tables(t.index).base, t.log.commits.size.toLong).exists(changesMetaData)
    }
    tables.foreach { t =>
      unmade(t)
      if (t.of(MarkKind.Close).nonEmpty && t.of(MarkKind.Undo).nonEmpty)
        violated(s"I1 ${t.name} was both closed and undone")
      if (t.parts.nonEmpty && t.of(MarkKind.Undo).isEmpty)
        violated(
          s"I1 ${t.name} is rolled back, and its log holds parts ${t.parts.map(_.mark.part)}"
        )
      if (t.of(MarkKind.Undo).nonEmpty) {
        world.counts.event("undo")
        if (capable <= 1 && !strict && !exposed)
          violated(s"NEEDLESS ${t.name} was undone with $capable conflict-capable table(s)")
      }
      t.of(MarkKind.Undo).foreach { u =>
        e.rolledBack.toVector.flatMap(_.tables.lift(t.index)).flatMap(_.version).foreach { said =>
          if (said < u.slot || t.log.marks.exists(m => m.slot > u.slot && m.slot <= said))
            violated(s"I4 ${t.name} is said to be undone at version $said, not ${u.slot}")
        }
        val residue = e.rolledBack.toVector.flatMap(_.tables.lift(t.index)).flatMap(_.residue)
        if (residue.nonEmpty) {
          world.counts.event("residue")
          val isKnown = !residue.exists(_.startsWith("unknown"))
          if (isKnown && capable <= 1 && !strict && !exposed)
            violated(s"NEEDLESS ${t.name} left residue")
        } else undone(t, u.slot)
      }
    }
    // With several commits a checkpoint after the first one is enough to leave the log aside.
    val cleaned = a.evidence.rule == Rule.LogCleanedUp &&
      c.tables.exists(t =>
        t.path.uri == Alias.real(a.evidence.path) && (
          world.wasDeleted(TableRef(t.path.uri).slot(t.base + 1)) ||
            (t.parts > 1 && world.hasCheckpoint(TableRef(t.path.uri).log, t.base + 1))
        )
      )
    if (cleaned) world.counts.event("rolled back because the log was cleaned up")
    val dropped = c.tables.exists(t => world.dropped(t.path.uri))
    if (!cleaned && !dropped && !tables.exists(t => foreignConflict(t)))
      violated(
        s"NEEDLESS entry ${c.number} was rolled back without a foreign conflict: ${a.evidence}"
      )
  }

  private def changesMetaData(commit: LogCommit): Boolean =
    commit.mark.isEmpty && commit.actions.exists(_.isInstanceOf[MetaData])

  /** The metadata that held after a version. */
  private def header(log: TrueLog, version: Long): Option[MetaData] =
    log.commits.take(version.toInt + 1).flatMap(_.actions).collect { case m: MetaData =>
      m
    }.lastOption

  /** Nothing of it may be left when no residue is listed. */
  private def undone(t: SettledLog, slot: Long): Unit = t.write.foreach { w =>
    val after = t.log.live(slot.toInt).keySet
    val published = t.parts.map(p => t.log.commits(p.slot.toInt)).flatMap(_.actions)
    val adds = published.collect { case a: AddFile => a.path }.toSet
    val removes = published.collect { case r: RemoveFile => r.path }.toSet
    val first = t.parts.head.slot
    // That of a table that it made stays: a log without one is none.
    if (w.pin >= 0 && header(t.log, slot) != header(t.log, first - 1) &&
      !between(t.log, first, slot).exists(changesMetaData))
      violated(s"I1 ${t.name} is undone, and its metadata is not")
    // What became of a file that only got another vector, the rows say.
    val left = after.filter(f => (adds -- removes)(Cells.origin(f)))
    if (left.nonEmpty) violated(s"I1 ${t.name} is undone, and $left is still live")
    val missing = (removes -- adds).filterNot(after)
    if (missing.nonEmpty)
      violated(s"I3 ${t.name} is undone, and $missing (of ${w.removes}) did not come back")
  }

  private def foreignConflict(t: SettledLog): Boolean = t.write.exists { w =>
    val end = t.marks.headOption.fold(Long.MaxValue)(_.slot).min(t.log.commits.size.toLong)
    between(t.log, t.entry.tables(t.index).base, end.max(0)).exists { c =>
      c.mark.isEmpty && (strict || isConflict(w, c))
    } || (w.parts.size > 1 && {
      val stop = t.marks.lastOption.fold(t.log.commits.size.toLong)(_.slot)
      val start = t.parts.headOption.fold(Long.MaxValue)(_.slot)
      start < stop && between(t.log, start, stop).exists { c =>
        c.mark.isEmpty && (strict || isConflict(w, c))
      }
    })
  }

  private def onePerTransaction(timeline: TrueTimeline): Unit = {
    val commits = timeline.entries.map(_.entry).collect { case c: CommitEntry => c }
    commits.groupBy(_.transaction.id).foreach { case (id, several) =>
      if (several.size > 1) violated(s"I2 $id has the entries ${several.map(_.number)}")
    }
    for {
      a <- timeline.entries.map(_.entry).collect { case a: AbortEntry => a }
      c <- commits if c.number > a.number && a.transactions.contains(c.transaction.id)
    } violated(s"I2 entry ${c.number} orders ${c.transaction.id}, which entry ${a.number} aborted")
  }

  /** Every mark in a log belongs to an entry that writes that table. */
  private def strayMarks(): Unit = for (log <- kept; PlacedMark(slot, m) <- log.marks) {
    val known = timelines.filter(_.id == m.timeline).flatMap(_.entries).map(_.entry).exists {
      case c: CommitEntry =>
        c.number == m.entry && c.transaction.id == m.transaction &&
        c.tables.lift(m.table).exists(_.path.uri == log.table)
      case _ => false
    }
    if (!known) violated(s"I2 ${log.table} version $slot holds the mark of no entry: $m")
  }

  /** No file that a visible commit ever added may be deleted by anybody. */
  private def files(): Unit = for {
    log <- kept
    path <- log.commits.flatMap(_.actions).collect { case a: AddFile => a.path }.distinct
    if !world.store.exists(TableRef(log.table).dataFile(path))
  } violated(s"I3 the file $path of ${log.table} is gone")

  private def answer(a: Attempt): Unit = {
    val entry = timelines.filter(_.root == a.root).flatMap(_.entries).find { e =>
      e.entry match {
        case c: CommitEntry => c.transaction.id == a.transaction
        case _ => false
      }
    }
    val isCompleted = entry.exists(_.isCompleted)
    if (isCompleted && !a.isRunAgain) entry.foreach(e => readSet(a, e))
    a.answer.foreach {
      case CommitOutcome.Conflicted(conflict, _) if a.isRunAgain =>
        world.counts.event("answer conflicted, and run again")
        needless(a, conflict)
      case CommitOutcome.Committed(c, slots, _, _, _, _) =>
        world.counts.event("answer committed")
        if (!isCompleted) violated(s"I2 ${a.transaction} was told committed, and is not")
        entry.flatMap(_.outcome).foreach {
          case done: Completed if done.slots != slots || c.number != done.number =>
            violated(s"I2 ${a.transaction} was told slots $slots, and they are ${done.slots}")
          case _ => ()
        }
        entry.foreach { e =>
          if (e.finishedAt > a.answeredAt)
            violated(s"I2 ${a.transaction} was told committed too early")
        }
      case CommitOutcome.Conflicted(conflict, _) =>
        world.counts.event("answer conflicted")
        if (isCompleted) violated(s"I2 ${a.transaction} was told $conflict, and is committed")
        if (entry.isEmpty) needless(a, conflict)
      case CommitOutcome.LeftResidue(_, number, residue) =>
        world.counts.event("answer rolled back with residue")
        val told = entry.flatMap(_.rolledBack).map(_.tables.flatMap(_.residue))
        if (isCompleted || residue.isEmpty || !entry.exists(_.entry.number == number) ||
          !told.exists(all => residue.forall(r => all.exists(r.endsWith))))
          violated(s"I2 ${a.transaction} was told of residue $residue, and $told is left")
      case CommitOutcome.Unknown(_, _) => world.counts.event("answer unknown")
      case CommitOutcome.NothingToCommit =>
        violated(s"I3 ${a.transaction} was told that it changed nothing")
    }
  }

  private def needless(a: Attempt, conflict: Conflict): Unit = {
    if (conflict.rule == Rule.SameRows) world.counts.event("answer same rows")
    if (conflict.rule == Rule.NameChanged) names.foreach(_.needless(a, conflict))
    else if (Set[Rule](Rule.BatchApplied, Rule.BatchBehind)(conflict.rule)) {
      val isSo = completedBatches(a.root).exists { case (entry, batch) =>
        conflict.entry.contains(entry) && a.batch.exists(_ <= batch)
      }
      if (!isSo) violated(s"NEEDLESS ${a.transaction} was told $conflict, of its batch ${a.batch}")
    } else if (!conflictedBefore(a) && !wasCleaned(a, conflict) && !wasDropped(a))
      violated(s"NEEDLESS ${a.transaction} was told $conflict, and nothing conflicts")
  }

  /** What DESCRIBE TRANSACTION says once is true for ever. */
  private def described(seen: SeenStatus): Unit = {
    val status = seen.status
    world.counts.event(s"described as ${status.toString.takeWhile(_.isLetter)}")
    def entry = entries.values.find(_.entry match {
      case c: CommitEntry => c.transaction.id == seen.transaction
      case _ => false
    })
    def isEnded = timelines.flatMap(_.entries).map(_.entry).exists {
      case abort: AbortEntry => abort.transactions.contains(seen.transaction)
      case _ => false
    }
    val isTrue = status match {
      case TransactionStatus.Committed(_, slots) =>
        entry.flatMap(_.outcome).collect { case c: Completed => c.slots }.contains(slots)
      case _: TransactionStatus.RolledBack => entry.exists(_.rolledBack.isDefined)
      case _: TransactionStatus.Aborted => isEnded
      case _: TransactionStatus.InFlight => entry.isDefined
      case _ => true
    }
    if (!isTrue) violated(s"I2 ${seen.client} was told that ${seen.transaction} is $status")
  }

  /** SERIALIZABLE: whatever was ordered before it, and wrote what it read, it has read. */
  private def readSet(a: Attempt, e: TrueEntry): Unit = for {
    timeline <- timelines if timeline.root == a.root
    before <- timeline.entries if before.entry.number < e.entry.number
    if before.outcome.exists(_.isInstanceOf[Completed])
    (table, pin) <- a.reads if !world.dropped(table)
  } before.entry match {
    case c: CommitEntry =>
      c.tables.zipWithIndex.filter(_._1.path.uri == table).foreach { case (_, i) =>
        if (logs(table).marksOf(timeline.id, c.number, i).exists(_.slot > pin))
          violated(s"I5 ${a.transaction} read $table at $pin, and follows entry ${c.number}")
      }
    case _ => ()
  }

  private def wasDropped(a: Attempt): Boolean =
    (a.writes.map(_.table) ++ a.reads.keys).exists(world.dropped)

  /** A log that was cleaned up after the pin shows no longer that nothing conflicts. */
  private def wasCleaned(a: Attempt, conflict: Conflict): Boolean =
    conflict.version.exists(v => world.wasDeleted(Alias.real(TableRef(conflict.path).slot(v)))) ||
      conflict.rule == Rule.LogCleanedUp &&
      (a.writes.map(w => w.table -> w.pin) ++ a.reads).exists { case (table, pin) =>
        table == Alias.real(conflict.path) &&
        (world.wasDeleted(TableRef(table).slot(pin + 1)) || wasPutAgain(table, pin))
      }

  /** Whether a commit up to a version was cleaned up, and another one put where it was. */
  private def wasPutAgain(table: String, version: Long): Boolean =
    (0L to version).exists(v => world.wasPutAgain(TableRef(table).slot(v)))

  private def conflictedBefore(a: Attempt): Boolean =
    a.writes.exists { w =>
      between(logs(w.table), w.pin, logs(w.table).commits.size.toLong).exists { c =>
        isConflict(w, c) && !(onlyTakesRows(w, c) && rowsFit(w, logs(w.table), c.version)) || strict
      }
    } || a.reads.exists { case (t, pin) =>
      between(logs(t), pin, logs(t).commits.size.toLong)
        .exists(c => c.changesData || strict || c.actions.exists(_.isInstanceOf[MetaData]))
    } || timelines.flatMap(_.entries).map(_.entry).exists {
      case abort: AbortEntry => abort.transactions.contains(a.transaction)
      case _ => false
    }

  private def snapshot(s: SeenSnapshot): Unit = {
    world.counts.event("snapshot")
    for (timeline <- timelines; e <- timeline.entries) e.entry match {
      case c: CommitEntry =>
        val inside = timeline.root != s.root || c.number <= s.entry
        val seen =
          c.tables.zipWithIndex
            .filter(t => s.pins.contains(t._1.path.uri) && !world.dropped(t._1.path.uri)).map {
              case (t, i) =>
                val marks = logs(t.path.uri).marksOf(timeline.id, c.number, i)
                val (before, after) = marks.partition(_.slot <= s.pins(t.path.uri))
                (t.path.uri, before.nonEmpty, after.nonEmpty)
            }
        val torn = seen.exists(t => t._2 && t._3) || (seen.exists(_._2) && seen.exists(_._3))
        val wrong =
          timeline.root == s.root && (if (inside) seen.exists(_._3) else seen.exists(_._2))
        if (torn || wrong)
          violated(s"I4 ${s.client} read entries up to ${s.entry} at ${s.pins}, " +
            s"which cuts entry ${c.number} of ${timeline.root}: $seen")
        if (timeline.root == s.root && inside && e.finishedAt > s.begunAt && e.finishedAt == Int.MaxValue)
          violated(s"I4 ${s.client} read entry ${c.number}, which never ended")
      case _ => ()
    }
    if (s.mayWrite) realTime(s)
  }

  /**
   * A query sees of each entry all or nothing, nothing that may still be taken back, and with an entry
   * all that were finished before it was put; and what was committed before it began, unless an entry that nobody has
   * finished is before that.
   */
  private def query(q: SeenQuery): Unit = {
    world.counts.event("query")
    val touching = for {
      timeline <- timelines if timeline.root == q.root
      e <- timeline.entries
      c <- Vector(e.entry).collect { case c: CommitEntry => c }
      marks = c.tables.zipWithIndex.collect {
        case (t, i) if q.versions.contains(t.path.uri) && !world.dropped(t.path.uri) =>
          val all = logs(t.path.uri).marksOf(timeline.id, c.number, i)
            .filter(m => m.mark.kind == MarkKind.Publish || m.mark.kind == MarkKind.Undo)
          all.partition(_.slot <= q.versions(t.path.uri))
      }
      if c.tables.exists(t => q.versions.contains(t.path.uri))
    } yield (c, e, marks)
    touching.foreach { case (c, e, marks) =>
      val (seen, unseen) = (marks.flatMap(_._1), marks.flatMap(_._2))
      def wrong(how: String) = violated(
        s"I4 ${q.client} queried ${q.versions}, which $how entry ${c.number} of ${q.root}: $marks"
      )
      if (e.isCompleted && seen.nonEmpty && unseen.nonEmpty) wrong("cuts")
      if (!e.isCompleted && marks.exists { case (before, after) =>
          before.nonEmpty && after.nonEmpty
        })
        wrong("sees what was taken back of")
      val later = touching.exists { case (_, end, theirs) =>
        end.createdAt > e.finishedAt && end.isCompleted && theirs.exists(_._1.nonEmpty)
      }
      if (e.isCompleted && unseen.nonEmpty && later) wrong("leaves out")
      val wasTold = attempts.exists(a =>
        a.root == q.root && a.answeredAt < q.begunAt && (a.answer match {
          case Some(CommitOutcome.Committed(entry, _, _, _, _, _)) => entry.number == c.number
          case _ => false
        })
      )
      val isBehind = touching.exists { case (other, end, _) =>
        other.number < c.number && end.finishedAt > q.begunAt
      }
      if (wasTold && !isBehind && unseen.nonEmpty) wrong("began after the end of, and misses,")
    }
  }

  /** Who begins after a COMMIT returned sees it, unless it could not help an entry before that. */
  private def realTime(s: SeenSnapshot): Unit = attempts.foreach { a =>
    def isBlocked = timelines.filter(_.root == s.root).flatMap(_.entries)
      .exists(e => e.entry.number == s.entry + 1 && e.finishedAt > s.takenAt)
    a.answer.foreach {
      case CommitOutcome.Committed(c, _, _, _, _, _)
          if a.root == s.root && a.answeredAt < s.begunAt && c.number > s.entry && !isBlocked =>
        violated(s"I4 ${s.client} began after entry ${c.number} was committed, and read ${s.entry}")
      case _ => ()
    }
  }
}

object Judge {

  /** Whether a commit conflicts with a transaction in nothing but rows of the same files. */
  def onlyTakesRows(write: PlannedWrite, commit: LogCommit): Boolean = {
    val vectors = commit.actions.collect {
      case a: AddFile if a.deletionVector.isDefined && a.dataChange => a.path
    }.toSet
    val others = commit.actions.filter {
      case f: FileAction => !(vectors(f.path) && write.vectors.contains(f.path) && f.dataChange)
      case _ => true
    }
    !isConflict(write, LogCommit(commit.version, others)) &&
    !((write.readsAll || write.changesHeader) && commit.changesData)
  }

  /** Whether the vectors of a version can be united with those of a transaction. */
  def rowsFit(write: PlannedWrite, log: TrueLog, version: Long): Boolean =
    write.vectors.forall { case (path, v) =>
      log.live(version.toInt).get(path).forall(v.isMergeable)
    }

  /** Whether a commit between pin and publish excludes what a transaction does. */
  def isConflict(write: PlannedWrite, commit: LogCommit): Boolean =
    commit.actions.exists {
      case r: RemoveFile => write.removes(r.path) || write.adds(r.path)
      case _: MetaData => true
      case _ => false
    } || ((write.readsAll || write.changesHeader) && commit.changesData)
}
