package io.lakestep.commit

import scala.collection.mutable
import scala.util.control.NonFatal

import io.lakestep.LakestepException
import io.lakestep.log.{CommitMark, LogCommit, LogTail, MarkKind, TableRef}
import io.lakestep.timeline.{CommitEntry, Completed, EntryStatus, EntryTable, ReadEntry, RolledBack}

/**
 * One thing that a verification has looked at.
 *
 * @param what the file, or what else was looked at
 * @param nextStep what to do; empty where there is nothing to do
 */
final case class VerificationFinding(
    severity: Severity,
    what: String,
    text: String,
    nextStep: String = "")

/** How bad a finding is. */
sealed abstract class Severity(val text: String)

object Severity {
  case object Ok extends Severity("ok")

  /** What could not be checked, or is going on. */
  case object Note extends Severity("note")
  case object Problem extends Severity("problem")
}

/**
 * Whether the timeline is whole, and the commits of its entries stand in the logs of their tables. It
 * proves order and content, not who wrote them: who changes a file and all that hold its hash is not found.
 * Each is used once.
 */
final class Verification private[commit] (env: Environment) {
  import env.timeline
  import Verification._

  private val completed = mutable.Set.empty[Long]
  private val logs = mutable.Map.empty[TableRef, Log]

  /** By the id of a log: a folder may have been moved. */
  private val slots = mutable.Map.empty[String, mutable.Set[Long]]

  /** Entries without an end, by the logs that they write. */
  private val open = mutable.Map.empty[String, Long]

  /** Reads every entry, its end, and each commit that it has put. */
  def entries(): Vector[VerificationFinding] = {
    val unknown = timeline.checkId()
    // Without its id nothing can be compared.
    val (last, unread) =
      if (timeline.existingId.isEmpty) (0L, Vector.empty) else timeline.newestKnown()
    val damaged = timeline.everyEntry(last).flatMap { entry =>
      entry.damage.map(damage) ++ inFlight(entry) ++ endless(entry) ++ commits(entry)
    }.toVector.distinct
    val found =
      (unknown.toVector ++ unread).map(damage) ++ damaged ++ logs.toVector.sortBy(_._1.uri)
        .flatMap { case (table, log) => strays(table, log, last) ++ untold(table, log) }
    if (found.exists(_.severity == Severity.Problem)) found
    else found :+ VerificationFinding(Severity.Ok, timeline.root, summary(last))
  }

  private def summary(last: Long): String =
    if (last == 0) "There are no entries."
    else
      s"Entries 1 to $last: none is missing, each holds the hash of the one before, and each end is " +
        s"that of its entry. ${logs.values.map(_.seen.size).sum} commits in " +
        s"${logs.values.count(_.seen.nonEmpty)} tables are those of their entries."

  private def inFlight(entry: ReadEntry): Option[VerificationFinding] =
    entry.status.filter(s => !s.isFinished && entry.damage.isEmpty).map { _ =>
      VerificationFinding(
        Severity.Note,
        s"entry ${entry.number}",
        "It is in flight: its client is at work, or has died.",
        "If its client has died: RECOVER."
      )
    }

  /** Nobody commits to a table before earlier entries over it have ended. */
  private def endless(read: ReadEntry): Vector[VerificationFinding] = {
    val tables = read.status.map(_.entry).collect { case c: CommitEntry => c }.toVector
      .flatMap(_.tables)
    val isOpen = read.status.exists(!_.isFinished) && read.damage.isEmpty
    val found = tables.flatMap(t => open.get(t.log)).distinct.map { number =>
      problem(
        timeline.outcomeFile(number),
        s"It, or what ends its rollback, is missing: entry ${read.number} over the same table is later."
      )
    }
    if (isOpen) tables.foreach(t => open.getOrElseUpdate(t.log, read.number))
    else tables.foreach(t => open.remove(t.log))
    found
  }

  private def commits(read: ReadEntry): Vector[VerificationFinding] =
    read.status.toVector.flatMap { status =>
      status.entry match {
        case entry: CommitEntry =>
          if (status.outcome.exists(_.isInstanceOf[Completed])) completed += entry.number
          val misfits = misfit(entry, status)
          val put = if (misfits.isEmpty) slotsOf(entry, status) else Vector.empty
          put.map(_.table.path).distinct.filterNot(logs.contains)
            .foreach(path => logs(path) = listed(path))
          val looked = env.inParallel(put)(slot => slot -> checked(slot, logs(slot.table.path)))
          misfits ++ looked.flatMap { case (slot, told) =>
            val log = logs(slot.table.path)
            slots.getOrElseUpdate(slot.table.log, mutable.Set.empty) += slot.version
            told match {
              case Told.Fine =>
                log.seen += slot.version
                None
              case Told.Untold(why) =>
                log.untold(why) = log.untold.getOrElse(why, Vector.empty) :+ slot.entry
                None
              case Told.Wrong(why) => Some(problem(slot.table.path.slot(slot.version), why))
              case Told.WrongBinding(why) => Some(problem(slot.table.path.binding, why))
            }
          }
        case _ => Vector.empty
      }
    }

  private def listed(table: TableRef): Log =
    try new Log(Bindings.read(env.stores, table).map(_.log), env.log(table).tail(0))
    catch {
      case e: LakestepException if e.getCondition == "LAKESTEP_TIMELINE_CORRUPT" =>
        new Log(None, LogTail(0, Vector.empty, Vector.empty), Some(Told.WrongBinding(e.getMessage)))
      case NonFatal(e) =>
        val why = s"It cannot be read: ${e.getMessage}."
        new Log(None, LogTail(0, Vector.empty, Vector.empty), Some(Told.Untold(why)))
    }

  /** The table may have been dropped, or its log cleaned up, since it was listed. */
  private def checked(slot: Slot, log: Log): Told = look(slot, log) match {
    case _: Told.Wrong | _: Told.WrongBinding => look(slot, listed(slot.table.path))
    case told => told
  }

  private def look(slot: Slot, log: Log): Told =
    if (log.failure.isDefined) log.failure.getOrElse(Told.Fine)
    else if (log.tail.head.isEmpty) Told.Untold("The table is gone.")
    else if (!log.id.contains(slot.table.log)) elsewhere(slot)
    else
      try env.log(slot.table.path).read(slot.version).fold(absent(slot, log))(judge(slot, log, _))
      catch { case e: LakestepException => Told.Wrong(e.getMessage) }

  /** Another table has none of our commits. */
  private def elsewhere(slot: Slot): Told = {
    def isOurs = env.log(slot.table.path).read(slot.version)
      .exists(c => slot.hash.nonEmpty && c.hash.contains(slot.hash))
    try
      if (!isOurs) Told.Untold("Another table is at this path.")
      else
        Told.WrongBinding(
          "It is missing, or was changed: commits of this timeline stand in the log."
        )
    catch { case _: LakestepException => Told.Untold("Another table is at this path.") }
  }

  private def absent(slot: Slot, log: Log): Told =
    if (log.tail.hasCheckpointFrom(slot.version)) Told.Untold("The log was cleaned up.")
    else Told.Wrong(s"It is missing: entry ${slot.entry} has put it, and no checkpoint covers it.")

  private def judge(slot: Slot, log: Log, commit: LogCommit): Told = {
    def isOf(mark: CommitMark) = mark.isOf(timeline.id, slot.entry, slot.index) &&
      slot.kinds(mark.kind) && slot.part.forall(_ == mark.part)
    val isWhole = (slot.table.base + 1 until slot.version).forall(log.tail.slot(_).isDefined)
    if (!commit.mark.exists(isOf))
      // A slot that was named after a clean-up may be a later one.
      if (isWhole) Told.Wrong(s"It is not the commit that entry ${slot.entry} has put there.")
      else Told.Untold("The log was cleaned up.")
    else if (slot.hash.isEmpty || commit.hash.contains(slot.hash)) Told.Fine
    else
      Told.Wrong(s"It was changed: the outcome of entry ${slot.entry} holds another hash of it.")
  }

  /**
   * Commits that say they are of an entry, and are not. What a checkpoint covers is left out: nobody reads
   * it, and a client that was suspended during a log clean-up may have put it.
   */
  private def strays(table: TableRef, log: Log, last: Long): Vector[VerificationFinding] = for {
    listed <- log.tail.slots
    version = listed.version
    if !log.id.flatMap(slots.get).exists(_(version)) && !log.tail.hasCheckpointFrom(version)
    mark <- markOf(table, version)
    if mark.timeline == timeline.id &&
      (completed(
        mark.entry
      ) || !(1L to last).contains(mark.entry) && timeline.isMissing(mark.entry))
  } yield problem(
    table.slot(version),
    s"It says it is of entry ${mark.entry}, which has not put it."
  )

  private def markOf(table: TableRef, version: Long): Option[CommitMark] =
    try env.log(table).read(version).flatMap(_.mark)
    catch { case _: LakestepException => None }

  private def untold(table: TableRef, log: Log): Iterable[VerificationFinding] =
    log.untold.map { case (why, entries) =>
      val named =
        if (entries.distinct.size == 1) s"entry ${entries.head}"
        else s"${entries.distinct.size} entries, ${entries.min} to ${entries.max},"
      VerificationFinding(
        Severity.Note,
        table.uri,
        s"$why The commits of $named cannot be checked."
      )
    }

  /** What no client would have put. */
  private def misfit(entry: CommitEntry, status: EntryStatus): Vector[VerificationFinding] = {
    val wrong = (status.outcome, status.rolledBack) match {
      case (Some(c: Completed), _) =>
        c.slots.size != entry.tables.size || entry.tables.zip(c.slots).exists { case (t, slots) =>
          val all = t.base +: slots
          slots.size > t.commits || all.zip(all.drop(1)).exists { case (a, b) => b <= a }
        } || !Set(0, c.slots.map(_.size).sum)(c.commitHashes.size)
      case (_, Some(end)) => end.tables.size != entry.tables.size
      case _ => false
    }
    if (!wrong) Vector.empty
    else
      Vector(problem(timeline.outcomeFile(entry.number), "It cannot be the end of its entry."))
  }

  private def slotsOf(entry: CommitEntry, status: EntryStatus): Vector[Slot] =
    (status.outcome, status.rolledBack) match {
      case (Some(c: Completed), _) =>
        val hashes = if (c.commitHashes.size == c.slots.map(_.size).sum) c.commitHashes.iterator
        else Iterator.continually("")
        entry.tables.zipWithIndex.zip(c.slots).flatMap { case ((table, index), versions) =>
          val parts = Option.when(versions.size == table.commits)(table.first to table.parts)
          versions.zipWithIndex.map { case (version, i) =>
            val part = parts.map(_(i))
            val kinds: Set[MarkKind] = part match {
              case Some(0) => Set(MarkKind.Reserve)
              case Some(_) => Set(MarkKind.Publish)
              case None => Set(MarkKind.Reserve, MarkKind.Publish)
            }
            Slot(entry.number, index, table, version, kinds, part, hashes.next())
          }
        }
      case (_, Some(RolledBack(_, _, _, ends))) =>
        for {
          ((table, index), end) <- entry.tables.zipWithIndex.zip(ends)
          version <- end.version if end.how != "gone"
        } yield Slot(
          entry.number,
          index,
          table,
          version,
          Set(MarkKind.Undo, MarkKind.Close),
          None,
          ""
        )
      case _ => Vector.empty
    }
}

private object Verification {

  /** A commit that an entry has put; its part and its hash may be unknown. */
  private final case class Slot(
      entry: Long,
      index: Int,
      table: EntryTable,
      version: Long,
      kinds: Set[MarkKind],
      part: Option[Int],
      hash: String)

  /** The log of a table as it was listed, and what was found of it. */
  private final class Log(
      val id: Option[String],
      val tail: LogTail,
      val failure: Option[Told] = None) {
    val seen: mutable.Set[Long] = mutable.Set.empty
    val untold: mutable.Map[String, Vector[Long]] = mutable.LinkedHashMap.empty
  }

  private sealed trait Told
  private object Told {
    case object Fine extends Told
    final case class Untold(why: String) extends Told
    final case class Wrong(why: String) extends Told
    final case class WrongBinding(why: String) extends Told
  }

  private def problem(file: String, why: String) = VerificationFinding(
    Severity.Problem,
    file,
    why,
    "Restore the table together with the timeline; see LAKESTEP_TABLE_OVERWRITTEN."
  )

  private def damage(error: LakestepException) = VerificationFinding(
    Severity.Problem,
    error.getMessageParameters.getOrDefault("file", ""),
    error.getMessage,
    "Restore the file from a backup. Do not edit or delete files of a timeline."
  )
}
