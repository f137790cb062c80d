package io.lakestep.commit

import java.util.concurrent.atomic.AtomicReference

import io.lakestep.timeline.{NameKey, NamedObject, Timeline, TimelineView}

/**
 * What names stand for in a query outside a transaction, all at one point: the timeline as it is read for
 * the first of them.
 *
 * @param start the timeline as it was known before the query looked its first name up
 */
final class QueryNames private[commit] (timeline: Timeline, names: Names, start: TimelineView) {
  private val first = new AtomicReference(Option.empty[TimelineView])

  /** Nothing before a name has been looked up. */
  private[commit] def point: Option[TimelineView] = first.get

  /**
   * Names that a metastore may show otherwise than they were at the point, with what they stood for there. The
   * metastore is asked before this call.
   */
  def before(): Map[NameKey, Option[NamedObject]] = {
    // What a metastore said has its entry in a later reading.
    if (point.isEmpty) first.set(Some(timeline.refresh())) else timeline.refreshEntries()
    point.fold(Map.empty[NameKey, Option[NamedObject]])(names.before(start, _))
  }
}

/**
 * Names whose tables a query reads.
 *
 * @param met all that the query has looked up
 */
final case class ReadNames(names: QueryNames, met: Set[NameKey])
