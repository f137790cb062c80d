package io.lakestep.commit

import scala.util.Try
import scala.util.control.NonFatal

import io.lakestep.{Errors, LakestepException}
import io.lakestep.log.TableRef
import io.lakestep.timeline.{Cut, NamedSnapshot, Requested, SnapshotTable, TimelineView}

/** What CREATE SNAPSHOT asks for. Without `asOf` it is the newest state. */
final case class SnapshotRequest(
    name: String,
    asOf: Option[AsOf],
    retainMs: Option[Long],
    comment: Option[String],
    user: String,
    application: String)

/** The tables of the database at a point, and those of which nothing can be read any more. */
private[lakestep] final case class DatabaseState(
    at: ReadPoint,
    missing: Vector[TableRef],
    tables: Vector[SnapshotTable])

/**
 * Files of one table that a transaction brings back.
 *
 * @param versions that have them
 * @param removedMs when the first of them was removed
 */
final case class BroughtBack(versions: Vector[SnapshotTable], removedMs: Long) {
  def logs: Vector[String] = versions.map(_.log).distinct
}

/** Named snapshots: makes and drops them, and tells VACUUM what they hold. */
final class Snapshots private[commit] (
    env: Environment,
    bindings: Bindings,
    pins: Pins,
    helping: Helping) {
  import env.{clock, ids, observer, stores, timeline}

  /**
   * Step 18. Conditions: LAKESTEP_SNAPSHOT_EXISTS, LAKESTEP_SNAPSHOT_CUT, LAKESTEP_AS_OF_NOT_FOUND.
   */
  def create(request: SnapshotRequest): NamedSnapshot = {
    val now = clock.nowMs()
    val name = AsOf.lowered(request.name)
    timeline.id
    for (old <- timeline.snapshots.find(name))
      if (old.isExpired(now)) drop(old) else throw exists(request.name)
    val DatabaseState(at, missing, tables) = state(request.asOf, helping.all()._2)
    val snapshot = NamedSnapshot(
      name,
      ids.nextHex(),
      at.entry,
      at.notAfterMs,
      now,
      request.user,
      request.application,
      request.comment,
      request.retainMs.map(now + _),
      tables.sortBy(_.path.uri),
      missing.sortBy(_.uri)
    )
    // Should this client die, nobody finds one that was not looked at.
    val held = snapshot.copy(
      name = holdName(),
      id = ids.nextHex(),
      comment = None,
      retainUntilMs = Some(now + Snapshots.CreationMs)
    )
    put(held, at.named, request.name)
    try put(snapshot, Some(held), request.name)
    // Where that fails it expires.
    finally Try(timeline.snapshots.drop(held, clock.nowMs())).getOrElse(())
    snapshot
  }

  /**
   * Puts it, and drops it again where something may be gone that it needs.
   *
   * @param by holds all of it, and did so all the time, if it still does
   * @param name as it was asked for
   *
   * Conditions: LAKESTEP_SNAPSHOT_EXISTS, LAKESTEP_SNAPSHOT_CUT.
   */
  private def put(snapshot: NamedSnapshot, by: Option[NamedSnapshot], name: String): Unit = {
    if (!timeline.snapshots.create(snapshot)) throw exists(name)
    observer.snapshotPut(snapshot.name)
    for (table <- if (by.exists(isThere)) None else cut(snapshot)) {
      drop(snapshot)
      throw Errors(
        "LAKESTEP_SNAPSHOT_CUT",
        "snapshot" -> name,
        "table" -> table.path.uri,
        "version" -> table.version.toString
      )
    }
  }

  /** Whether it holds anything still. */
  private def isThere(snapshot: NamedSnapshot): Boolean =
    timeline.snapshots.find(snapshot.name)
      .exists(s => s.id == snapshot.id && !s.isExpired(clock.nowMs()))

  private def holdName() = s"${NamedSnapshot.Hold}${ids.nextHex()}"

  /**
   * The versions of all tables at a point, or now, as far as their bindings can be read. Finishes nothing.
   *
   * Conditions: LAKESTEP_AS_OF_NOT_FOUND, LAKESTEP_NO_SUCH_SNAPSHOT.
   */
  private[lakestep] def state(asOf: Option[AsOf]): DatabaseState =
    state(asOf, timeline.refresh(), Snapshots.Missing + "LAKESTEP_TIMELINE_CORRUPT")

  private def state(
      asOf: Option[AsOf],
      view: TimelineView,
      missing: Set[String] = Snapshots.Missing): DatabaseState = {
    val now = clock.nowMs()
    val at = asOf.fold(ReadPoint(view.finished, view.snapshot, now))(
      AsOf.point(_, timeline, view.finished, now)
    )
    val (gone, tables) = pinned(at, missing).partitionMap(identity)
    DatabaseState(at, gone, tables)
  }

  /**
   * Step 19: what a transaction is about to bring back is not deleted by VACUUM, until `drop`, or for a week.
   * To be called before it looks whether all is there.
   *
   * @param by the snapshot that holds it already, if one does
   *
   * Condition: LAKESTEP_UNDO_CUT.
   */
  def hold(
      txn: BegunTransaction,
      needs: Vector[BroughtBack],
      by: Option[NamedSnapshot]): NamedSnapshot = {
    val now = clock.nowMs()
    val held = NamedSnapshot(
      holdName(),
      ids.nextHex(),
      txn.snapshot,
      now,
      now,
      txn.user,
      txn.application,
      Some(txn.id),
      Some(now + Snapshots.HoldMs),
      needs.flatMap(_.versions).distinct,
      Vector.empty
    )
    if (!timeline.snapshots.create(held)) throw exists(held.name)
    observer.snapshotPut(held.name)
    val cuts = env.inParallel(needs)(n => n -> n.logs.flatMap(timeline.snapshots.openCutsOf))
    for {
      (need, found) <- cuts
      // What one has deleted that has ended is seen to be missing; this one may be at it.
      cut <- found if cut.timeMs > now - Snapshots.LongestVacuumMs &&
        need.removedMs < cut.beforeMs + Snapshots.SkewMs && !by.exists(isThere)
    } {
      drop(held)
      throw Errors(
        "LAKESTEP_UNDO_CUT",
        "table" -> cut.path.uri,
        "at" -> java.time.Instant.ofEpochMilli(cut.timeMs).toString
      )
    }
    held
  }

  /** The one of that name, without regard to case, if there is one. */
  def find(name: String): Option[NamedSnapshot] =
    if (timeline.existingId.isEmpty) None else timeline.snapshots.find(AsOf.lowered(name))

  /** Those of the timeline, also where nothing is kept for them any more. */
  def all(): Vector[NamedSnapshot] =
    if (timeline.existingId.isEmpty) Vector.empty else timeline.snapshots.all()

  /** Makes the copies that are missing, several at once; those of which that failed, with the reason. */
  def copying(snapshot: NamedSnapshot)(
      copy: SnapshotTable => Unit): Vector[(SnapshotTable, Throwable)] =
    env.inParallel(snapshot.tables) { table =>
      try {
        if (kept(table.path, snapshot.id).isEmpty) copy(table)
        None
      } catch { case NonFatal(cause) => Some(table -> cause) }
    }.flatten

  /** To be called before the first file of a copy is there. Condition: LAKESTEP_NOT_THERE_AS_OF. */
  def starting(table: SnapshotTable, copy: String): Unit = KeptLogs.start(stores, table, copy)

  /**
   * Makes a copy count whose files are there; once there is another one, or the snapshot is dropped, it
   * deletes its folder.
   *
   * @param files their paths
   */
  def keep(
      snapshot: NamedSnapshot,
      table: SnapshotTable,
      copy: String,
      files: Seq[String]): Unit = {
    val isWhole = KeptLogs.finish(stores, snapshot.id, table, copy, files)
    if (!isThere(snapshot)) KeptLogs.delete(stores, table.path, snapshot.id)
    observer.logCopied(table.path)
    KeptLogs.end(stores, table.path, copy)
    if (!isWhole) throw KeptLogs.notThere(table, "the copy of its log was deleted in the making")
  }

  /**
   * The id of a table's log, if it is one of this timeline; none for a copy of one.
   *
   * Condition: LAKESTEP_TABLE_OF_ANOTHER_TIMELINE.
   */
  def logOf(table: TableRef): Option[String] =
    try bindings.find(table).map(_.log)
    catch { case e: LakestepException if e.getCondition == "LAKESTEP_TABLE_IS_A_COPY" => None }

  /** Ends it, and then deletes the copies of logs that were made for it. */
  def drop(snapshot: NamedSnapshot): Unit = {
    timeline.snapshots.drop(snapshot, clock.nowMs())
    env.inParallel(snapshot.tables) { table =>
      try KeptLogs.delete(stores, table.path, snapshot.id)
      catch { case NonFatal(_) => () }
    }
    ()
  }

  /**
   * What VACUUM has to leave of a table. That it is about to cut is known to all before this returns; when
   * it has deleted nothing, `uncut` takes that back.
   *
   * @param beforeMs what was removed before is cut
   * @param own the transaction that cuts, if one does
   */
  def cutting(
      log: String,
      table: TableRef,
      head: Long,
      beforeMs: Long,
      own: Option[String]): (Cut, Vector[Holder]) = {
    val cut = Cut(ids.nextHex(), log, table, head, beforeMs, clock.nowMs())
    timeline.snapshots.putCut(cut)
    observer.cutPut(table)
    try {
      timeline.snapshots.all().filter(_.isExpired(clock.nowMs())).foreach(drop)
      cut -> holders(log, table, own)
    } catch {
      case failure: Throwable =>
        try uncut(cut)
        catch { case NonFatal(undo) => failure.addSuppressed(undo) }
        throw failure
    }
  }

  def uncut(cut: Cut): Unit = timeline.snapshots.deleteCut(cut)

  /** All is deleted; and what the others say that this one says, too, is forgotten. */
  def ended(cut: Cut): Unit = {
    timeline.snapshots.endCut(cut)
    timeline.snapshots.tidy(cut.log)
  }

  /**
   * Who holds files of a table.
   *
   * @param table where its log is now
   */
  def holders(log: String, table: TableRef, own: Option[String]): Vector[Holder] = {
    val now = clock.nowMs()
    val snapshots = for {
      snapshot <- all() if !snapshot.isExpired(now)
      held <- snapshot.tables if held.log == log
    } yield Holder(
      Holder.OfSnapshot(snapshot.id),
      snapshot.name,
      Some(held.version),
      snapshot.createdMs
    )
    val open = timeline.allRequested.removedAll(own).toVector
    // By the store's clock, as the times of data files are.
    val transactions = env.inParallel(open) { case (id, file) =>
      val version = timeline.requested(id).flatMap(versionAt(_, table))
      Holder(Holder.OfTransaction, id, version, file.modifiedMs)
    }
    snapshots ++ transactions
  }

  /**
   * The oldest version of a table that is read from its log: by a snapshot without a copy, or by a transaction
   * that is open.
   *
   * @param own the transaction that asks
   */
  def oldestNeeded(table: TableRef, own: Option[String]): Option[Long] =
    logOf(table).toVector.flatMap(holders(_, table, own))
      .filterNot(_.snapshot.exists(kept(table, _).isDefined)).flatMap(_.version).minOption

  /** The version that an open transaction reads, or would. */
  private def versionAt(txn: Requested, table: TableRef): Option[Long] = {
    // Its BEGIN expects that this is about to end.
    def isAhead = txn.snapshot > timeline.known.finished
    if (isAhead) timeline.refresh()
    if (isAhead) helping.all()
    if (isAhead) None else versionIn(txn, table)
  }

  private def versionIn(txn: Requested, table: TableRef): Option[Long] = {
    val base = timeline.snapshotAt(txn.snapshot)
    val at = ReadPoint(txn.snapshot, base, txn.requestedAtMs, isPast = true)
    try Some(pins(at, table, notBelow = -1, reader = "").version)
    catch { case e: LakestepException if Snapshots.Missing(e.getCondition) => None }
  }

  /** The copy of a table's log that was made for a snapshot. */
  def kept(table: TableRef, snapshot: String): Option[KeptLog] =
    KeptLogs.find(stores, table, snapshot)

  /** The copies that were made for any snapshot of a version of the table that is at the path now. */
  def copies(table: TableRef, version: Long): Vector[KeptLog] = {
    val log = logOf(table)
    all().filter(_.table(table).exists(t => t.version == version && log.contains(t.log)))
      .flatMap(s => kept(table, s.id))
  }

  /** @param missing conditions with which a table is not read */
  private def pinned(
      at: ReadPoint,
      missing: Set[String]): Vector[Either[TableRef, SnapshotTable]] = {
    val dropped = at.base.names.dropped.flatMap(_.table.path)
    // Of a table with two names one may be left.
    val nameless = dropped.toSet -- env.namesAt(dropped).keys
    val logs = at.base.logs.toVector
      .filter { case (_, state) => state.mark.isDefined && !nameless(state.path) }
    env.inParallel(logs) { case (log, state) =>
      try {
        val pin = pins(at, state.path, notBelow = -1, reader = "")
        // Another table is at the path now.
        if (pin.log.contains(log)) Right(SnapshotTable(log, state.path, pin.version))
        else Left(state.path)
      } catch {
        case e: LakestepException if missing(e.getCondition) => Left(state.path)
      }
    }
  }

  /** A table of which something was deleted that the snapshot needs, or is about to be. */
  private def cut(snapshot: NamedSnapshot): Option[SnapshotTable] = {
    val cuts = env.inParallel(snapshot.tables)(t => t -> timeline.snapshots.cutsOf(t.log))
    val byVacuum = cuts.collectFirst {
      case (table, found) if found.exists(isHit(_, table)) => table
    }
    byVacuum.orElse {
      timeline.refresh()
      val purged = timeline.firstChanges(snapshot.entry).purged
      snapshot.tables.find(t => purged(t.path))
    }
  }

  /** Whether a file may be gone that the version has and the head, when it was cut, did not have. */
  private def isHit(cut: Cut, table: SnapshotTable): Boolean = table.version < cut.head && {
    val log = env.log(table.path)
    val next = Pins.timeOf(log, log.tail(table.version + 1), table.version + 1)
    !next.exists(_ - Snapshots.SkewMs >= cut.beforeMs)
  }

  private def exists(name: String) = Errors("LAKESTEP_SNAPSHOT_EXISTS", "snapshot" -> name)
}

private object Snapshots {

  /** A writer notes when it removed a file by its own clock, and before it commits. */
  private val SkewMs = 3600000L

  /** As long as a transaction may last without fear of VACUUM, and a VACUUM for sure not. */
  private val HoldMs = 7 * 24 * 3600000L
  private val LongestVacuumMs = 24 * 3600000L

  /** Longer than CREATE SNAPSHOT takes; whoever has slept for longer looks again. */
  private val CreationMs = 24 * 3600000L

  /** That a table cannot be read at a point, and others can. */
  private val Missing = Set(
    "LAKESTEP_NOT_A_TABLE",
    "LAKESTEP_NOT_THERE_AS_OF",
    "LAKESTEP_SNAPSHOT_GONE",
    "LAKESTEP_TABLE_OVERWRITTEN",
    "LAKESTEP_TABLE_OF_ANOTHER_TIMELINE",
    "LAKESTEP_TABLE_IS_A_COPY"
  )
}
