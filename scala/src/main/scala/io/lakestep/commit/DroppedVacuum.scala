package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.log.{LogFileName, TableRef}
import io.lakestep.timeline.{CommitEntry, DroppedTable, EntryStatus, Purge}

/**
 * A dropped table that is older than VACUUM DROPPED TABLES was told to keep.
 *
 * @param kept why its data stay, if they do
 */
final case class OldDroppedTable(dropped: DroppedTable, kept: Option[String]) {
  def purge: Purge = Purge(dropped.key, dropped.table.path.get)
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
  import env.{clock, options, stores, timeline}

  /** Tables of the client's metastores that were dropped before the snapshot, and long enough ago. */
  def old(txn: BegunTransaction, retainMs: Long): Vector[OldDroppedTable] = {
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
      val others = (requested.keySet - txn.id).toVector.flatMap(timeline.requested(_))
      val names = namesAt(old.flatMap(_._1.table.path))
      old.map { case (dropped, droppedMs) =>
        val path = dropped.table.path.get
        OldDroppedTable(
          dropped,
          others.find(_.snapshot < dropped.entry)
            .map(t => s"transaction ${t.id} began before it was dropped")
            .orElse(kept(path, droppedMs, names))
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
    val decidedMs = timeline.outcomeTimes(entry.number).get(entry.number)
    val names = namesAt(entry.purges.map(_.path))
    env.inParallel(entry.purges) { purge =>
      val done =
        try
          kept(purge.path, decidedMs.getOrElse(0L), names).map(Purged.Kept(_)).getOrElse {
            delete(purge.path)
            Purged.Deleted
          }
        catch { case NonFatal(cause) => Purged.Failed(cause) }
      purge -> done
    }
  }

  private def namesAt(paths: Vector[TableRef]): Map[TableRef, String] =
    if (paths.isEmpty) Map.empty else options.catalogs.namesAt(paths)

  /** @param sinceMs when nobody needed it any more, by the store's clock */
  private def kept(path: TableRef, sinceMs: Long, names: Map[TableRef, String]): Option[String] = {
    def isWritten = stores.forPath(path.uri).list(path.log, "").exists { file =>
      isCommit(file.name) && file.modifiedMs > sinceMs
    }
    val inside = timeline.known.tables.map(_._1).find(_.uri.startsWith(s"${path.uri}/"))
    names.get(path).map(name => s"$name leads to its folder")
      .orElse(inside.map(table => s"a table lies in its folder: ${table.uri}"))
      .orElse(Option.when(isWritten)("it was written since"))
  }

  /**
   * The log first, in an order in which nothing of it can be read before all is gone: else who writes there
   * by path would take what is left for a table.
   */
  private def delete(path: TableRef): Unit = {
    val store = stores.forPath(path.uri)
    val (commits, others) =
      store.list(path.log, "").map(_.name).partition(isCommit)
    env.inParallel(others)(name => store.delete(s"${path.log}/$name"))
    commits.headOption.foreach(name => store.delete(s"${path.log}/$name"))
    store.deleteFolder(path.uri)
    path.ownParent.filter(f => store.list(f, "").isEmpty && store.folders(f).isEmpty)
      .foreach(store.deleteFolder(_))
  }

  private def isCommit(name: String) = LogFileName(name).isInstanceOf[LogFileName.Commit]
}
