package io.lakestep.commit

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec
import scala.collection.concurrent.TrieMap
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.lakestep.Errors
import io.lakestep.timeline.{CommitEntry, EntryStatus, Making, NameChange, NameKey, NamedObject}

/**
 * Step 14 (g): a client that makes names of an entry and sleeps may change them when others have made
 * them, and changed them again. It finds that out, and puts right what it has done; for one that died
 * then RECOVER does, which finds its MAKING file.
 *
 * @param make makes the names of an entry, given with its hash, for who has these MAKINGs already
 */
private[commit] final class LateNames(
    env: Environment,
    make: (CommitEntry, String, Set[Making]) => Unit) {
  import LateNames._
  import env.{timeline, clock, ids, options, safeguards}

  /** What failed, by entry, and is tried again. */
  private val failed = TrieMap.empty[Long, Making]

  /** What failed once, and may have an effect later. */
  private val unsure = ConcurrentHashMap.newKeySet[Making].asScala

  /** When the names of an entry were noted to be made. */
  private val applied = TrieMap.empty[Long, Long]

  /** Those that this client has waited for in vain, and waits for no more. */
  private val silent = ConcurrentHashMap.newKeySet[Making].asScala

  /** When this client has last looked for what others have left. */
  private val looked = new AtomicLong(-EveryMs)

  /** To be called before a client makes names. */
  def begin(number: Long, hash: String): Making = failed.getOrElse(number, put(number, hash))

  private def put(number: Long, hash: String): Making = {
    val making = Making(number, ids.nextHex())
    timeline.putMaking(making, hash, clock.nowMs())
    making
  }

  /** To be called when it does not know what it has done. The next try is the same one. */
  def fail(making: Making): Unit = {
    unsure += making
    failed.update(making.number, making)
  }

  /**
   * To be called when it is done, and was not late or has put it right, also twice. After a failure the
   * file stays until it is forgotten. Never throws.
   */
  def end(making: Making): Unit = {
    failed.remove(making.number, making)
    if (!unsure(making)) quietly(timeline.deleteMaking(making))
  }

  /** To be called when it has changed nothing this time, and may try again. */
  private def unchanged(making: Making): Unit = if (!unsure(making))
    try {
      timeline.deleteMaking(making)
      failed.remove(making.number, making)
    } catch { case NonFatal(_) => failed.update(making.number, making) }

  /** Whether a client may be at work on a name that this entry changes, or have died there. */
  def isOver(entry: CommitEntry, mine: Set[Making]): Boolean =
    underWay(key => entry.names.exists(_.key.meets(key)), mine).exists(_ != entry.number)

  /** The entries with such names that others may be at work on. */
  private def underWay(concerns: NameKey => Boolean, mine: Set[Making]): Vector[Long] =
    others(mine).map(_._1.number).distinct
      .filter(timeline.status(_).names.exists(c => concerns(c.key)))

  /**
   * Which of these names a late client may have left as they are, or of those in a schema among them. A
   * metastore that is asked after this call, for names that are known to be made before it, shows
   * nothing else that is wrong: a client's MAKING is there before it changes a name, and until that is
   * right again.
   *
   * @param parents schemas of which no more counts than their own names
   */
  def suspects(keys: Vector[NameKey], parents: Vector[NameKey]): Suspects = {
    def concerns(key: NameKey) =
      parents.contains(key) || keys.exists(k => key == k || key.isInside(k))
    val entries = if (safeguards.distrustsNames) underWay(concerns, Set.empty) else Vector.empty
    new Suspects(
      options.catalogs,
      entries.map { number =>
        // Of other names an entry may be missing that is over none of these.
        val own = timeline.status(number).names.map(_.key).toSet
        over(number).flatMap(_.names).filter(c => own(c.key)).groupBy(_.key)
      }
    )
  }

  /** Of those who have been silent for long nobody thinks any more. */
  private def others(mine: Set[Making]): Vector[(Making, Long)] =
    timeline.makings().filterNot { case (making, time) =>
      mine(making) || isForgotten(making, time)
    }

  /** Not while the names that it was about are not made, or have just been: who makes them puts them right. */
  private def isForgotten(making: Making, time: Long): Boolean =
    LateNames.isForgotten(time, clock.nowMs()) {
      val asked = applied.get(making.number).orElse(timeline.appliedMs(making.number))
      asked.foreach(applied.update(making.number, _))
      asked
    }

  /**
   * The entry as it may be made while others have not said that they are done, and may be about to drop
   * names that it gives. Metastores delete the folder of a managed table that they drop: it becomes an
   * external one. And that of a schema: it is not made yet.
   *
   * @param tell why a table is another one
   */
  def safely(entry: CommitEntry, mine: Set[Making], tell: Throwable => Unit): CommitEntry = {
    val atRisk = dropped(Vector(entry), mine)
    for (c <- entry.names; made <- c.after if atRisk(c.key)) {
      if (made.kind == NamedObject.Schema)
        throw new Catalogs.NothingChanged(
          Errors("LAKESTEP_SCHEMA_BEING_DROPPED", "schema" -> c.key.toString)
        )
      val path = made.path.fold("")(_.uri)
      tell(Errors("LAKESTEP_TABLE_MADE_EXTERNAL", "table" -> c.key.toString, "path" -> path))
    }
    entry.copy(names = entry.names.map(external(atRisk)))
  }

  private def external(atRisk: Set[NameKey])(change: NameChange): NameChange =
    if (atRisk(change.key)) change.copy(after = change.after.map(_.asExternal)) else change

  /**
   * The same for a name that goes from one kind to another, and is free now. Who has begun since
   * `safely` may be about to drop what had it, and to take what gets it for that; who begins later finds
   * that it is gone.
   */
  def again(entry: CommitEntry, mine: Set[Making], tell: Throwable => Unit)(
      change: NameChange): NameChange =
    if (safeguards.detachesAgain) safely(entry.copy(names = Vector(change)), mine, tell).names.head
    else change

  /**
   * Managed tables and schemas that these entries make, and that others may be about to drop. Waits for
   * whoever has just begun with a name that they give, and would change it after this client.
   */
  private def dropped(entries: Vector[CommitEntry], mine: Set[Making]): Set[NameKey] = {
    def isAtRisk(made: NamedObject) = made.isManaged || made.kind == NamedObject.Schema
    def counts(made: NamedObject) = safeguards.waitsForNames || isAtRisk(made)
    val gives = entries.flatMap(_.names).groupBy(_.key).filter(_._2.exists(_.after.exists(counts)))
    val seen = TrieMap.empty[Long, EntryStatus]

    // Who puts right what an entry has made may drop any of its names.
    def drops(making: Making, change: NameChange) =
      gives.contains(change.key) && (change.drops || !entries.exists(_.number == making.number))

    def find() = for {
      (making, time) <- others(mine)
      status = seen.getOrElseUpdate(making.number, timeline.status(making.number))
      change <- status.names if drops(making, change)
    } yield (making, time, change.key)
    val found = if (gives.isEmpty) Vector.empty else waited(() => find())
    if (safeguards.detachesNames)
      found.map(_._3).filter(gives(_).exists(_.after.exists(isAtRisk))).toSet
    else Set.empty
  }

  /** What is found of others and their times, once nobody in it is young: who has just begun is done in a moment. */
  private def waited[A](find: () => Vector[(Making, Long, A)]): Vector[(Making, Long, A)] = {
    @tailrec
    def ask(patienceMs: Long): Vector[(Making, Long, A)] = {
      val found = find()
      val young = found.filter(_._2 > clock.nowMs() - YoungMs).map(_._1).filterNot(silent)
      if (young.isEmpty) found
      else if (patienceMs > 0 && hasPaused()) ask(patienceMs - StepMs)
      else {
        silent ++= young
        found
      }
    }
    ask(WaitedMs)
  }

  /** Not where the thread is interrupted: what is committed is committed. */
  private def hasPaused(): Boolean =
    try {
      options.pause(StepMs)
      true
    } catch {
      case _: InterruptedException =>
        Thread.currentThread.interrupt()
        false
    }

  /**
   * Waits for others who have just begun to make names of an entry. Of two at work on the same names one
   * may change them when the other has made them, and later entries have been made since.
   */
  def letFinish(number: Long, own: Set[Making]): Unit = if (safeguards.waitsForNames) {
    waited { () =>
      for ((making, time) <- others(own ++ failed.values) if making.number == number)
        yield (making, time, ())
    }
    ()
  }

  /**
   * Puts right what one has left that made names of an entry.
   *
   * @param isOwn whether it was this client, which is awake now
   */
  def apply(left: Making, hash: String, isOwn: Boolean): Unit = if (safeguards.repairsNames) {
    val mine = begin(left.number, hash)
    try apply(left, hash, isOwn, mine)
    catch {
      case e: Catalogs.NothingChanged =>
        unchanged(mine)
        throw e.getCause
      case e @ (NonFatal(_) | _: LinkageError) =>
        fail(mine)
        throw e
    }
    end(mine)
  }

  private def apply(left: Making, hash: String, isOwn: Boolean, mine: Making): Unit = {
    val awake = Set(mine) ++ Some(left).filter(_ => isOwn)
    val (entries, atRisk) =
      try {
        val entries = over(left.number)
        (entries, dropped(entries, awake))
      } catch { case NonFatal(e) => throw new Catalogs.NothingChanged(e) }
    def again(change: NameChange) =
      if (safeguards.detachesAgain) external(dropped(entries, awake))(change) else change
    options.catalogs.repair(entries, atRisk, left, mine, again)
      .foreach(e => env.tell(TransactionEvent.CatalogBehind(entries.head, e)))
    // What was changed here may have been made of an entry that nobody has noted to be made.
    if (safeguards.makesWhatIsOpen)
      for (status <- completed(left.number).filterNot(isMade)) status.entry match {
        case c: CommitEntry => make(c, status.hash, awake)
        case _ =>
      }
    // Others may have gone on, and this may be late now.
    if (over(left.number).size > entries.size) apply(mine, hash, isOwn = true)
  }

  /** An entry, and later ones over its names that have been made. */
  private def over(number: Long): Vector[CommitEntry] =
    completed(number).filter(isMade).map(_.entry).collect { case c: CommitEntry => c }

  /** An entry, and later ones over its names, of those that are completed. */
  private def completed(number: Long): Vector[EntryStatus] = {
    val view = timeline.refresh()
    val first = timeline.status(number)
    val later = if (view.lastNames <= number) Iterator.empty else timeline.since(number)
    val keys = first.names.map(_.key).toSet
    (Iterator(first) ++ later).filter(_.names.exists(n => keys(n.key)))
      .map(s => timeline.status(s.entry.number)).filter(_.isCompleted).toVector
  }

  private def isMade(status: EntryStatus): Boolean = {
    val (number, view) = (status.entry.number, timeline.known)
    val isKnown = number <= view.finished && !view.snapshot.names.unapplied.contains(number)
    isKnown || timeline.isApplied(number)
  }

  /**
   * Puts right what those have left that made names and have not said that they are done; forgets who
   * has been silent for long. Never throws.
   *
   * @param forgets not where this client has just made names that others have left half made
   */
  def all(forgets: Boolean): Unit = quietly {
    for ((making, time) <- timeline.makings())
      if (forgets && isForgotten(making, time)) timeline.deleteMaking(making) else of(making)
  }

  /**
   * The same for BEGIN: for the first one of this client, and one every ten minutes. Who has just begun
   * with names is left to the next one. Forgets nobody, as BEGIN has just made names that others have
   * left half made.
   */
  def seldom(): Unit = if (safeguards.repairsAtBegin) {
    val (last, now) = (looked.get, clock.nowMs())
    if ((now - last).abs >= EveryMs && looked.compareAndSet(last, now)) quietly {
      val (young, old) = others(Set.empty).partition(_._2 > now - YoungMs)
      if (young.nonEmpty) looked.compareAndSet(now, last)
      old.foreach { case (making, _) => of(making) }
    }
  }

  /** Nobody is late while the names are not known to be made. */
  private def of(making: Making): Unit = {
    val status = timeline.status(making.number)
    status.entry match {
      case entry: CommitEntry
          if entry.names.exists(c => options.catalogs.has(c.key.metastore)) &&
            timeline.isApplied(making.number) =>
        try apply(making, status.hash, isOwn = false)
        catch {
          case e @ (NonFatal(_) | _: LinkageError) =>
            env.tell(TransactionEvent.CatalogBehind(entry, e))
        }
      case _ =>
    }
  }

  private def quietly(work: => Unit): Unit =
    try work
    catch { case NonFatal(_) | _: LinkageError => () }
}

/** @param histories by name, what entries have made of it of which somebody may be late */
private[commit] final class Suspects(
    catalogs: Catalogs,
    histories: Vector[Map[NameKey, Vector[NameChange]]]) {

  /** Whether a name may stand for what a late client has left, if it stands for this; asked for only if so. */
  def apply(key: NameKey, now: => Option[NamedObject]): Boolean =
    histories.flatMap(_.get(key)).exists(catalogs.mayBeLeft(_, now))

  /** Those in a schema of which somebody may be late. */
  def inside(schema: NameKey): Vector[NameKey] =
    histories.flatMap(_.keys).distinct.filter(_.isInside(schema))
}

private[commit] object LateNames {

  /** After which time nobody looks any more for what a client may have left; after that at the latest. */
  private val ForgottenMs = TimeUnit.HOURS.toMillis(1)
  private val GivenUpMs = TimeUnit.DAYS.toMillis(7)

  /** How often BEGIN looks for what others have left. */
  private val EveryMs = TimeUnit.MINUTES.toMillis(10)

  /**
   * Whether a MAKING of this time is of nobody's concern any more.
   *
   * @param appliedMs when the names of its entry were noted to be made
   */
  def isForgotten(timeMs: Long, nowMs: Long)(appliedMs: => Option[Long]): Boolean =
    timeMs < nowMs - GivenUpMs || timeMs < nowMs - ForgottenMs &&
      appliedMs.exists(_ < nowMs - ForgottenMs)

  /** Who has begun since then is taken for awake, and waited for so long, in such steps. */
  private val YoungMs = 10000L
  private val WaitedMs = 2000L
  private val StepMs = 100L
}
