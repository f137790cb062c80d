package io.lakestep.overlay

import java.util.{Collections, LinkedHashMap, Map => JMap, Set => JSet}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.immutable.SortedMap

import org.apache.hadoop.fs.FileStatus

import io.lakestep.Errors
import io.lakestep.log.{Action, LogFileName, StagedEffect, TableLog}
import io.lakestep.timeline.AtOnce

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

  /** The same commits, as they were written, where that is not too much. */
  private var texts = Map.empty[(String, Long), Array[Byte]]

  private var doubted = Option.empty[Throwable]

  /** Tables whose property says who else may write them. */
  private var decided = Set.empty[String]

  private var isClosed = false

  /** Whether what this process has put is all that is staged, and is known by one path for each table. */
  private var isOwn = false

  /** By table, the version of the commit that is no statement's. */
  private var others = Map.empty[String, Long]

  /** How the store is asked for several things. */
  @volatile private[overlay] var atOnce: AtOnce = AtOnce.OneByOne

  private val listings = new StagedListings
  private val times = new StagedTimes

  /**
   * Called before the staged commit is written: a failed write leaves a name to delete at most.
   *
   * Condition: LAKESTEP_TRANSACTION_NOT_OPEN, for a statement that another thread's COMMIT or ROLLBACK
   * overtook: what it stages now would be part of nothing.
   */
  def record(table: String, version: Long): Unit = synchronized {
    if (isClosed) throw Staging.notOpen(segment, s"A statement on $table")
    versions = versions.updated(table, versions.get(table).fold(version)(_.max(version)))
  }

  /**
   * A commit of this version was there already: of another statement, or of nobody that is known here.
   * From now on the store is asked for everything.
   */
  private[overlay] def refused(table: String, version: Long, before: Option[Long]): Unit =
    synchronized {
      stopRemembering()
      val isOurs = effects.contains((table, version)) || before.exists(_ >= version)
      if (!isOurs && versions.get(table).contains(version))
        versions = before.fold(versions - table)(versions.updated(table, _))
    }

  /** What a staged commit does, once it is written. */
  def learn(table: String, version: Long, effect: StagedEffect): Unit = synchronized {
    effects = effects.updated((table, version), effect)
    texts = texts - ((table, version))
  }

  /** How it was written, unless that is too much. */
  private[overlay] def keep(table: String, version: Long, text: Array[Byte]): Unit =
    synchronized {
      val others = texts - ((table, version))
      val isLittle =
        others.valuesIterator.map(_.length.toLong).sum + text.length <= Staging.MostText
      texts = if (isLittle) others.updated((table, version), text) else others
    }

  /** The actions of a table's staged commits that this process has written, by version. */
  def commitsOf(table: String): Map[Long, Vector[Action]] =
    synchronized(if (remembers) texts else Map.empty[(String, Long), Array[Byte]]).collect {
      case ((`table`, version), text) =>
        version -> TableLog.parse(LogFileName.commitName(version), text)
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
    listings.cutBack(table, keep)
    times.cutBack(table, keep)
    versions = if (keep == pin) versions - table else versions.updated(table, keep)
    effects = effects.filterNot { case ((t, version), _) => t == table && version > keep }
    texts = texts.filterNot { case ((t, version), _) => t == table && version > keep }
  }

  /** Called before a commit is staged that is no statement's. */
  private[overlay] def recordOther(table: String, version: Long): Unit = synchronized {
    others = others.updated(table, version)
  }

  /** The commit that is no statement's has been taken back. */
  def dropOther(table: String): Unit = synchronized {
    others.get(table).foreach(version => times.cutBack(table, version - 1))
    others = others - table
    listings.clear()
  }

  /**
   * A statement begins that meets the table.
   *
   * @return the name from which on it will list the log up to the pin, if one before did
   */
  def forgetBelow(table: String): Option[String] = synchronized(listings.forgetBelow(table))

  /** The log up to the pin was listed before anybody has asked for it. */
  private[overlay] def listedAhead(table: String): Unit = synchronized(listings.listedAhead(table))

  /**
   * The command that runs has found the table as it was pinned, and need not look again until it is listed.
   *
   * @param asked the epoch before it looked
   */
  def confirm(asked: Long, table: String): Unit = synchronized {
    if (remembers && asked == listings.epoch) listings.confirm(table)
  }

  def isConfirmed(table: String): Boolean = synchronized(remembers && listings.isConfirmed(table))

  /** A command begins or ends. */
  def forgetConfirmed(): Unit = synchronized(listings.forgetConfirmed())

  /** Tables may be pinned anew. */
  def forgetListings(): Unit = synchronized(listings.clear())

  private def remembers: Boolean = isOwn && !isClosed && doubted.isEmpty

  /** To be asked before the store is; what it says then is learnt only if nothing was taken back. */
  private[lakestep] def epoch: Long = synchronized(listings.epoch)

  private[overlay] def saw(
      asked: Long,
      table: String,
      found: Iterable[(Long, FileStatus)]): Unit = synchronized {
    if (remembers && asked == listings.epoch) listings.saw(table, found)
  }

  private[overlay] def sawBelow(
      asked: Long,
      table: String,
      pin: Long,
      from: String,
      found: Vector[FileStatus]): Unit = synchronized {
    listings.doubt(table)
    if (remembers && asked == listings.epoch) listings.sawBelow(table, pin, from, found)
  }

  /** A staged commit's status with a time that no other commit of its version has had. */
  private[overlay] def timed(table: String, version: Long, status: FileStatus): FileStatus =
    synchronized(times(table, version, status))

  /** The status of a staged commit, where the store has told it. */
  private[overlay] def status(table: String, version: Long): Option[FileStatus] = synchronized {
    Option.when(remembers)(listings.status(table, version)).flatten
  }

  /** The statuses of all staged commits of a table, where the store has told all. */
  private[overlay] def statuses(table: String, pin: Long): Option[Vector[FileStatus]] =
    synchronized {
      val last = (versions.get(table) ++ others.get(table)).maxOption.getOrElse(pin)
      val known = (pin + 1 to last).toVector.map(listings.status(table, _))
      Option.when(remembers && known.forall(_.isDefined))(known.flatten)
    }

  /** What stands in the log up to the pin, from a name on, where the store has told it. */
  private[overlay] def listedBelow(
      table: String,
      pin: Long,
      from: String): Option[Vector[FileStatus]] = synchronized {
    if (remembers) listings.listedBelow(table, pin, from) else None
  }

  /** Whether the statement has found something in the log up to the pin. */
  private[overlay] def hasListedBelow(table: String): Boolean = synchronized {
    remembers && listings.hasListedBelow(table)
  }

  /** Not all that is staged may be known here, or not by the path that is asked for. */
  def stopRemembering(): Unit = synchronized { isOwn = false }

  private def own(all: AtOnce): Unit = synchronized {
    isOwn = true
    atOnce = all
  }

  private def close(): Unit = synchronized {
    isClosed = true
    listings.clear()
  }
}

object Staging {

  /** How many bytes of staged commits a transaction keeps in memory. */
  private[overlay] val MostText = 4 << 20

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

  /** As `of`, for the transaction that begins. */
  def begin(segment: String, atOnce: AtOnce): Staging = {
    val staging = of(segment)
    staging.own(atOnce)
    staging
  }

  /** Of a transaction of this driver that is open. */
  private[overlay] def find(segment: String): Option[Staging] = Option(open.get(segment))

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
