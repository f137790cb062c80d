package io.lakestep.overlay

import java.util.concurrent.ConcurrentHashMap

/**
 * The last version that each open transaction of this process has staged per table. Staged commits
 * are written only by the driver that runs the transaction, through [[OverlayLogStore]], so this
 * is complete without listing any folder.
 */
object StagedWrites {

  private val bySegment = new ConcurrentHashMap[String, Map[String, Long]]

  /** Called before the staged commit is written: a failed write leaves a name to delete at most. */
  def record(segment: String, base: String, version: Long): Unit = {
    bySegment.merge(segment, Map(base -> version), (old, added) => old ++ added)
    ()
  }

  def of(segment: String): Map[String, Long] = bySegment.getOrDefault(segment, Map.empty)

  /** Back to `keep`, or to nothing when `keep` is the pin. */
  def cutBack(segment: String, base: String, pin: Long, keep: Long): Unit = {
    bySegment.computeIfPresent(
      segment,
      (_, tables) => if (keep == pin) tables - base else tables.updated(base, keep)
    )
    ()
  }

  def forget(segment: String): Unit = { bySegment.remove(segment); () }
}
