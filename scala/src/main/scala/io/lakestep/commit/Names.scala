package io.lakestep.commit

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.lakestep.{Json, LakestepException}
import io.lakestep.log.TableRef
import io.lakestep.timeline.{
  CommitEntry, Conflict, EntryStatus, Making, NameChange, NameKey, NamedObject, Purge, Rule,
  TimelineSnapshot, TimelineView
}

/** Steps 5 and 14: whether others have changed one, and what entries make of them. */
private[commit] final class Names(env: Environment, late: LateNames) {
  import env.{timeline, clock, options, safeguards}

  /** Entries that were above the finished prefix when their names were found to be made. */
  private val noted = ConcurrentHashMap.newKeySet[Long].asScala

  /** 14 (c): an entry after the snapshot has changed one of them; or the metastore says something else. */
  def conflict(
      txn: BegunTransaction,
      ours: TouchedNames,
      view: TimelineView): Option[Conflict] =
    if (!safeguards.checksNames) None
    else
      since(txn, view, all = ours.purges.nonEmpty).flatMap { status =>
        status.entry match {
          case c: CommitEntry =>
            c.names.find(meets(ours, _)).map(conflict(_, c))
              .orElse(ours.purge(c).filter(_ => safeguards.checksPurges).map(conflict(_, c)))
              // Of an entry that is no longer in memory the end was not read.
              .filterNot(_ => timeline.ended(status).isAborting)
          case _ => None
        }
      }.nextOption().orElse(foreign(ours.changes, view))

  private def meets(ours: TouchedNames, theirs: NameChange) = ours.meets(theirs) &&
    (safeguards.countsSchemas || ours.changes.exists(_.key == theirs.key))

  /**
   * Every entry after a snapshot, in order; asks the store for old ones alone.
   *
   * @param all also where none of them is over names
   */
  private def since(
      txn: BegunTransaction,
      view: TimelineView,
      all: Boolean): Iterator[EntryStatus] =
    if (view.lastNames <= txn.snapshot && !all) Iterator.empty
    else if (view.first <= txn.snapshot + 1) view.after(txn.snapshot).iterator
    else timeline.after(txn.base).takeWhile(_.entry.number < view.next)

  private def conflict(change: NameChange, entry: CommitEntry): Conflict =
    conflict(change.key, change.before.orElse(change.after).flatMap(_.path), change.verb, entry)

  private def conflict(purge: Purge, entry: CommitEntry): Conflict = {
    val verb = if (entry.purges.contains(purge)) "VACUUM DROPPED TABLES" else "a change"
    conflict(purge.key, Some(purge.path), verb, entry)
  }

  private def conflict(
      key: NameKey,
      path: Option[TableRef],
      verb: String,
      entry: CommitEntry): Conflict = Conflict(
    Rule.NameChanged,
    key.toString,
    path.fold("")(_.uri),
    operation = Some(verb),
    user = Some(entry.transaction.user),
    timeMs = Some(entry.timeMs),
    otherTransaction = Some(entry.transaction.id),
    entry = Some(entry.number)
  )

  /** The metastore says something else than what the transaction has met there. */
  private def foreign(changes: Vector[NameChange], view: TimelineView): Option[Conflict] =
    if (changes.isEmpty) None
    else {
      if (view.snapshot.names.unapplied.nonEmpty) applyPending(view)
      val isKnown = metastores(changes).forall(options.catalogs.isStill(_))
      val pending = timeline.known.snapshot.names.pending
      // Before the metastore is asked, and after it is known what has been made.
      val schemas = changes.filter(_.after.isDefined).map(_.key.copy(name = None))
      val suspects = late.suspects(changes.map(_.key), schemas)
      // Each schema is asked for once, however many names are given there.
      val homes = mutable.Map.empty[NameKey, Option[NamedObject]]
      val changed = changes.find { c =>
        val now = pending.getOrElse(c.key, options.catalogs.find(c.key))
        def mayBeLeft(key: NameKey, now: => Option[NamedObject]) =
          !pending.contains(key) && suspects(key, now)
        val schema = c.key.copy(name = None)
        // A name may be given in a schema that is there by mistake, or that somebody else has dropped.
        def home =
          pending.getOrElse(schema, homes.getOrElseUpdate(schema, options.catalogs.find(schema)))
        def isMisplaced = c.after.isDefined && c.key != schema &&
          (!changes.exists(_.key == schema) && home.isEmpty || mayBeLeft(schema, home))
        def isDropped = c.after.isEmpty && c.key == schema
        !isKnown || differs(now, c) || mayBeLeft(c.key, now) || isMisplaced ||
        isDropped && isInUse(c.key, changes, pending, suspects)
      }
      // Who runs it again is to meet what is right.
      if (changed.nonEmpty) late.all(forgets = false)
      changed.map(c =>
        Conflict(Rule.NameChanged, c.key.toString, "", operation = Some("by others"))
      )
    }

  /** Whether a schema that is dropped has something in it that the transaction does not drop, or may get it back. */
  private def isInUse(
      schema: NameKey,
      changes: Vector[NameChange],
      pending: Map[NameKey, Option[NamedObject]],
      suspects: Suspects): Boolean = {
    val own = changes.map(_.key).filter(_.isInside(schema))
    val owed = pending.filter { case (key, _) => key.isInside(schema) }
    val gone = own ++ owed.collect { case (key, None) => key }
    (options.catalogs.inside(schema) -- gone.flatMap(_.name)).nonEmpty ||
    suspects.inside(schema).filterNot(key => own.contains(key) || owed.contains(key))
      .exists(key => suspects(key, options.catalogs.find(key)))
  }

  private def metastores(changes: Vector[NameChange]): Vector[String] =
    changes.map(_.key.metastore).distinct

  private def differs(now: Option[NamedObject], change: NameChange): Boolean =
    !NamedObject.areSame(now, change.before) || now.exists { one =>
      // Another table at the same place; another property of the same schema.
      change.before.exists { other =>
        !one.isAsOld(other) || one.kind == NamedObject.Schema &&
        Json.canonical(one.definition) != Json.canonical(other.definition)
      }
    }

  /** Makes what finished entries hold and nobody has made yet, oldest first. Never throws. */
  def applyPending(view: TimelineView): Unit = {
    makeAll(view.snapshot.names.unapplied)
    ()
  }

  /** The same for completed entries after one that is not finished. */
  def applyAbove(view: TimelineView): Unit =
    for ((entry, hash) <- above(view) if !isNoted(entry)) {
      trying(_ => ())(late.letFinish(entry.number, Set.empty))
      apply(entry, hash)
      isNoted(entry)
    }

  /** The names of such entries that are not known to be made. */
  def unmadeAbove(view: TimelineView): Set[NameKey] =
    above(view).map(_._1).filterNot(e => noted(e.number)).flatMap(_.names.map(_.key)).toSet

  /** Those over names of this client's metastores, with their hashes. */
  private def above(view: TimelineView): Vector[(CommitEntry, String)] =
    view.after(view.finished).filter(_.isCompleted).map(s => (s.entry, s.hash)).collect {
      case (c: CommitEntry, hash) if metastores(c.names).exists(options.catalogs.has(_)) =>
        (c, hash)
    }

  /** None over the names of an earlier one that is not made. Gives what is left. */
  private def makeAll(
      entries: Map[Long, Vector[NameChange]],
      own: Set[Making] = Set.empty): Vector[NameChange] =
    entries.toVector.sortBy(_._1).foldLeft(Vector.empty[NameChange]) {
      case (left, (number, changes)) =>
        def isFree = !changes.exists(c => left.exists(_.key.meets(c.key)))
        if ((isFree || !safeguards.makesNamesInOrder) &&
          metastores(changes).exists(options.catalogs.has(_)))
          for (status <- trying(_ => ())(timeline.status(number))) status.entry match {
            case entry: CommitEntry if !isMade(entry) =>
              trying(_ => ())(late.letFinish(number, own))
              make(entry, status.hash)
            case _ =>
          }
        if (timeline.known.snapshot.names.unapplied.contains(number)) left ++ changes else left
    }

  /**
   * Makes what an entry holds, once, and after what earlier entries have made of its names. Never
   * throws: the transaction is committed, whatever becomes of this.
   *
   * @param own MAKINGs of who calls this, which wait for it
   */
  def apply(entry: CommitEntry, hash: String, own: Set[Making] = Set.empty): Unit =
    if (entry.names.nonEmpty && isNext(entry, own)) make(entry, hash, own)

  private def make(entry: CommitEntry, hash: String, own: Set[Making] = Set.empty): Unit = {
    // What is not known to be ours now may seem to be, once it answers.
    val isAllOurs = metastores(entry.names).forall(options.catalogs.has(_))
    // Nobody else would look for what is left: without this file, nothing is made.
    for (making <- quietly(entry)(late.begin(entry.number, hash)))
      if (isMade(entry)) late.end(making) else make(entry, hash, isAllOurs, making, own)
  }

  private def make(
      entry: CommitEntry,
      hash: String,
      isAllOurs: Boolean,
      making: Making,
      own: Set[Making]): Unit = {
    env.observer.beforeNames(entry)
    val made = trying {
      case unchanged: Catalogs.NothingChanged =>
        behind(entry, unchanged.getCause)
        late.end(making)
      case e =>
        behind(entry, e)
        late.fail(making)
    } {
      val mine = own + making
      def tell(e: Throwable) = behind(entry, e)
      options.catalogs(late.safely(entry, mine, tell), making, late.again(entry, mine, tell))
    }
    made.toVector.flatten.foreach(behind(entry, _))
    env.observer.namesMade(entry)
    // What seems to be somebody else's may be what a late client has made.
    val isWrong = made.exists(_.exists(isTaken)) &&
      !quietly(entry)(late.isOver(entry, own + making)).contains(false)
    def isFirst = !isWrong && isAllOurs && safeguards.notesNames &&
      timeline.putApplied(entry.number, hash, clock.nowMs())
    if (made.nonEmpty)
      for (isInTime <- quietly(entry)(isFirst || !timeline.isApplied(entry.number)))
        if (isInTime || quietly(entry)(late(making, hash, isOwn = true)).nonEmpty) late.end(making)
  }

  private def isTaken(e: Throwable) = e match {
    case e: LakestepException => e.getCondition == "LAKESTEP_NAME_TAKEN"
    case _ => false
  }

  /** Also when that cannot be told: later entries may have changed what would be made again. */
  private def isMade(entry: CommitEntry): Boolean = safeguards.heedsNotedNames &&
    !quietly(entry)(timeline.isApplied(entry.number)).contains(false)

  private def isNoted(entry: CommitEntry): Boolean = noted(entry.number) || {
    val isSo = quietly(entry)(timeline.isApplied(entry.number)).contains(true)
    if (isSo) noted += entry.number
    isSo
  }

  /**
   * Whether earlier entries over its names are made, which this tries. Of those above its snapshot none
   * is over its names.
   */
  private def isNext(entry: CommitEntry, own: Set[Making]): Boolean =
    !safeguards.makesNamesInOrder || {
      def isKnown = timeline.known.finished >= entry.transaction.snapshot
      if (!isKnown) quietly(entry)(timeline.refresh())
      val earlier = timeline.known.snapshot.names.unapplied.filter(_._1 < entry.number)
      isKnown &&
      (!earlier.exists(_._2.exists(isOver(entry, _))) || !makeAll(
        earlier,
        own
      ).exists(isOver(entry, _)))
    }

  private def isOver(entry: CommitEntry, change: NameChange) =
    entry.names.exists(_.key.meets(change.key))

  /**
   * Looks which of the entries that a client takes for not made have been, earlier ones first: the
   * last that it takes for not made counts. Who cannot tell is not told a name: others may have given it
   * to something else since it was made.
   *
   * Of names in metastores that this client does not have it asks nothing: it resolves none of them.
   */
  def look(view: TimelineView): Unit = {
    view.snapshot.names.unapplied.toVector.sortBy(_._1)
      .filter(_._2.exists(c => options.catalogs.mayHave(c.key.metastore)))
      .foldLeft(Vector.empty[NameChange]) {
        case (left, (number, changes)) =>
          val isFree = !changes.exists(c => left.exists(_.key.meets(c.key)))
          val isMade = isFree && timeline.isApplied(number)
          if (isMade) left else left ++ changes
      }
    ()
  }

  private def quietly[A](entry: CommitEntry)(work: => A): Option[A] =
    trying(behind(entry, _))(work)

  private def trying[A](tell: Throwable => Unit)(work: => A): Option[A] =
    try Some(work)
    catch {
      case e @ (NonFatal(_) | _: LinkageError) =>
        tell(e)
        None
    }

  private def behind(entry: CommitEntry, cause: Throwable): Unit =
    env.tell(TransactionEvent.CatalogBehind(entry, cause))

  /** Names that a metastore may show otherwise than they were at a snapshot, with what they stood for. */
  def before(txn: BegunTransaction): Map[NameKey, Option[NamedObject]] = {
    val hasLater = timeline.known.lastNames > txn.snapshot
    val later =
      if (hasLater) timeline.firstChanges(txn.base.number, txn.base.hash).before else Map.empty
    pending(unmadeNow(txn)) ++ later
  }

  /** What an earlier state does not know to be made may have been made since, and changed by others. */
  private def unmadeNow(txn: BegunTransaction): TimelineSnapshot =
    if (txn.past.isEmpty) txn.base
    else {
      val left = timeline.known.snapshot.names.unapplied.keySet
      val names = txn.base.names
      txn.base.copy(names = names.copy(unapplied = names.unapplied.filter(e => left(e._1))))
    }

  private def pending(snapshot: TimelineSnapshot): Map[NameKey, Option[NamedObject]] =
    if (safeguards.knowsUnmadeNames) snapshot.names.pending else Map.empty

  /**
   * The same for a query outside a transaction.
   *
   * @param start the timeline as it was known before the query looked its first name up
   * @param point as it was when it had
   */
  def before(start: TimelineView, point: TimelineView): Map[NameKey, Option[NamedObject]] = {
    val from = if (safeguards.looksBeforeNames) start else point
    val (completed, open) = between(from, point).partition(_.isCompleted)
    val undecided = open.filter(_.outcome.isEmpty).flatMap(_.names)
    val later = timeline.since(point.next - 1).flatMap(_.names).toVector
    pending(from.snapshot) ++
      completed.flatMap(_.names).map(c => c.key -> c.after) ++
      (undecided ++ later).reverseIterator.map(c => c.key -> c.before)
  }

  /** Whether entries that one reading of the timeline does not have as completed, and a later one has, changed names. */
  def haveChanged(met: Set[NameKey], from: TimelineView, later: TimelineView): Boolean =
    safeguards.readsRowsWithNames && later.lastNames > from.finished &&
      between(from, later).exists { status =>
        status.isCompleted && !from.status(status.entry.number).exists(_.isCompleted) &&
        status.names.exists(c => met.exists(_.meets(c.key)))
      }

  /** Entries after the finished prefix of one view, with the ends that they have in the other one. */
  private def between(from: TimelineView, point: TimelineView): Vector[EntryStatus] =
    if (point.first <= from.finished + 1) point.after(from.finished)
    else
      timeline.after(from.snapshot).takeWhile(_.entry.number < point.next).map { status =>
        val number = status.entry.number
        if (status.names.isEmpty) status
        else point.status(number).getOrElse(timeline.status(number))
      }.toVector
}
