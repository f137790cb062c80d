package io.lakestep.overlay

import java.util.{Collections, LinkedHashMap, Map => JMap, Set => JSet}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.immutable.SortedMap

import io.lakestep.Errors
import io.lakestep.log.StagedEffect

/**
 * The last version that each open transaction of this process has staged per table, and what its
 * staged commits do. They are written only by the driver that runs the transaction, through
 * [[OverlayLogStore]], so this is complete without listing any folder.
 */
object Staging {

  private val bySegment = new ConcurrentHashMap[String, Map[String, Long]]

  /** By table and version. */
  private val effects = new ConcurrentHashMap[String, SortedMap[(String, Long), StagedEffect]]

  private val doubts = new ConcurrentHashMap[String, Throwable]

  /** Tables whose property says who else may write them. */
  private val decided = new ConcurrentHashMap[String, Set[String]]

  /** The latest segments that were forgotten; of older ones no statement can be left. */
  private val ended: JSet[String] = Collections.synchronizedSet(
    Collections.newSetFromMap(new LinkedHashMap[String, java.lang.Boolean] {
      override def removeEldestEntry(eldest: JMap.Entry[String, java.lang.Boolean]): Boolean =
        size > 10000
    })
  )

  /**
   * Called before the staged commit is written: a failed write leaves a name to delete at most.
   *
   * Condition: LAKESTEP_TRANSACTION_NOT_OPEN, for a statement that another thread's COMMIT or ROLLBACK
   * overtook: what it stages now would be part of nothing.
   */
  def record(segment: String, base: String, version: Long): Unit = {
    bySegment.compute(
      segment,
      (_, tables) => {
        if (ended.contains(segment)) {
          throw Errors(
            "LAKESTEP_TRANSACTION_NOT_OPEN",
            "operation" -> s"A statement on $base",
            "transaction" -> segment
          )
        }
        Option(tables).getOrElse(Map.empty[String, Long]).updated(base, version)
      }
    )
    ()
  }

  def of(segment: String): Map[String, Long] = bySegment.getOrDefault(segment, Map.empty)

  /** What a staged commit does, once it is written. */
  def learn(segment: String, base: String, version: Long, effect: StagedEffect): Unit = {
    effects.compute(
      segment,
      (_, known) =>
        Option(known).getOrElse(SortedMap.empty[(String, Long), StagedEffect])
          .updated((base, version), effect)
    )
    ()
  }

  /** What the statements' staged commits of a table do, in their order. */
  def effectsOf(segment: String, base: String): Vector[StagedEffect] =
    Option(effects.get(segment)).toVector.flatMap(_.collect { case ((`base`, _), e) => e })

  /** Notes that a staged commit may appear that no statement knows of. */
  def doubt(segment: String, cause: Throwable): Unit = {
    doubts.putIfAbsent(segment, cause)
    ()
  }

  def doubtOf(segment: String): Option[Throwable] = Option(doubts.get(segment))

  def decide(segment: String, base: String, isStated: Boolean): Unit = {
    decided.compute(
      segment,
      (_, before) => {
        val others = Option(before).getOrElse(Set.empty[String]) - base
        if (isStated) others + base else others
      }
    )
    ()
  }

  def isDecided(segment: String, base: String): Boolean =
    decided.getOrDefault(segment, Set.empty)(base)

  /** Back to `keep`, or to nothing when `keep` is the pin. */
  def cutBack(segment: String, base: String, pin: Long, keep: Long): Unit = {
    bySegment.computeIfPresent(
      segment,
      (_, tables) => if (keep == pin) tables - base else tables.updated(base, keep)
    )
    effects.computeIfPresent(
      segment,
      (_, known) => known.filterNot { case ((table, v), _) => table == base && v > keep }
    )
    ()
  }

  /** Called when the transaction has ended. */
  def forget(segment: String): Unit = {
    doubts.remove(segment)
    effects.remove(segment)
    decided.remove(segment)
    bySegment.compute(
      segment,
      (_, _) => {
        ended.add(segment)
        null
      }
    )
    ()
  }
}
