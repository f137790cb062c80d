package io.lakestep.transaction

import scala.annotation.tailrec
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{DeltaHousekeeping, SparkInternals, WarmOverlay}
import io.lakestep.{Errors, LakestepConf, LakestepException}
import io.lakestep.commit.{
  AsOf, BeginRequest, CommitOutcome, Compaction, IsolationLevel, TransactionEvent, TransactionModes
}
import io.lakestep.timeline.{AppliedBatch, BatchKey, Conflict, Labels}

/** BEGIN, COMMIT and ROLLBACK of a session. With `Redo`, the only code that moves a transaction on. */
object Lifecycle {

  def begin(
      session: SparkSession,
      name: Option[String],
      modes: TransactionModes,
      batch: Option[AskedBatch] = None,
      labels: Labels = Labels.none,
      asOf: Option[AsOf] = None): Transaction = {
    MicroBatch.check(session, "BEGIN")
    if (asOf.isDefined && modes.readOnly.contains(false)) throw Errors("LAKESTEP_AS_OF_READ_WRITE")
    val readOnly = asOf.map(_ => true).orElse(modes.readOnly)
    refuseBatch(batch, readOnly)
    beginInternal(
      session,
      name,
      modes.copy(readOnly = readOnly),
      batch.map(_.key(MicroBatch.query(session))),
      labels,
      asOf
    )
  }

  /**
   * FORGET BATCH KEYS, as a transaction of its own; gives what was known of the query.
   *
   * Conditions: LAKESTEP_TRANSACTION_ALREADY_ACTIVE, LAKESTEP_BATCH_IN_FLIGHT.
   */
  def forgetBatches(session: SparkSession, query: String): Option[AppliedBatch] = {
    Transactions.refuseOpen(session)
    val database = Databases.of(session)
    database.timeline.existingId.flatMap { _ =>
      // BEGIN finishes what is in flight: the newest batch may be known only then.
      val forgets = Some(BatchKey(query, None))
      val own = beginInternal(session, Some("FORGET BATCH KEYS"), TransactionModes(), forgets)
      rollingBack(session, own.id) {
        val applied = database.batch(query)
        if (applied.isDefined) commit(session) else rollback(session)
        applied
      }
    }
  }

  /** For a statement of `user` that is a transaction by itself, in a clone of the session. */
  private[lakestep] def beginFor(user: SparkSession, own: SparkSession): Transaction = {
    MicroBatch.check(user, "BEGIN")
    beginInternal(own, None, TransactionModes())
  }

  /** Also for a session that was cloned for a part of our own work. */
  private[transaction] def beginInternal(
      session: SparkSession,
      name: Option[String],
      modes: TransactionModes,
      batch: Option[BatchKey] = None,
      labels: Labels = Labels.none,
      asOf: Option[AsOf] = None): Transaction =
    Transactions.beginning(session)(Transactions.state(session) match {
      case SessionState.Open(open) => throw Transactions.alreadyActive(open)
      case SessionState.Failed(failed) =>
        throw Errors("LAKESTEP_TRANSACTION_FAILED", "transaction" -> failed.id)
      case SessionState.Idle =>
        CatalogSetting.check(session)
        val database = Databases.of(session)
        // Before anything is put, as a value may be wrong.
        val aborts = LakestepConf.AbortOnError.from(session.conf.getOption)
        val compacts = LakestepConf.CompactFiles.from(session.conf.getOption) == "auto"
        LakestepConf.OnAssertionFailure.from(session.conf.getOption)
        if (!modes.readOnly.contains(true)) database.timeline.checkPlace()
        val begun = database.begin(
          BeginRequest(
            name = name,
            user = session.sparkContext.sparkUser,
            application = session.sparkContext.applicationId,
            isolation =
              modes.isolation.getOrElse(
                LakestepConf.Isolation.as(session.conf.getOption)(IsolationLevel.named)
              ),
            readOnly = modes.readOnly.contains(true),
            notBefore = Transactions.seenEntry(session, database),
            batch = batch,
            labels = labels,
            asOf = asOf
          )
        )
        val transaction = new Transaction(
          begun,
          database,
          if (asOf.isEmpty) Transactions.seenVersions(session) else Map.empty,
          warm(session, _),
          aborts,
          compacts
        )
        Transactions.saw(session, database, begun.snapshot)
        Transactions.opened(session, transaction)
        database.tell(TransactionEvent.Began(begun))
        transaction
    })

  /** SET TRANSACTION. Conditions: LAKESTEP_NO_ACTIVE_TRANSACTION, LAKESTEP_TRANSACTION_HAS_READ. */
  def set(session: SparkSession, modes: TransactionModes): Unit = {
    val transaction = required(session, "SET TRANSACTION")
    refuseBatch(transaction.begun.batch, modes.readOnly)
    transaction.set(modes)
  }

  private def refuseBatch(batch: Option[_], readOnly: Option[Boolean]): Unit =
    if (batch.isDefined && readOnly.contains(true)) throw Errors("LAKESTEP_BATCH_READ_ONLY")

  /** Condition: LAKESTEP_STATEMENT_IN_BLOCK, where a block has begun the transaction. */
  def refuseInBlock(session: SparkSession, statement: String): Unit =
    Transactions.state(session) match {
      case SessionState.Open(transaction) if transaction.isOfBlock =>
        throw Errors("LAKESTEP_STATEMENT_IN_BLOCK", "statement" -> statement)
      case _ =>
    }

  /** SAVEPOINT. Condition: LAKESTEP_NO_ACTIVE_TRANSACTION. */
  def setSavepoint(session: SparkSession, name: String): Unit =
    required(session, "SAVEPOINT").setSavepoint(name)

  /** ROLLBACK TO SAVEPOINT. Conditions: LAKESTEP_NO_ACTIVE_TRANSACTION, LAKESTEP_SAVEPOINT_NOT_FOUND. */
  def rollbackTo(session: SparkSession, name: String): Unit = {
    required(session, "ROLLBACK TO").rollbackTo(name, DeltaHousekeeping.forget(session, _))
    DeltaHousekeeping.forgetStagedVersion(session)
  }

  /** RELEASE SAVEPOINT. Conditions: LAKESTEP_NO_ACTIVE_TRANSACTION, LAKESTEP_SAVEPOINT_NOT_FOUND. */
  def releaseSavepoint(session: SparkSession, name: String): Unit =
    required(session, "RELEASE SAVEPOINT").releaseSavepoint(name)

  /** COMMIT. Statements of which nobody has seen a result are run again when they met a conflict. */
  def commit(session: SparkSession): CommitReport = {
    val redoes = LakestepConf.RedoStatements.from(session.conf.getOption)
    commit(session, Attempts.of(session), if (redoes) _.typed.unseen else _ => Vector.empty)
  }

  /** @param steps the statements of the transaction, when they may be run again */
  private[lakestep] def commit(
      session: SparkSession,
      attempts: Attempts,
      steps: Transaction => Vector[Step]): CommitReport = {
    val transaction = required(session, "COMMIT")
    transaction.failure.check()
    transaction.ending(TransactionState.Open) {
      gate(session, transaction)
      Transactions.become(session, transaction, TransactionState.Committing)
      val startedAt = System.nanoTime()
      def tookMs() = (System.nanoTime() - startedAt) / 1000000
      try {
        val current = steps(transaction)
        commit(session, transaction, attempts, () => steps(transaction), current, tookMs _)
      } finally
        if (!Set[TransactionState](
            TransactionState.Open,
            TransactionState.Failed,
            TransactionState.Ended
          )(transaction.state))
          Transactions.become(session, transaction, TransactionState.Failed)
    }.getOrElse(throw noTransaction("COMMIT"))
  }

  /**
   * Asks the assertions of an open transaction, which stays open, or is rolled back, when one does not hold.
   * One that cannot be asked fails the COMMIT.
   *
   * Condition: LAKESTEP_ASSERTION_FAILED; or that of an assertion that cannot be asked.
   */
  private def gate(session: SparkSession, transaction: Transaction): Unit = {
    val judged =
      try transaction.judge()
      catch {
        case failure: Throwable =>
          Transactions.become(session, transaction, TransactionState.Committing)
          try failed(session, transaction, failure)
          finally Transactions.become(session, transaction, TransactionState.Failed)
      }
    Transactions.judged(session, transaction, judged)
    try Assertions.check(transaction.id, judged)
    catch {
      case failure: LakestepException =>
        // The caller is told of rows; and the marks of statements that were run again are not those of now.
        transaction.typed.see()
        val onFailure = Try(LakestepConf.OnAssertionFailure.from(session.conf.getOption))
        if (onFailure.toOption.contains("rollback")) {
          try rollback(session)
          catch { case NonFatal(undo) => failure.addSuppressed(undo) }
        }
        throw failure
    }
  }

  @tailrec
  private def commit(
      session: SparkSession,
      transaction: Transaction,
      attempts: Attempts,
      steps: () => Vector[Step],
      current: Vector[Step],
      tookMs: () => Long): CommitReport = {
    def tell(event: TransactionEvent): Unit = transaction.database.tell(event)
    outcome(session, transaction) match {
      case done: CommitOutcome.Committed =>
        Transactions.saw(session, transaction.database, done.entry.number)
        def logged(work: => Unit): Unit =
          DeltaHousekeeping.logged(s"After COMMIT of ${transaction.id} not all was done")(work)
        logged(end(session, transaction))
        logged(Unpublished.afterCommit(session, transaction, done.published.contains(_)))
        // Also after a failure: cached queries would show the tables as they were.
        logged(AfterCommit(session, transaction, done)(alone))
        logged(SparkInternals.post(session, TransactionCommitted.of(transaction, done)))
        tell(TransactionEvent.Committed(done.entry, done.slots, done.tries, tookMs(), done.costs))
        val warnings = done.behind.map(CommitReport.warning).distinct
        CommitReport(transaction.id, Some(done.entry.number), done.entry.tables.size, warnings)
      case CommitOutcome.NothingToCommit =>
        Unpublished.discard(session, transaction)
        end(session, transaction)
        tell(TransactionEvent.CommittedNothing(transaction.begun, tookMs()))
        CommitReport(transaction.id, None, 0)
      case CommitOutcome.Conflicted(conflict, entry) =>
        Transactions.met(session, MetConflict(transaction.id, conflict, Vector.empty))
        val again =
          if (entry.nonEmpty) Left(None)
          else redone(session, transaction, attempts, current, conflict)
        again match {
          // Another thread may have read meanwhile what the statements changed.
          case Right(statements) if steps().nonEmpty =>
            if (transaction.assertions.atCommit.nonEmpty) {
              Transactions.become(session, transaction, TransactionState.Rerunning)
              Transactions.become(session, transaction, TransactionState.Open)
              gate(session, transaction)
              Transactions.become(session, transaction, TransactionState.Committing)
            }
            commit(session, transaction, attempts, steps, statements, tookMs)
          case other =>
            if (entry.isEmpty) abandon(session, transaction) else forgetEnded(session, transaction)
            tell(
              TransactionEvent.Conflicted(transaction.begun, conflict, Vector.empty, tookMs())
            )
            val error = ConflictErrors(transaction.id, conflict)
            other.left.toOption.flatten.foreach(error.addSuppressed)
            throw error
        }
      case CommitOutcome.LeftResidue(conflict, entry, residue) =>
        Transactions.met(session, MetConflict(transaction.id, conflict, residue))
        forgetEnded(session, transaction)
        tell(TransactionEvent.Conflicted(transaction.begun, conflict, residue, tookMs()))
        throw ConflictErrors.leftResidue(transaction.id, conflict, entry, residue)
      case CommitOutcome.Unknown(cause, _) =>
        forget(session, transaction)
        tell(TransactionEvent.OutcomeUnknown(transaction.begun, cause))
        throw Errors.caused(
          "LAKESTEP_TRANSACTION_STATE_UNKNOWN",
          cause,
          "transaction" -> transaction.id
        )
    }
  }

  /** As `Redo.statements`; what it does not catch ends the transaction. */
  private def redone(
      session: SparkSession,
      transaction: Transaction,
      attempts: Attempts,
      steps: Vector[Step],
      conflict: Conflict): Either[Option[Throwable], Vector[Step]] =
    try Redo.statements(session, transaction, steps, conflict, attempts)
    catch {
      case failure: Throwable => failed(session, transaction, failure)
    }

  /** What throws here never got an entry. */
  private def outcome(session: SparkSession, transaction: Transaction): CommitOutcome =
    try {
      transaction.checkUsable()
      transaction.database.commit(
        transaction.begun,
        transaction.written,
        transaction.onlyRead,
        transaction.names.changes(SparkInternals.metastore(session)),
        if (transaction.begun.readsCount)
          transaction.names.read(SparkInternals.metastore(session))
        else Set.empty,
        transaction.names.purges,
        compaction(session, transaction)
      )
    } catch {
      case NonFatal(failure) => failed(session, transaction, failure)
    }

  /** COMMIT ends with what it met before it had an entry. */
  private def failed(session: SparkSession, transaction: Transaction, failure: Throwable) = {
    try abandon(session, transaction)
    catch { case NonFatal(undo) => failure.addSuppressed(undo) }
    transaction.database.tell(TransactionEvent.Failed(transaction.begun, failure))
    throw failure
  }

  /** Tables that are made as clones may name what it would replace. */
  private def compaction(session: SparkSession, transaction: Transaction): Compaction = {
    transaction.compacted.begin()
    if (transaction.compacts && !transaction.names.hasClones)
      new CompactSmallFiles(session, transaction)
    else Compaction.Off
  }

  /** Leaves nothing of a transaction that has no entry, as far as the store permits. */
  private def abandon(session: SparkSession, transaction: Transaction): Unit = {
    forgetEnded(session, transaction)
    try Unpublished.discard(session, transaction)
    catch { case NonFatal(_) => () }
  }

  /** Ends the open transaction, or clears a failed one. */
  def rollback(session: SparkSession): String = Transactions.state(session) match {
    case SessionState.Failed(failed) =>
      failed.ending(TransactionState.Failed) {
        Transactions.become(session, failed, TransactionState.Ended)
        failed.id
      }.getOrElse(throw noTransaction("ROLLBACK"))
    case _ =>
      val transaction = required(session, "ROLLBACK")
      transaction.ending(TransactionState.Open) {
        Transactions.become(session, transaction, TransactionState.Ended)
        forgetEnded(session, transaction)
        Unpublished.discard(session, transaction)
        transaction.database.tell(TransactionEvent.RolledBack(transaction.begun))
        transaction.id
      }.getOrElse(throw noTransaction("ROLLBACK"))
  }

  /** Runs the work of a transaction; when it fails, whatever is left of that one is rolled back. */
  private[lakestep] def rollingBack[T](session: SparkSession, id: String)(work: => T): T =
    try work
    catch {
      case failure: Throwable =>
        if (Transactions.isCurrent(session, id)) {
          try rollback(session)
          catch { case undo: Throwable => failure.addSuppressed(undo) }
        }
        throw failure
    }

  private def required(session: SparkSession, statement: String): Transaction =
    Transactions.open(session).getOrElse(throw noTransaction(statement))

  private def noTransaction(statement: String) =
    Errors("LAKESTEP_NO_ACTIVE_TRANSACTION", "statement" -> statement)

  private def end(session: SparkSession, transaction: Transaction): Unit = {
    Transactions.saw(session, transaction.touched.map(t => t.ref -> t.pin))
    Transactions.become(session, transaction, TransactionState.Ended)
    forgetEnded(session, transaction)
  }

  /** Housekeeping as a transaction of its own, in a clone of the session; a conflict ends it. */
  private def alone(session: SparkSession, name: String)(body: Transaction => Unit): Unit = {
    val snapshot = TransactionModes(isolation = Some(IsolationLevel.Snapshot))
    val transaction = beginInternal(session, Some(name), snapshot)
    rollingBack(session, transaction.id) {
      body(transaction)
      commit(session, Attempts.of(session), _ => Vector.empty)
    }
    ()
  }

  private def warm(session: SparkSession, table: TransactionTable): Unit =
    if (LakestepConf.ReuseSnapshots.from(session.conf.getOption))
      table.snapshot = WarmOverlay.open(session, table.base, table.overlay, table.pin)

  private def forgetEnded(session: SparkSession, transaction: Transaction): Unit = {
    forget(session, transaction)
    transaction.release()
  }

  private def forget(session: SparkSession, transaction: Transaction): Unit = {
    transaction.close()
    DeltaHousekeeping.forgetStagedVersion(session)
    DeltaHousekeeping.forgetAtEnd(session, transaction.touched.map(_.overlay): _*)
  }
}
