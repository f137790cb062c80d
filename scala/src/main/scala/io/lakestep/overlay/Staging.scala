package io.lakestep.overlay

import java.util.{Collections, LinkedHashMap, Map => JMap, Set => JSet}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.immutable.SortedMap

import io.lakestep.Errors
import io.lakestep.log.StagedEffect

/**
 * What an open transaction has staged: the last version of each table, and what its staged commits do.
 * They are written only by the driver that runs the transaction, through [[OverlayLogStore]], so this
 * is complete without listing any folder. Tables are told by the path of their folder.
 *
 * Thread-safe.
 */
final class Staging private (segment: String) {

  private var versions = Map.empty[String, Long]

  /** By table and version. */
  private var effects = SortedMap.empty[(String, Long), StagedEffect]

  private var doubted = Option.empty[Throwable]

  /** Tables whose property says who else may write them. */
  private var decided = Set.empty[String]

  private var isClosed = false

  /**
   * Called before the staged commit is written: a failed write leaves a name to delete at most.
   *
   * Condition: LAKESTEP_TRANSACTION_NOT_OPEN, for a statement that another thread's COMMIT or ROLLBACK
   * overtook: what it stages now would be part of nothing.
   */
  def record(table: String, version: Long): Unit = synchronized {
    if (isClosed) throw Staging.notOpen(segment, s"A statement on $table")
    versions = versions.updated(table, version)
  }

  /** What a staged commit does, once it is written. */
  def learn(table: String, version: Long, effect: StagedEffect): Unit = synchronized {
    effects = effects.updated((table, version), effect)
  }

  /** The last staged version of each table. */
  def last: Map[String, Long] = synchronized(versions)

  /** What the statements' staged commits of a table do, in their order. */
  def effectsOf(table: String): Vector[StagedEffect] =
    synchronized(effects.toVector.collect { case ((`table`, _), effect) => effect })

  /** Notes that a staged commit may appear that no statement knows of. */
  def doubt(cause: Throwable): Unit = synchronized { doubted = doubted.orElse(Some(cause)) }

  def doubt: Option[Throwable] = synchronized(doubted)

  def decide(table: String, isStated: Boolean): Unit = synchronized {
    decided = if (isStated) decided + table else decided - table
  }

  def isDecided(table: String): Boolean = synchronized(decided(table))

  /** Back to `keep`, or to nothing when `keep` is the pin. */
  def cutBack(table: String, pin: Long, keep: Long): Unit = synchronized {
    versions = if (keep == pin) versions - table else versions.updated(table, keep)
    effects = effects.filterNot { case ((t, version), _) => t == table && version > keep }
  }

  private def close(): Unit = synchronized { isClosed = true }
}

object Staging {

  private val open = new ConcurrentHashMap[String, Staging]

  /** The latest segments that have ended; of older ones no statement can be left. */
  private val ended: JSet[String] = Collections.synchronizedSet(
    Collections.newSetFromMap(new LinkedHashMap[String, java.lang.Boolean] {
      override def removeEldestEntry(eldest: JMap.Entry[String, java.lang.Boolean]): Boolean =
        size > 10000
    })
  )

  /**
   * Of the transaction with this id, which owns the segment.
   *
   * Condition: LAKESTEP_TRANSACTION_NOT_OPEN, when it has ended.
   */
  def of(segment: String): Staging = open.computeIfAbsent(
    segment,
    _ =>
      if (ended.contains(segment)) throw notOpen(segment, "A statement") else new Staging(segment)
  )

  def isEnded(segment: String): Boolean = ended.contains(segment)

  /** Called when the transaction has ended. */
  def close(segment: String): Unit = {
    open.compute(
      segment,
      (_, staging) => {
        ended.add(segment)
        Option(staging).foreach(_.close())
        null
      }
    )
    ()
  }

  private def notOpen(segment: String, operation: String) =
    Errors("LAKESTEP_TRANSACTION_NOT_OPEN", "operation" -> operation, "transaction" -> segment)
}
