package io.lakestep.commit

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.LakestepException
import io.lakestep.log.{LogCommit, NetChanges}
import io.lakestep.timeline.{Aborting, CommitEntry, Completed, Conflict, Outcome, RolledBack, Rule}

/**
 * Steps 7 to 9: brings an ordered entry to its end, whoever owns it.
 *
 * The owner and every helper run exactly this; whoever is late finds the work done. Throws when this
 * client cannot go on (no permission, a store without answers); the entry stays for the next one.
 */
private[commit] final class Finish(env: Environment, names: Names) {
  import env.{timeline, stores, clock, observer, options, safeguards}

  private val publish = new Publish(env)
  private val settle = new Undo(env)

  /** An entry that may have an outcome already. */
  def apply(entry: CommitEntry, hash: String): Finished = ending(entry, hash) {
    env.keep(timeline.entryFile(entry.number))
    def changes(index: Int) = env.changes(entry, entry.tables(index))
    outcomeOf(entry, hash).getOrElse {
      decide(entry, hash) {
        lost(entry, changes).fold(publishAll(entry, changes, Set.empty))(Vector(_))
      }
    }
  }

  /**
   * The entry that the caller has just ordered, with its net actions table by table.
   *
   * @param atHead the tables whose logs have just been seen to end with the base
   * @param tell is told of each commit that this client itself has put, and in which table
   */
  def own(
      entry: CommitEntry,
      hash: String,
      changes: Vector[NetChanges],
      atHead: Set[Int],
      tell: (Int, LogCommit) => Unit): Finished =
    ending(entry, hash)(decide(entry, hash)(publishAll(entry, changes, atHead, tell)))

  /**
   * A data file of what is not published yet is gone. The owner has looked for them just before the
   * entry; others may come days later, when VACUUM has taken what no version names. Asked before
   * anything is put, so that nothing is published that would have to be undone for it.
   */
  private def lost(entry: CommitEntry, changes: Int => NetChanges): Option[Vote] =
    if (!options.syncDataFiles) None
    else {
      val files = env.inParallel(entry.tables.indices.toVector) { i =>
        publish.missing(entry, i, changes(i)).map(i -> _)
      }.flatten
      val found = env.inParallel(files) { case (_, file) => stores.forPath(file).exists(file) }
      files.zip(found).collectFirst { case ((i, file), false) =>
        val table = entry.tables(i)
        Vote.Conflicting(
          Conflict.overTable(Rule.FileGone, table.name, table.path, Vector(file))
        )
      }
    }

  private def ending(entry: CommitEntry, hash: String)(outcome: => Outcome): Finished = {
    val finished =
      try end(entry, hash, outcome)
      catch { case NonFatal(e) => ended(entry, hash).getOrElse(throw e) }
    cleanUp(entry)
    finished
  }

  /** Finishes the entry of another client; whoever cannot is told which one it is, whatever it is. */
  def help(entry: CommitEntry, hash: String): Finished =
    try {
      val end = apply(entry, hash)
      env.tell(TransactionEvent.FinishedForOther(entry, end))
      end
    } catch {
      case e: LakestepException if NamesEntry(e.getCondition) => throw e
      case NonFatal(e) => throw env.unfinished(entry, String.valueOf(e.getMessage), Some(e))
    }

  /**
   * Those of these entries that have no end, also after so many requests as the client needs that has
   * just put one: it is quicker than who helps it.
   *
   * @param beside done once, while they are first asked for
   */
  @tailrec
  def leftOpen(
      entries: Vector[CommitEntry],
      looks: Int = Finish.Looks,
      beside: Option[() => Unit] = None): Vector[CommitEntry] =
    if (entries.isEmpty) entries
    else {
      def look() = timeline.refreshEnds(entries.map(_.number))
      val view = beside.fold(look())(work => env.both(look(), work())._1)
      val open = entries.filter(e => view.unfinished.exists(_.number == e.number))
      if (open.exists(isYoung) && looks > 1) leftOpen(open, looks - 1, beside = None) else open
    }

  /** Whether its client is about to finish it, as far as clocks agree. */
  def isYoung(entry: CommitEntry): Boolean = clock.nowMs() - entry.timeMs < Finish.YoungMs

  private val NamesEntry = Set("LAKESTEP_ENTRY_UNFINISHED", "LAKESTEP_TIMELINE_CORRUPT")

  /** The end that others gave the entry meanwhile; they have also deleted its staged files. */
  private def ended(entry: CommitEntry, hash: String): Option[Finished] =
    outcomeOf(entry, hash).flatMap {
      case c: Completed => Some(Finished.Completed(c.slots))
      case a: Aborting =>
        timeline.readRolledBack(entry.number, hash)
          .map(end => Finished.RolledBack(a.evidence, Residue.of(entry, end)))
    }

  /** The outcome that somebody has put, durable before anybody is told of it. */
  private def outcomeOf(entry: CommitEntry, hash: String): Option[Outcome] = {
    val outcome = timeline.readOutcome(entry.number, hash)
    if (outcome.isDefined) env.keep(timeline.outcomeFile(entry.number))
    outcome
  }

  private def end(entry: CommitEntry, hash: String, outcome: Outcome): Finished = outcome match {
    case c: Completed =>
      names(entry, hash)
      Finished.Completed(c.slots)
    case a: Aborting => rollBack(entry, hash, a)
  }

  /** Steps 7 and 8. */
  private def decide(entry: CommitEntry, hash: String)(publishing: => Vector[Vote]): Outcome = {
    val votes = publishing
    val existing =
      if (votes.exists(_.isInstanceOf[Vote.Decided])) outcomeOf(entry, hash) else None
    existing.getOrElse {
      val conflict = votes.collectFirst {
        case Vote.Conflicting(c) => c
        case Vote.Decided(c) => c
      }
      val outcome = conflict match {
        case Some(c) => Aborting(entry.number, hash, clock.nowMs(), c)
        case None => completed(entry, hash, votes.collect { case p: Vote.Published => p })
      }
      if (conflict.isDefined && !safeguards.decidesFirst)
        entry.tables.indices.foreach(settle(entry, _))
      if (!safeguards.makesNamesAfterwards) names(entry, hash)
      observer.beforeDecision(entry, outcome)
      val decided = timeline.decide(outcome)
      if (decided ne outcome) env.keep(timeline.outcomeFile(entry.number))
      observer.decided(entry, decided)
      decided
    }
  }

  private def completed(entry: CommitEntry, hash: String, votes: Vector[Vote.Published]) =
    Completed(
      entry.number,
      hash,
      clock.nowMs(),
      votes.map(_.slots),
      votes.flatMap(v => v.slots.map(v.hashes.getOrElse(_, "")))
    )

  /**
   * Fences first; then what foreign commits may still conflict with, then what is closed to them or
   * fenced, then blind appends. Each group at once, and only when all that was before it is in.
   *
   * @param atHead tables whose logs have just been seen to end with the base
   */
  private def publishAll(
      entry: CommitEntry,
      changes: Int => NetChanges,
      atHead: Set[Int],
      tell: (Int, LogCommit) => Unit = (_, _) => ()): Vector[Vote] = {
    val all = entry.tables.indices.toVector
    def isReserved(i: Int) = entry.tables(i).reserve.isDefined
    val fences = if (safeguards.reservesFirst) all.filter(isReserved) else Vector.empty
    val reserved =
      env.inParallel(fences)(i => publish.reserve(entry, i, changes(i), atHead(i), tell(i, _)))
    val groups =
      if (safeguards.conflictCapableFirst) {
        val (capable, appends) = all.partition(entry.tables(_).conflictCapable)
        val (guarded, open) = capable.partition(i => isReserved(i) || entry.tables(i).closed)
        Vector(open, guarded, appends)
      } else Vector(all.reverse)
    val walks = fences.zip(reserved).collect { case (i, Vote.Published(_, _, Some(w))) =>
      i -> w
    }.toMap
    def isAtEnd(i: Int) = if (isReserved(i)) walks.contains(i) else atHead(i)
    if (!reserved.forall(isIn)) reserved
    else
      groups.foldLeft(Vector.empty[(Int, Vote)]) { (votes, group) =>
        if (votes.forall(v => isIn(v._2)))
          votes ++ env.inParallel(group) { i =>
            i -> publish(entry, i, changes(i), isAtEnd(i), walks.get(i), tell(i, _))
          }
        else votes
      }.sortBy(_._1).map(_._2)
  }

  private def isIn(vote: Vote): Boolean = vote.isInstanceOf[Vote.Published]

  /** Step 9. */
  private def rollBack(entry: CommitEntry, hash: String, aborting: Aborting): Finished = {
    val end = timeline.readRolledBack(entry.number, hash).getOrElse {
      val settled = env.inParallel(entry.tables.indices.toVector)(settle(entry, _))
      observer.beforeRolledBack(entry)
      val put = timeline.endRollback(RolledBack(entry.number, hash, clock.nowMs(), settled))
      observer.rolledBack(entry, put)
      put
    }
    Finished.RolledBack(aborting.evidence, Residue.of(entry, end))
  }

  /** Removes what nobody needs any more. */
  private def cleanUp(entry: CommitEntry): Unit =
    env.cleanUp(
      entry.transaction.id,
      entry.tables.map(_.path),
      more = Seq(() => timeline.deleteRequested(entry.transaction.id))
    )
}

private object Finish {

  /** How often a young entry is asked for its end before it is helped. */
  val Looks = 6

  /** For how long an entry is young: policy, as clocks differ. */
  val YoungMs = 1000L
}

private[lakestep] object Residue {

  /** Of these what can still be seen. */
  def visible(residue: Vector[String]): Vector[String] =
    residue.filterNot(text => Undo.Gone.residue.exists(gone => text.endsWith(s": $gone")))

  /** What a rolled-back entry had to leave, each with its table. */
  def of(entry: CommitEntry, end: RolledBack): Vector[String] =
    entry.tables.zip(end.tables).flatMap { case (t, s) => s.residue.map(r => s"${t.name}: $r") }
}
