package io.lakestep.commit

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.{Json, LakestepException}
import io.lakestep.log.NetChanges
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{
  CatalogAction, CommitEntry, Conflict, Rule, TimelineCodec, TimelineView
}

/**
 * Steps 4 to 6 of a transaction, then `Finish`.
 *
 * Before the order point whatever throws has changed nothing that anybody reads. From the order
 * point on nothing but a foreign conflict can fail the transaction.
 */
private[commit] final class Commit(env: Environment, bindings: Bindings, finish: Finish) {
  import env.{timeline, observer, options, safeguards}

  private val stage = new Stage(env, bindings)
  private val validate = new Validate(env, bindings)
  private val entryOf = new EntryOf(env)
  private val waiting = new Waiting(env)

  def apply(
      txn: BegunTransaction,
      tables: Seq[WrittenTable],
      reads: Seq[ReadTable],
      catalogActions: Vector[CatalogAction]): CommitOutcome = {
    val staged =
      try Right(stage(txn, tables.toVector))
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
        stage.refuseOneLogTwice(all)
        lateAbort(txn)(stage.persist(txn, all, beside = Vector(() => timeline.refresh()))) match {
          case Some(conflict) => CommitOutcome.Conflicted(conflict)
          case None => order(txn, all, read, catalogActions, options.maxAttempts, timeline.known)
        }
    }
  }

  /** The conflict when this fails because an ABORT entry has ended the transaction meanwhile. */
  private def lateAbort(txn: BegunTransaction)(work: => Any): Option[Conflict] =
    try {
      work
      None
    } catch { case NonFatal(e) => Some(aborted(abortOf(txn).getOrElse(throw e))) }

  /** The ABORT entry that ended the transaction, if one did. */
  private def abortOf(txn: BegunTransaction): Option[Long] =
    if (safeguards.obeysAborts) timeline.refresh().aborted(txn.id) else None

  /**
   * Steps 5 and 6; again when somebody else took the number.
   *
   * @param read the timeline, as it was read since the transaction began to commit
   */
  @tailrec
  private def order(
      txn: BegunTransaction,
      staged: Vector[Staged],
      reads: Vector[ReadTable],
      catalogActions: Vector[CatalogAction],
      attempts: Int,
      read: TimelineView): CommitOutcome = {
    val early = if (safeguards.timelineFirst) None else Some(validate(txn, staged, reads))
    val view = if (safeguards.timelineFirst) read else timeline.refresh()
    observer.timelineRead(txn.id, view.next)
    view.aborted(txn.id).filter(_ => safeguards.obeysAborts) match {
      case Some(entry) => CommitOutcome.Conflicted(aborted(entry))
      case None =>
        val gaveUp = help(txn, view, staged, reads)
        val checks = gaveUp.toLeft(()).flatMap(_ => early.getOrElse(validate(txn, staged, reads)))
        checks.flatMap(makeEntry(txn, view, staged, catalogActions, _)) match {
          case Left(conflict) => CommitOutcome.Conflicted(conflict)
          case Right((entry, changes)) =>
            place(entry, options.putAttempts, None) match {
              case ours: Placed.Ours => publish(entry, changes, ours)
              case Placed.Unclear(cause) => CommitOutcome.Unknown(cause)
              case Placed.Theirs if attempts <= 1 =>
                CommitOutcome.Conflicted(Conflict.overEntry(Rule.TooManyAttempts, view.next))
              case Placed.Theirs =>
                order(txn, staged, reads, catalogActions, attempts - 1, timeline.refresh())
            }
        }
    }
  }

  private sealed trait Placed
  private object Placed {

    /** @param atHead the tables whose logs still ended with the base when the entry was put */
    case class Ours(isDurable: Boolean, atHead: Set[Int]) extends Placed
    case object Theirs extends Placed
    case class Unclear(cause: Throwable) extends Placed
  }

  /**
   * Step 6. Only a number that was read decides after a put that may have had an effect: while it is
   * absent, or cannot be read, the entry may be ours or may still become it. Beside it the logs are
   * looked at, for step 7.
   *
   * @param doubt why an earlier put of this entry may have had an effect, if one may
   */
  @tailrec
  private def place(entry: CommitEntry, attempts: Int, doubt: Option[Throwable]): Placed = {
    observer.beforeOrder(entry)
    val looks = entry.tables.map(table => () => env.isAtHead(table))
    val answers =
      options.publishExecutor.run[Any]((() => timeline.putEntry(entry)) +: looks)
    val put = answers.head match {
      case Right(outcome: PutOutcome) => outcome
      case Left(e: LakestepException) if doubt.isEmpty => throw e
      case other => PutOutcome.Unknown(other.left.getOrElse(new IllegalStateException))
    }
    put match {
      case PutOutcome.Created =>
        val atHead = answers.tail.zipWithIndex.collect { case (Right(true), i) => i }
        Placed.Ours(isDurable = true, atHead.toSet)
      case other =>
        val cause = other match {
          case PutOutcome.Unknown(e) => e
          case _ =>
            doubt.getOrElse(new java.io.IOException(s"entry ${entry.number} cannot be read"))
        }
        readBack(entry) match {
          case Some(true) => Placed.Ours(isDurable = false, atHead = Set.empty)
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
      placed: Placed.Ours): CommitOutcome =
    try {
      if (!placed.isDurable) env.keep(timeline.entryFile(entry.number))
      observer.ordered(entry)
      val hash = Json.blake3(TimelineCodec.encode(entry))
      finish.own(entry, hash, changes, placed.atHead) match {
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
      if (safeguards.helpsReads && txn.isSerializable)
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

  /** The entry for what was checked, with its net actions; merged rows are durable before it. */
  private def makeEntry(
      txn: BegunTransaction,
      view: TimelineView,
      staged: Vector[Staged],
      catalogActions: Vector[CatalogAction],
      validated: Validated): Either[Conflict, (CommitEntry, Vector[NetChanges])] = {
    val merged =
      staged.zip(validated.written).map { case (s, c) => s.copy(changes = c.changes) }
    val fresh = merged.zip(staged).collect { case (m, s) if m.changes ne s.changes => m }
    lateAbort(txn)(stage.persist(txn, fresh)).toLeft {
      observer.validated(txn.id)
      entryOf(txn, view, merged, validated, catalogActions) -> merged.map(_.changes)
    }
  }

  private def aborted(entry: Long): Conflict = Conflict.overEntry(Rule.Aborted, entry)
}
