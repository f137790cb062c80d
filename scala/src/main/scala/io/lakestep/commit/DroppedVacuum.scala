package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.log.{LogFileName, TableRef}
import io.lakestep.storage.{CanonicalPath, StoredFile}
import io.lakestep.timeline.{CommitEntry, DroppedTable, EntryStatus, NamedSnapshot, Purge}

/**
 * A dropped table that is older than VACUUM DROPPED TABLES was told to keep.
 *
 * @param head the newest version in its log, -1 for none
 * @param kept why its data stay, if they do
 */
final case class OldDroppedTable(dropped: DroppedTable, head: Long, kept: Option[String]) {
  def purge: Purge = Purge(dropped.key, dropped.table.path.get, head)
}

/** What became of the data of a table that an entry purges. */
sealed trait Purged

object Purged {
  case object Deleted extends Purged
  final case class Kept(reason: String) extends Purged
  final case class Failed(cause: Throwable) extends Purged
}

/**
 * Step 15: deletes the data of dropped tables. Which ones is the content of an entry, so that of VACUUM and
 * UNDROP but one wins; what a client that dies leaves of them is deleted by the next VACUUM.
 */
private[commit] final class DroppedVacuum(env: Environment) {
  import env.{clock, options, safeguards, stores, timeline}

  /**
   * Tables of the client's metastores that were dropped before the snapshot, and long enough ago.
   *
   * @param undoMs what was dropped since then can be brought back
   */
  def old(
      txn: BegunTransaction,
      retainMs: Long,
      undoMs: Option[Long]): Vector[OldDroppedTable] = {
    val managed = txn.base.names.dropped.filter { d =>
      d.table.isManaged && d.table.path.isDefined && options.catalogs.has(d.key.metastore)
    }
    if (managed.isEmpty) Vector.empty
    else {
      // Of one clock, the store's.
      val requested = timeline.allRequested
      val now = requested.get(txn.id).fold(clock.nowMs())(_.modifiedMs)
      val decided = timeline.outcomeTimes(managed.map(_.entry).min)
      val old = for {
        dropped <- managed
        droppedMs <- decided.get(dropped.entry)
        if droppedMs <= now - retainMs
      } yield dropped -> droppedMs
      // Each is a request; where nothing is old, nobody is asked.
      lazy val named = timeline.snapshots.all()
      lazy val others = (requested.keySet - txn.id).toVector.flatMap(timeline.requested(_))
        .filter(_ => safeguards.heedsOlder)
      val names = env.namesAt(old.flatMap(_._1.table.path))
      old.map { case (dropped, droppedMs) =>
        val path = dropped.table.path.get
        val seen = commits(path)
        val isWritten =
          safeguards.heedsLaterWrites && seen.exists(c => isSince(c.modifiedMs, droppedMs))
        OldDroppedTable(
          dropped,
          headOf(seen),
          others.find(_.snapshot < dropped.entry)
            .map(t => s"transaction ${t.id} began before it was dropped")
            .orElse(kept(path, names))
            .orElse(heldBy(named, path))
            .orElse(Option.when(isWritten)(Written))
            .orElse(Option.when(undoMs.exists(droppedMs > now - _))(ForUndo))
        )
      }
    }
  }

  /** Deletes what entries have decided and nobody has deleted yet, of this client's metastores. */
  def purge(): Vector[(Purge, Purged)] = {
    val view = timeline.refresh()
    val decided = view.snapshot.names.unapplied.keySet.toVector.sorted.map(timeline.status(_))
    decided.flatMap {
      case EntryStatus(entry: CommitEntry, hash, _, _)
          if entry.purges.exists(p => options.catalogs.has(p.key.metastore)) &&
            !timeline.isApplied(entry.number) =>
        val done = purge(entry)
        if (!done.exists(_._2.isInstanceOf[Purged.Failed]))
          timeline.putApplied(entry.number, hash, clock.nowMs())
        done
      case _ => Vector.empty
    }
  }

  private def purge(entry: CommitEntry): Vector[(Purge, Purged)] = {
    env.keep(timeline.outcomeFile(entry.number))
    val decidedMs = timeline.outcomeTimes(entry.number).getOrElse(entry.number, 0L)
    val names = env.namesAt(entry.purges.map(_.path))
    env.inParallel(entry.purges) { purge =>
      val done =
        try
          neededNow(entry, purge, decidedMs, names).filter(_ => safeguards.looksBeforeDeleting)
            .map(Purged.Kept(_)).getOrElse {
              delete(purge.path)
              Purged.Deleted
            }
        catch { case NonFatal(cause) => Purged.Failed(cause) }
      purge -> done
    }
  }

  private def neededNow(
      entry: CommitEntry,
      purge: Purge,
      decidedMs: Long,
      names: Map[TableRef, String]): Option[String] =
    keptNow(entry, purge, decidedMs).orElse(kept(purge.path, names))
      .orElse(heldBy(timeline.snapshots.all(), purge.path))

  /** What has happened to a table since an entry has decided. */
  private def keptNow(entry: CommitEntry, purge: Purge, decidedMs: Long): Option[String] = {
    val place = CanonicalPath.place(purge.path.uri)
    timeline.refresh()
    val later = timeline.since(entry.number).map(_.entry).collectFirst {
      case c: CommitEntry
          if TouchedNames.placesOf(c).exists(CanonicalPath.areNested(place, _)) =>
        s"entry ${c.number} names or writes it"
    }
    later.orElse {
      val seen = commits(purge.path)
      val isOther = seen.nonEmpty && headOf(seen) != purge.head
      Option.when(isOther || seen.exists(_.modifiedMs > decidedMs))(Written)
    }
  }

  private def kept(path: TableRef, names: Map[TableRef, String]): Option[String] = {
    val place = CanonicalPath.place(path.uri)
    def holds(other: String) = CanonicalPath.isInside(other, place)
    val inside = timeline.known.tables.map(t => CanonicalPath.place(t._1.uri))
      .find(table => table != place && holds(table))
    names.get(path).map(name => s"$name leads to its folder")
      .orElse(inside.map(table => s"a table lies in its folder: $table"))
      .orElse(Option.when(
        holds(CanonicalPath.place(timeline.root))
      )("the timeline lies in its folder"))
  }

  /** Asked after the entry was put: a snapshot that is younger looks for entries that purge. */
  private def heldBy(all: Vector[NamedSnapshot], path: TableRef): Option[String] =
    all.find(s => !s.isExpired(clock.nowMs()) && s.table(path).isDefined)
      .map(s => s"snapshot ${s.name} reads it")

  private val Written = "it was written since"
  private val ForUndo = "spark.lakestep.undo.retainHours keeps it"

  private def commits(path: TableRef): Vector[StoredFile] =
    stores.forPath(path.uri).list(path.log, "").filter(f => isCommit(f.name))

  private def headOf(commits: Vector[StoredFile]): Long =
    commits.map(c => LogFileName.version(c.name)).maxOption.getOrElse(-1L)

  /** Where a store counts in seconds, two that are equal may have come in any order. */
  private def isSince(timeMs: Long, otherMs: Long) =
    timeMs > otherMs || timeMs == otherMs && timeMs % 1000 == 0

  /**
   * The log first, in an order in which nothing of it can be read before all is gone: else who writes there
   * by path would take what is left for a table.
   */
  private def delete(path: TableRef): Unit = {
    val store = stores.forPath(path.uri)
    if (safeguards.deletesLogsFirst) {
      val (commits, others) = store.list(path.log, "").map(_.name).partition(isCommit)
      env.inParallel(others)(name => store.delete(s"${path.log}/$name"))
      commits.headOption.foreach(name => store.delete(s"${path.log}/$name"))
    }
    store.deleteFolder(path.uri)
    path.ownParent.filter(f => store.list(f, "").isEmpty && store.folders(f).isEmpty)
      .foreach(store.deleteFolder(_))
  }

  private def isCommit(name: String) = LogFileName(name).isInstanceOf[LogFileName.Commit]
}
