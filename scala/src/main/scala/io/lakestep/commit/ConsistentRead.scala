package io.lakestep.commit

import io.lakestep.LakestepException
import io.lakestep.log.TableRef
import io.lakestep.timeline.TimelineView

/** Step 12, reading: the versions of tables that a query outside a transaction reads. */
private[commit] final class ConsistentRead(env: Environment, pins: Pins, names: Names) {
  import env.{timeline, stores, safeguards}

  def apply(
      seen: Map[TableRef, Long],
      notBelow: Map[TableRef, Long],
      readNames: Option[ReadNames]): Map[TableRef, Long] = {
    def bound = bindingsOf(seen.keys.toVector)
    // After the versions: what is in them has its entry in this reading.
    def read = if (timeline.existingId.isEmpty) timeline.known else timeline.refresh()
    val (view, early) =
      if (safeguards.timelineBeforeBindings) env.both(read, bound) else (bound, read).swap
    // After the reading: the tables of its entries are bound. A binding that was there before it is that
    // of the table whose version was loaded, or of a later one.
    val late =
      if (safeguards.timelineBeforeBindings) bindingsOf((seen.keySet -- early.keySet).toVector)
      else Map.empty
    val logs = (early ++ late).collect {
      case (path, b) if timeline.existingId.contains(b.timeline) => path -> b.log
    }
    def moved(at: TimelineView)(isMoved: (TableRef, String) => Boolean) = {
      val moving = logs.filter { case (path, log) => isMoved(path, log) }
      seen ++ moving.map { case (path, log) =>
        path -> pins(readPoint(at, log), path, notBelow.getOrElse(path, -1L), "reader").version
      }
    }
    val asOfNames = for {
      read <- readNames
      point <- read.names.point
      if names.haveChanged(read.met, point, view)
      versions <- ifThere(moved(point)((_, _) => true))
    } yield versions
    asOfNames.getOrElse {
      val blocked = view.unfinished.flatMap(_.tables.map(_.log)).toSet
      moved(view)((path, log) => blocked(log) || view.lastSlot(log).exists(_ > seen(path)))
    }
  }

  /**
   * What is finished after an unfinished entry has written none of its tables (5b), so only those are read
   * as they were before it. What was loaded may have been taken back since.
   */
  private def readPoint(view: TimelineView, log: String): ReadPoint = {
    val blocking = view.unfinished.find(_.tables.exists(_.log == log))
    // Foreign commits have no place among ours: the newest below the first mark is as good.
    ReadPoint(blocking.fold(view.next)(_.number) - 1, view.snapshot, notAfterMs = Long.MaxValue)
  }

  /** Nothing where the reader has met what is newer, or the log of that time is gone. */
  private def ifThere[A](versions: => A): Option[A] =
    try Some(versions)
    catch { case e: LakestepException if ConsistentRead.Passed(e.getCondition) => None }

  private def bindingsOf(tables: Vector[TableRef]): Map[TableRef, Binding] =
    env.inParallel(tables)(table => bindingOf(table).map(table -> _)).flatten.toMap

  /** None where no transaction can be: a query may read such a store beside others. */
  private def bindingOf(path: TableRef): Option[Binding] =
    try Bindings.read(stores, path)
    catch {
      case e: LakestepException if e.getCondition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT" => None
    }
}

private object ConsistentRead {
  private val Passed = Set(
    "LAKESTEP_SNAPSHOT_BEHIND_SESSION",
    "LAKESTEP_SNAPSHOT_GONE",
    "LAKESTEP_NOT_A_TABLE",
    "LAKESTEP_TABLE_OVERWRITTEN"
  )
}
