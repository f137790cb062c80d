package io.lakestep.transaction

import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.locks.ReentrantLock

import org.apache.hadoop.fs.Path

import io.lakestep.Errors
import io.lakestep.commit.{
  BegunTransaction, BroughtBack, Database, IsolationLevel, ReadTable, TransactionModes, WrittenTable
}
import io.lakestep.log.{ReadSet, StagedEffect, TableRef}
import io.lakestep.names.TransactionNames
import io.lakestep.overlay.{OverlayPath, Staging}
import io.lakestep.timeline.{BatchTakenBack, NamedSnapshot, Undone}

/**
 * The transaction of one Spark session: where it stands, which tables it has touched, at which version each is
 * pinned, and what it has staged. A table is pinned at first touch and, unless COMMIT runs statements
 * again, never again, so every statement reads the same snapshot plus the transaction's own writes.
 *
 * Thread-safe: several threads may share one session. Their statements run one after another, as a
 * statement that fails is cut off by what was staged since it began; queries run at any time.
 *
 * @param seen the newest version of each table, by its address, that the session had met before BEGIN
 * @param abortsOnError whether a statement that fails ends it, but for ROLLBACK and ROLLBACK TO
 * @param compacts whether COMMIT writes small files as fewer ones
 * @param firstTouch called for each table when it is pinned, before anything reads its overlay
 */
final class Transaction(
    started: BegunTransaction,
    database: Database,
    seen: Map[TableRef, Long] = Map.empty,
    firstTouch: TransactionTable => Unit = _ => (),
    abortsOnError: Boolean = false,
    private[transaction] val compacts: Boolean = false)
    extends MetTables(started.id, database, seen, firstTouch) {

  @volatile private var current = started
  @volatile private var mayWrite = !started.readOnly

  /** Held by the statement that runs, and by COMMIT and ROLLBACK. */
  private val turn = new ReentrantLock(true)

  /** Statements of this thread that are inside one another; guarded by `turn`. */
  private var depth = 0

  /** Changed without the lock of this object, which a thread holds while it meets a table. */
  private val at = new AtomicReference[TransactionState](TransactionState.Open)

  private val savepoints = new NamedSavepoints(started.id)
  private[transaction] val takenBack = new TakenBack
  private[transaction] val compacted = new CompactedFiles
  private[lakestep] val readers = new Readers
  val failure = new FailedStatement(started.id, abortsOnError)

  /** Tables, views and schemas as its statements have named them. */
  private[lakestep] val names =
    new TransactionNames(refreshes => database.namesBefore(current, refreshes))

  /** What was typed since BEGIN. */
  val typed = new UnseenStatements

  @volatile private var asserted = Assertions.none
  @volatile private var undone = UndoneHere.none
  @volatile private var isJudging = false
  @volatile private var sessionChanges = 0

  def begun: BegunTransaction = undone.in(current)

  def state: TransactionState = at.get

  /** Called by `Transactions.become` alone, which tells the session. */
  private[transaction] def become(next: TransactionState): Unit = {
    val before = at.get
    if (!TransactionState.next(before)(next) || !at.compareAndSet(before, next))
      throw new IllegalStateException(s"Transaction $id cannot be $next after $before")
  }

  /** VACUUM deletes files at once: no transaction of a user may hold it. */
  @volatile var permitsVacuum = false

  @volatile private var block = false

  /** It is the transaction of a block, which alone ends it. */
  def runsBlock(): Unit = {
    block = true
    failure.ignore()
  }

  def isOfBlock: Boolean = block

  /** REVERT or RESTORE: the entry tells it. */
  def takesBack(what: Undone, batches: Vector[BatchTakenBack]): Unit =
    synchronized { undone = undone.and(what, batches) }

  @volatile private var held = Vector.empty[NamedSnapshot]

  /** What it brings back stays until it has ended. Condition: LAKESTEP_UNDO_CUT. */
  def holds(needs: Vector[BroughtBack], by: Option[NamedSnapshot]): Unit =
    if (needs.nonEmpty) held = held :+ database.snapshots.hold(begun, needs, by)

  /** To be called when it is known how it has ended; nobody waits. */
  private[transaction] def release(): Unit = {
    val all = held
    held = Vector.empty
    if (all.nonEmpty)
      database.deleteFiles(Vector.empty, all.map(h => () => database.snapshots.drop(h)): _*)
  }

  /** Whether COMMIT asks what was read. */
  def recordsReads: Boolean = begun.isolation == IsolationLevel.Serializable || isJudging

  def assertions: Assertions = asserted

  /** ASSERT: COMMIT asks it. */
  def asserts(assertion: Assertion): Unit = synchronized {
    asserted = asserted.copy(atCommit = asserted.atCommit :+ assertion)
  }

  /** ASSERT IMMEDIATE. Condition: LAKESTEP_ASSERTION_FAILED. */
  def assertsNow(assertion: Assertion): Unit = {
    val judged = JudgedAssertion(assertion, assertion.judge())
    synchronized { asserted = asserted.copy(judged = asserted.judged :+ judged) }
    Assertions.check(id, Vector(judged))
  }

  /** Asks all that COMMIT has to ask, on what would be published. What they read counts. */
  private[transaction] def judge(): Vector[JudgedAssertion] = {
    isJudging = true
    try {
      // Nobody reads on what they have read.
      val judged = readers.ofStatement {
        asserted.atCommit.map(a => JudgedAssertion(a, a.judge()))
      }
      current = current.copy(
        assertions = (asserted.judged ++ judged).map(_.outcome),
        countsReads = judged.nonEmpty
      )
      judged
    } finally isJudging = false
  }

  /** Whether a statement that writes is refused. */
  def isReadOnly: Boolean = !mayWrite

  /**
   * Changes the modes, as long as no table was met and no name changed. A transaction that began READ ONLY has left no
   * trace on any store, and cannot be made to write any more.
   */
  def set(modes: TransactionModes): Unit = synchronized {
    if (tables.nonEmpty || !names.state.isEmpty)
      throw Errors("LAKESTEP_TRANSACTION_HAS_READ", "transaction" -> id)
    if (started.readOnly && modes.readOnly.contains(false)) {
      throw Errors("LAKESTEP_READ_ONLY_TRANSACTION", "statement" -> "SET TRANSACTION READ WRITE")
    }
    modes.isolation.foreach(level => current = current.copy(isolation = level))
    modes.readOnly.foreach(readOnly => mayWrite = !readOnly)
  }

  /** Notes what a statement is about to read of a table; see PROTOCOL.md, "Read sets". */
  def reads(overlay: Path, what: ReadSet): Unit =
    if (OverlayPath.isOverlay(overlay)) table(overlay).foreach(_.read(what))

  /** Tables that were read and have no staged commits. */
  def onlyRead: Seq[ReadTable] = {
    val staged = staging.last
    for (table <- touched if !staged.contains(table.base.toString); what <- table.reads)
      yield ReadTable(table.ref, table.name, table.pin, what, Some(table.pinned))
  }

  /** The last staged version of each table, by its path. */
  private[transaction] def lastStaged: Map[String, Long] = staging.last

  /** Whether statements of it have changed a table. */
  private[lakestep] def isWritten(table: TransactionTable): Boolean =
    staging.last.contains(table.base.toString)

  /** Every staged version of these tables. */
  private[transaction] def stagedVersions(of: TransactionTable => Boolean): Seq[(TableRef, Long)] =
    for {
      table <- touched if of(table)
      last <- staging.last.get(table.base.toString).toSeq
      version <- table.pin + 1 to last
    } yield table.ref -> version

  /** Tables with staged commits, in the order of their first touch. */
  def written: Seq[WrittenTable] = {
    val staged = staging.last
    for (table <- touched; last <- staged.get(table.base.toString) if !isNameless(table))
      yield table.written(last, effects(table), staging.commitsOf(table.base.toString))
  }

  /** A managed table that the transaction has made and dropped again never was. */
  private[transaction] def isNameless(table: TransactionTable): Boolean =
    table.isNew && names.isNameless(table.base)

  /** Whether the table's property says who else may write it. */
  def decide(table: TransactionTable, isStated: Boolean): Unit =
    staging.decide(table.base.toString, isStated)

  /**
   * Runs COMMIT or ROLLBACK after the statement that runs on another thread. None if the transaction
   * has left `from` while this waited.
   *
   * @param body has to change the state
   */
  private[transaction] def ending[T](from: TransactionState)(body: => T): Option[T] =
    inTurn(Option.when(state == from)(body))

  override def isRunningStatement: Boolean = turn.isHeldByCurrentThread && depth > 0

  /** Whether this thread runs a statement, or is at COMMIT. */
  def isBusy: Boolean = turn.isHeldByCurrentThread

  /** Runs when no other thread is inside a statement, COMMIT or ROLLBACK. */
  private[transaction] def inTurn[T](body: => T): T = {
    turn.lockInterruptibly()
    try body
    finally turn.unlock()
  }

  /** Runs one statement. If it fails, everything it staged is cut off again. */
  def runStatement[T](forget: Path => Unit)(body: => T): T = inTurn {
    if (!state.runsStatements) {
      throw Errors(
        "LAKESTEP_TRANSACTION_NOT_OPEN",
        "operation" -> "A statement",
        "transaction" -> id
      )
    }
    checkUsable()
    val before = savepoint(Map.empty)
    staging.forgetConfirmed()
    depth += 1
    try {
      val result = readers.ofStatement(body)
      val staged = stagedSince(before.staged)
      staged.foreach { case (table, _, _) => Publishable.check(table, effects(table)) }
      staged.foreach { case (table, _, last) => table.hasStaged(last) }
      result
    } catch {
      case failure: Throwable =>
        val cause = explained(failure)
        try rollbackTo(before, keepPins = true, keepReads = true, forget)
        catch {
          case undo: Throwable =>
            staging.doubt(undo)
            cause.addSuppressed(undo)
        }
        this.failure.failed(cause)
        throw cause
    } finally {
      depth -= 1
      staging.forgetConfirmed()
    }
  }

  /**
   * What a failed statement staged may still be there, or come: nobody may read or commit it.
   *
   * Condition: LAKESTEP_STATEMENT_NOT_UNDONE.
   */
  def checkUsable(): Unit = staging.doubt.foreach { cause =>
    throw Errors.caused(
      "LAKESTEP_STATEMENT_NOT_UNDONE",
      cause,
      "transaction" -> id,
      "reason" -> String.valueOf(cause.getMessage)
    )
  }

  private def stagedSince(before: Map[String, Long]): Seq[(TransactionTable, Long, Long)] =
    for {
      (base, last) <- staging.last.toSeq
      table <- synchronized(tables.get(base))
      kept = before.getOrElse(base, table.pin)
      if last > kept
    } yield (table, kept, last)

  /** @param deletes whether the data files go, too, once the transaction ends */
  private def cutBackTo(
      before: Map[String, Long],
      deletes: Boolean,
      forget: Path => Unit): Unit =
    stagedSince(before).foreach { case (table, keep, last) =>
      val made =
        if (deletes) database.madeBy(begun, table.ref, keep + 1 to last) else Vector.empty
      database.dropStaged(begun, table.ref, keep + 1 to last)
      staging.cutBack(table.base.toString, table.pin, keep)
      takenBack.add(table.base.toString, keep, made)
      forget(table.overlay)
    }

  /** A statement that is about to run changes the session: a setting, a variable, a view. */
  def changesSession(): Unit = synchronized { sessionChanges += 1 }

  /** How everything stands before a statement. */
  def savepoint(environment: => Map[String, String]): Savepoint = {
    // Spark is asked first, as it may ask this transaction.
    val session = environment
    synchronized(
      Savepoint(
        tables.view.mapValues(_.state).toMap,
        staging.last,
        savepoints.all,
        sessionChanges,
        session,
        names.state,
        asserted,
        undone
      )
    )
  }

  /** SAVEPOINT. */
  def setSavepoint(name: String): Unit = inTurn(savepoints.set(name, savepoint(Map.empty)))

  /** RELEASE SAVEPOINT. Condition: LAKESTEP_SAVEPOINT_NOT_FOUND. */
  def releaseSavepoint(name: String): Unit = inTurn(savepoints.release(name))

  /**
   * ROLLBACK TO SAVEPOINT: that one stays. Tables stay pinned, and what was read stays read.
   *
   * Condition: LAKESTEP_SAVEPOINT_NOT_FOUND.
   */
  def rollbackTo(name: String, forget: Path => Unit): Unit = inTurn {
    val savepoint = savepoints.find(name)
    try rollbackTo(savepoint.at, keepPins = true, keepReads = true, forget)
    catch {
      case cause: Throwable =>
        staging.doubt(cause)
        throw cause
    }
    savepoints.restore(savepoint.at.named :+ savepoint)
    failure.takenBack()
  }

  /** What a query reads that is planned now. */
  def planned(paths: Set[Path]): PlannedReads = {
    // Cached data is built anew from the tables themselves.
    val overlays = paths.filter(OverlayPath.isOverlay(_))
    takenBack.planned(overlays.flatMap(table(_)).map(_.base.toString), staging.last)
  }

  def checkPlanned(plan: PlannedReads): Unit = takenBack.check(id, plan)

  /**
   * Takes everything that was staged since a savepoint back.
   *
   * @param keepPins tables that were touched since stay pinned where they are; else they are pinned
   *                 anew when they are touched again
   * @param keepReads what was read since still counts at COMMIT
   */
  def rollbackTo(
      to: Savepoint,
      keepPins: Boolean,
      keepReads: Boolean,
      forget: Path => Unit): Unit = inTurn {
    cutBackTo(to.staged, deletes = keepPins, forget)
    savepoints.restore(to.named)
    names.restore(to.names)
    synchronized {
      undone = to.undone
      // What was judged was so, unless it runs again.
      asserted = if (keepPins) to.assertions.copy(judged = asserted.judged) else to.assertions
      if (!keepPins) forgetHeaders(to, forget)
      for ((base, table) <- tables)
        table.restore(
          to.tables.getOrElse(base, TransactionTable.State.Untouched),
          keepPins,
          keepReads
        )
    }
  }

  /** Of tables of which a header was noted since: it is noted again, as others have left it. */
  private def forgetHeaders(to: Savepoint, forget: Path => Unit): Unit = {
    for ((base, table) <- tables if table.isFenced && !to.tables.get(base).exists(_.isKnown)) {
      // With the fence, which this commit takes away.
      database.dropStaged(begun, table.ref, Seq(table.pin + 1))
      staging.dropOther(base)
      forget(table.overlay)
    }
    tables.filterInPlace((base, _) => to.tables.contains(base))
    staging.forgetListings()
  }

  /** Step 13: at COMMIT, the snapshot for the statements that run again. */
  private[transaction] def continueFrom(snapshot: BegunTransaction): Unit = inTurn {
    current = snapshot
  }

  /** Nothing of it is left in this process; called when it has ended. */
  private[transaction] def close(): Unit = Staging.close(id)

  private def effects(table: TransactionTable): Vector[StagedEffect] =
    staging.effectsOf(table.base.toString)
}
