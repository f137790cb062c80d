package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.log.TableRef
import scala.util.Try

/**
 * What VACUUM TRANSACTIONS did.
 *
 * @param aborted transactions that were ended by an ABORT entry
 * @param folders staging folders that were removed, of these and of transactions that had ended
 * @param failed tables that could not be looked at, with the reason
 */
final case class CollectionReport(
    aborted: Vector[String],
    folders: Int,
    failed: Vector[(String, Throwable)])

/**
 * Step 10: removes what dead clients left. A transaction that has not ended and is older than asked
 * is first ended in the timeline, so that its owner, should it live, finds that at COMMIT; only
 * then its files go. Staged commits are looked for in the tables of the timeline. A temporary file
 * belongs to one put: without it that of a living writer fails, and has had no effect.
 */
private[commit] final class Collector(env: Environment, abort: Vector[String] => Vector[String]) {
  import env.{timeline, stores, clock}

  /** @param before times of the store; what is younger is left alone */
  def apply(before: Long): CollectionReport = {
    val staged = timeline.refresh().tables.map { case (path, log) =>
      path -> (try Right(segments(path, log, before))
      catch { case NonFatal(e) => Left(e) })
    }
    val found = staged.collect { case (path, Right(segments)) => path -> segments }
    val old = (timeline.requestedBefore(before) ++ found.flatMap(_._2)).distinct
    val done = ended(old)
    val aborted = abort(old.filterNot(done))
    timeline.refresh()
    val hasEnded = done ++ ended(old.filterNot(done))
    val removed = for ((path, segments) <- found; id <- segments if hasEnded(id)) yield {
      stores.forPath(path.uri).deleteFolder(path.staging(id))
      id
    }
    dropHolds(before)
    old.diff(aborted).filter(hasEnded).foreach(timeline.deleteRequested)
    for {
      (making, time) <- timeline.makings() if time < before
      if LateNames.isForgotten(time, clock.nowMs())(timeline.appliedMs(making.number))
    } timeline.deleteMaking(making)
    for ((path, _) <- found)
      KeptLogs.tidy(stores, path, before)(timeline.snapshots.all().map(_.id).toSet)
    val temporary = found.map { case (path, _) => path.temporary } ++ timeline.temporary
    val failed = staged.collect { case (path, Left(e)) => path.uri -> e } ++
      temporary.flatMap(folder =>
        Try(removeOld(folder, before)).failed.toOption.map(folder -> _)
      )
    CollectionReport(aborted, removed.size, failed)
  }

  /**
   * What transactions held that have ended: by an entry, or without one, as their REQUESTED is gone; and
   * what those held who were creating a snapshot.
   */
  private def dropHolds(before: Long): Unit = {
    val holds = timeline.snapshots.all().filter(_.isHold)
    val over = ended(holds.flatMap(_.comment))
    lazy val open = timeline.allRequested.keySet
    for {
      held <- holds
      if held.comment.exists(over) || held.createdMs < before && !held.comment.exists(open)
    } timeline.snapshots.drop(held, clock.nowMs())
  }

  private def removeOld(folder: String, before: Long): Unit = {
    val store = stores.forPath(folder)
    store.list(folder, "").filter(_.modifiedMs < before).foreach(f =>
      store.delete(s"$folder/${f.name}")
    )
  }

  /** Transactions whose staged commits in a table are all old; where none is left, who are old themselves. */
  private def segments(path: TableRef, log: String, before: Long): Vector[String] =
    if (!Bindings.read(stores, path).exists(_.log == log)) Vector.empty
    else {
      val store = stores.forPath(path.uri)
      store.folders(path.ownFolder).filter(Collector.Id.matches).filter { id =>
        val files = store.list(path.staging(id), "")
        // A local disk keeps the folder of what was taken back.
        val told = if (files.isEmpty) timeline.allRequested.get(id).toVector else files
        told.forall(_.modifiedMs < before)
      }
    }

  /**
   * Those whose files nobody needs any more: they never get an entry, or theirs is finished. What
   * says so is durable before they are deleted.
   */
  private def ended(ids: Vector[String]): Set[String] = {
    val aborted = for (id <- ids; entry <- timeline.known.aborted(id)) yield id -> entry
    val finished = timeline.entriesOf(ids.toSet).collect {
      case (id, status) if status.isFinished => id -> status.entry.number
    }
    env.keep(aborted.map(_._2).distinct.map(timeline.entryFile): _*)
    env.keep(finished.values.toSeq.map(timeline.outcomeFile): _*)
    aborted.map(_._1).toSet ++ finished.keySet
  }
}

private object Collector {
  val Id: scala.util.matching.Regex = "t[0-9a-f]{32}".r
}
