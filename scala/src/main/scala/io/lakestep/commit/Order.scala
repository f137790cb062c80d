package io.lakestep.commit

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.{Json, LakestepException}
import io.lakestep.log.{CommitInfo, NetChanges}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{CommitEntry, Conflict, Rule, TimelineCodec, TimelineView}

/**
 * What a transaction brings to the order point.
 *
 * @param known commits of others that it has read
 * @param costs measures what is done for it
 */
private[commit] final case class ToOrder(
    txn: BegunTransaction,
    staged: Vector[Staged],
    reads: Vector[ReadTable],
    names: TouchedNames,
    known: KnownCommits,
    costs: StepCosts) {

  /** Of tables that were only read where that counts. */
  def touched: TouchedNames = {
    val read = if (txn.readsCount) reads.map(_.path.uri) else Vector.empty
    names.copy(paths = (staged.map(_.table.path.uri) ++ read).toSet)
  }
}

private[commit] sealed trait Ordered

private[commit] object Ordered {

  /**
   * @param changes the net actions, table by table
   * @param isDurable whether the put of the entry has been answered
   * @param atHead tables whose logs were seen, while the entry was put, to end with its base
   * @param tries how many numbers were tried
   */
  final case class Placed(
      entry: CommitEntry,
      changes: Vector[NetChanges],
      isDurable: Boolean,
      atHead: Set[Int],
      tries: Int)
      extends Ordered

  final case class Conflicting(conflict: Conflict) extends Ordered

  /** The entry may be there, or may still come. */
  final case class Unclear(cause: Throwable) extends Ordered
}

/**
 * Steps 5 and 6: validates, and puts the entry under the next number; again when somebody else took it.
 *
 * The number is all that transactions over different tables share. So one that lost it reads what was
 * put since, and nothing else, unless that touches its tables.
 */
private[commit] final class Order(
    env: Environment,
    bindings: Bindings,
    finish: Finish,
    stage: Stage,
    names: Names) {
  import env.{timeline, clock, observer, options, safeguards}

  private val validate = new Validate(env, bindings)
  private val entryOf = new EntryOf(env)
  private val waiting = new Waiting(env)

  /**
   * What the logs said.
   *
   * @param staged with the net actions that are published
   * @param next the first number whose entry they may not show
   */
  private case class Found(
      staged: Vector[Staged],
      validated: Validated,
      next: Long,
      atMs: Long)

  /** @param read the timeline, as it was read since the transaction began to commit */
  def apply(work: ToOrder, read: TimelineView): Ordered =
    order(work, read, None, clock.steadyMs(), 1)

  /** @param before what the logs said, if that holds for the number after `read`, too */
  @tailrec
  private def order(
      work: ToOrder,
      read: TimelineView,
      before: Option[Found],
      sinceMs: Long,
      tries: Int): Ordered = {
    val early = if (safeguards.timelineFirst) None else Some(validate(work))
    val view = if (safeguards.timelineFirst) read else timeline.refresh()
    observer.timelineRead(work.txn.id, view.next)
    val aborted = view.aborted(work.txn.id).filter(_ => safeguards.obeysAborts)
    aborted.map(Conflict.aborted).toLeft(()).flatMap { _ =>
      before.map(Right(_)).getOrElse(work.costs("validate")(find(work, view, early)))
    } match {
      case Left(conflict) => Ordered.Conflicting(conflict)
      case Right(found) =>
        val entry = entryOf(work.txn, view, found.staged, found.validated, work.names)
        work.costs("order") {
          place(entry, options.putAttempts, None, isContested = tries > 1)
        } match {
          case Put.Ours(isDurable, atHead) =>
            Ordered.Placed(entry, found.staged.map(_.changes), isDurable, atHead, tries)
          case Put.Unclear(cause) => Ordered.Unclear(cause)
          case Put.Theirs
              if tries >= Order.LeastTries && clock.steadyMs() - sinceMs >= options.longestWaitMs =>
            Ordered.Conflicting(Conflict.overEntry(Rule.CommitTimeout, entry.number))
          case Put.Theirs =>
            // What cannot be read ends COMMIT: it is somebody else's entry.
            val known = timeline.known
            val now =
              if (known.next > entry.number) known else timeline.refreshEntries(Order.Ahead)
            order(work, now, Some(found).filter(stillHolds(work, _, now)), sinceMs, tries + 1)
        }
    }
  }

  /**
   * Whether what the logs said is so in front of another number, too: no entry since touches our
   * tables, nor what counts as read, nor depends on them. What foreign writers do has no entry, so it is
   * not good for long.
   */
  private def stillHolds(work: ToOrder, found: Found, view: TimelineView): Boolean = {
    val written = found.staged.map(_.binding.log).toSet
    val reads = found.validated.reads.map(_.log)
    val isUnbound = reads.exists(_.isEmpty)
    val touches = touching(work, written, reads)
    !safeguards.looksAgain || !isUnbound && found.next >= view.first &&
    clock.steadyMs() - found.atMs < Order.HoldsMs &&
    !view.after(found.next - 1).map(_.entry).exists {
      case entry: CommitEntry => touches(entry)
      case _ => false
    }
  }

  /** Whether an entry is one of those that 5b finishes first, so that 5c comes after them. */
  private def touching(
      work: ToOrder,
      written: Set[String],
      reads: Seq[String]): CommitEntry => Boolean = {
    val (logs, ours) = (written ++ reads, work.touched)
    entry =>
      entry.tables.exists(table => logs(table.log)) || ours.meets(entry) ||
        Batches.meets(work.txn, entry) ||
        safeguards.helpsReads && entry.reads.exists(read => written(read.log))
  }

  /** Steps 5b to 5d; merged rows are durable before the entry. */
  private def find(
      work: ToOrder,
      view: TimelineView,
      early: Option[Either[Conflict, Validated]]): Either[Conflict, Found] = {
    val gaveUp = help(work, view)
    val startedMs = clock.steadyMs()
    for {
      _ <- gaveUp.toLeft(())
      _ <- batchConflict(work).toLeft(())
      _ <- names.conflict(work.txn, work.touched, timeline.known).toLeft(())
      _ <- restoreConflict(work).toLeft(())
      validated <- early.getOrElse(validate(work))
      merged = work.staged.zip(validated.written).map { case (s, c) => s.copy(changes = c.changes) }
      fresh = merged.zip(work.staged).collect { case (m, s) if m.changes ne s.changes => m }
      _ <- (if (fresh.isEmpty) None else stage.persist(work.txn, fresh)).toLeft(())
    } yield {
      observer.validated(work.txn.id)
      Found(merged, validated, view.next, startedMs)
    }
  }

  private def batchConflict(work: ToOrder): Option[Conflict] =
    if (work.txn.batches.isEmpty || !safeguards.checksBatches) None
    else {
      // How what was helped has ended is not always known here.
      val open = timeline.known.unfinished.filter(Batches.meets(work.txn, _)).map(_.number)
      val view = if (open.isEmpty) timeline.known else timeline.refreshEnds(open)
      Batches.conflict(work.txn, view)
    }

  /**
   * Step 19: rows that two statements bring back at once may be in other files of each, which then are
   * both there.
   */
  private def restoreConflict(work: ToOrder): Option[Conflict] = {
    val restored =
      work.staged.filter(_.changes.parts.flatMap(_.operations).exists(CommitInfo.isRestore))
        .map(_.binding.log).toSet
    def since = timeline.since(work.txn.snapshot).map(_.entry)
    if (restored.isEmpty) None
    else
      since.collect { case entry: CommitEntry =>
        for (t <- entry.tables if restored(t.log) && t.operations.exists(CommitInfo.isRestore))
          yield Conflict.overTable(Rule.SameFile, t.name, t.path).copy(
            operation = Some(CommitInfo.Restore),
            user = Some(entry.transaction.user),
            timeMs = Some(entry.timeMs),
            otherTransaction = Some(entry.transaction.id),
            entry = Some(entry.number)
          )
      }.flatten.nextOption()
  }

  private def validate(work: ToOrder): Either[Conflict, Validated] =
    validate(work.txn, work.staged, work.reads, work.known)

  /**
   * Step 5b: finishes entries that write what we wrote, and what we read if that counts; and those that
   * depend on having read what we write, as a query must not see us without them.
   */
  private def help(work: ToOrder, view: TimelineView): Option[Conflict] = {
    val counted =
      if (safeguards.helpsReads && work.txn.readsCount) work.reads else Vector.empty
    // A log that is no longer the pinned one is found in 5c.
    val read = env.inParallel(counted) { table =>
      table.pinnedAs.flatMap(_.log).orElse(bindings.find(table.path).map(_.log))
    }.flatten
    val written = work.staged.map(_.binding.log).toSet
    val met = finish.leftOpen(view.unfinished.filter(touching(work, written, read)), looks = 1)
    val gaveUp = met.iterator.flatMap(waiting(_, written ++ read)).nextOption()
    if (gaveUp.isEmpty) {
      finish.leftOpen(met).foreach(entry =>
        view.status(entry.number).foreach(s => finish.help(entry, s.hash))
      )
      observer.helped(work.txn.id)
    }
    gaveUp
  }

  private sealed trait Put
  private object Put {
    case class Ours(isDurable: Boolean, atHead: Set[Int]) extends Put
    case object Theirs extends Put
    case class Unclear(cause: Throwable) extends Put
  }

  /**
   * Step 6. Only a number that was read decides after a put that may have had an effect: while it is
   * absent, or cannot be read, the entry may be ours or may still become it. Beside it the logs are
   * looked at, for step 7.
   *
   * @param doubt why an earlier put of this entry may have had an effect, if one may
   * @param isContested whether others are likely to be quicker, so that it is worth while to look
   *   beside the put for what they put
   */
  @tailrec
  private def place(
      entry: CommitEntry,
      attempts: Int,
      doubt: Option[Throwable],
      isContested: Boolean): Put = {
    observer.beforeOrder(entry)
    val looks = entry.tables.map(table => () => env.isAtHead(table))
    val others = if (isContested) Vector(() => timeline.refreshEntries(Order.Ahead)) else Vector()
    val answers =
      options.publishExecutor.run[Any]((() => timeline.putEntry(entry)) +: (looks ++ others))
    val put = answers.head match {
      case Right(outcome: PutOutcome) => outcome
      case Left(e: LakestepException) if doubt.isEmpty => throw e
      case other => PutOutcome.Unknown(other.left.getOrElse(new IllegalStateException))
    }
    put match {
      case PutOutcome.Created =>
        val atHead = answers.tail.zipWithIndex.collect { case (Right(true), i) => i }
        Put.Ours(isDurable = true, atHead.toSet)
      case other =>
        val cause = other match {
          case PutOutcome.Unknown(e) => e
          case _ =>
            doubt.getOrElse(new java.io.IOException(s"entry ${entry.number} cannot be read"))
        }
        readBack(entry) match {
          case Some(true) => Put.Ours(isDurable = false, atHead = Set.empty)
          case Some(false) => Put.Theirs
          case None if attempts <= 1 => Put.Unclear(cause)
          case None => place(entry, attempts - 1, Some(cause), isContested)
        }
    }
  }

  /** With what was put after it, so that the next number is known; ends are asked for by who needs them. */
  private def readBack(entry: CommitEntry): Option[Boolean] = {
    def isOurs(view: TimelineView) =
      view.status(entry.number).map(_.hash == Json.blake3(TimelineCodec.encode(entry)))
    try
      isOurs(timeline.known).orElse(isOurs(timeline.refreshEntries(Order.Ahead)))
        .orElse(timeline.holds(entry))
    catch {
      case NonFatal(_) =>
        try timeline.holds(entry)
        catch { case NonFatal(_) => None }
    }
  }
}

private object Order {

  /** How many numbers a COMMIT reads at once when it has lost one. */
  val Ahead = 4

  /** How often a number is lost before COMMIT gives up, however little time it has. */
  val LeastTries = 50

  /** For how long what the logs said need not be asked again. */
  val HoldsMs = 1000L
}
