package io.lakestep.commit

import java.time.Instant
import java.util.Locale

import io.lakestep.{Errors, LakestepException}
import io.lakestep.timeline.{CommitEntry, Timeline, TimelineSnapshot}

/** An earlier state of the database that a transaction reads. */
sealed trait AsOf

object AsOf {

  private val OfDatabase = "(?i)db:(.*)".r
  private val OfSnapshot = "(?i)snapshot:(.*)".r

  /** A state of the database, where what a query gives as a version is one, and not one of the table. */
  def inQuery(text: String): Option[AsOf] = text match {
    case OfDatabase(_) | OfSnapshot(_) => Some(asked(text))
    case _ => None
  }

  /** The same, where a number alone is one. Condition: LAKESTEP_AS_OF_INVALID. */
  def asked(text: String): AsOf = text.trim match {
    case OfSnapshot(name) => Named(name.trim)
    case OfDatabase(number) => version(number, text)
    case number => version(number, text)
  }

  private def version(number: String, text: String): AsOf = Version(
    number.trim.toLongOption.getOrElse(throw Errors("LAKESTEP_AS_OF_INVALID", "asked" -> text))
  )

  /** What the entries up to this one left behind. */
  final case class Version(number: Long) extends AsOf {
    override def toString: String = s"VERSION $number"
  }

  /** What was committed up to then. */
  final case class Time(timeMs: Long) extends AsOf {
    override def toString: String = s"TIMESTAMP ${Instant.ofEpochMilli(timeMs)}"
  }

  /** What there was when a transaction was committed, without what it has changed itself. */
  final case class Before(transaction: String) extends AsOf {
    override def toString: String = s"BEFORE TRANSACTION $transaction"
  }

  /** What a named snapshot has, without regard to case. */
  final case class Named(name: String) extends AsOf {
    override def toString: String = s"SNAPSHOT $name"
  }

  /**
   * What is read then. Foreign commits count up to a time: that of the version, or the one that is named.
   *
   * @param finished the newest version
   *
   * Conditions: LAKESTEP_AS_OF_NOT_FOUND, LAKESTEP_NO_SUCH_SNAPSHOT.
   */
  private[commit] def point(
      asOf: AsOf,
      timeline: Timeline,
      finished: Long,
      nowMs: Long): ReadPoint =
    asOf match {
      case Version(number) if number < 1 =>
        throw notFound(s"VERSION $number", "the first version is 1")
      case Version(number) if number > finished =>
        throw notFound(s"VERSION $number", s"the newest version is $finished")
      case Version(number) =>
        val snapshot = timeline.snapshotAt(number)
        at(snapshot, snapshot.timeMs.getOrElse(nowMs))
      case Time(timeMs) if timeMs > nowMs =>
        throw notFound(time(timeMs), s"it is later than now, ${text(nowMs)}")
      case Time(timeMs) =>
        val snapshot =
          if (finished == 0) TimelineSnapshot.empty else timeline.snapshotBefore(timeMs)
        if (snapshot.number == 0)
          throw notFound(time(timeMs), "it is before the first transaction ended")
        at(snapshot, timeMs)
      case Before(id) => before(id, timeline, finished, nowMs)
      case Named(name) =>
        val named = timeline.snapshots.find(lowered(name)).getOrElse(throw noSuch(name))
        at(timeline.snapshotAt(named.entry), named.timeMs).copy(named = Some(named))
    }

  private def before(id: String, timeline: Timeline, finished: Long, nowMs: Long): ReadPoint = {
    def none(reason: String) = notFound(Before(id).toString, reason)
    val status = timeline.entriesOf(Set(id))
      .getOrElse(id, throw none("the timeline has no entry of this transaction"))
    status.entry match {
      case entry: CommitEntry if entry.number <= finished && status.isCompleted =>
        val earlier = timeline.snapshotAt(entry.number - 1)
        at(earlier, status.endedAtMs.getOrElse(nowMs)).copy(upTo = entry.tables.map(_.log).toSet)
      case _ => throw none("it is not committed")
    }
  }

  /** As the files of snapshots are called. */
  private[commit] def lowered(name: String): String = name.toLowerCase(Locale.ROOT)

  private[lakestep] def noSuch(name: String): LakestepException =
    Errors("LAKESTEP_NO_SUCH_SNAPSHOT", "snapshot" -> name)

  private def at(snapshot: TimelineSnapshot, timeMs: Long) =
    ReadPoint(snapshot.number, snapshot, timeMs, isPast = true)

  private def time(ms: Long) = s"TIMESTAMP ${text(ms)}"
  private def text(ms: Long) = java.time.Instant.ofEpochMilli(ms).toString

  private def notFound(asked: String, reason: String): LakestepException =
    Errors("LAKESTEP_AS_OF_NOT_FOUND", "asked" -> asked, "reason" -> reason)
}
