package io.lakestep.commit

import io.lakestep.timeline.{NamedSnapshot, TimelineSnapshot}

/**
 * A point of the timeline at which tables are read.
 *
 * @param entry the newest entry that is read; none after it is
 * @param base what the entries up to there left behind
 * @param notAfterMs newest commit time of others that is read, where no entry of ours decides
 * @param named the named snapshot that it is of, which has the versions of its tables
 * @param upTo logs of which all is read that stands before the next entry's commit, whenever it was made
 * @param isPast whether much may have happened since: then a table's own log is asked, not the entries since
 */
final case class ReadPoint(
    entry: Long,
    base: TimelineSnapshot,
    notAfterMs: Long,
    isPast: Boolean = false,
    named: Option[NamedSnapshot] = None,
    upTo: Set[String] = Set.empty) {

  /** Newest commit time of others that is read of a log, where no entry of ours decides. */
  def notAfter(log: Option[String]): Long = if (log.exists(upTo)) Long.MaxValue else notAfterMs
}
