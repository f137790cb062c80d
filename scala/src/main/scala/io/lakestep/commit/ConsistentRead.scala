package io.lakestep.commit

import io.lakestep.LakestepException
import io.lakestep.log.TableRef

/** Step 12, reading: the versions of tables that a query outside a transaction reads. */
private[commit] final class ConsistentRead(env: Environment, pins: Pins) {
  import env.{timeline, stores, safeguards}

  def apply(seen: Map[TableRef, Long], notBelow: Map[TableRef, Long]): Map[TableRef, Long] = {
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
    // What is finished after an unfinished entry has written none of its tables (5b), so only those
    // are read as they were before it. What was loaded may have been taken back since.
    def readPoint(log: String): ReadPoint = {
      val blocking = view.unfinished.find(_.tables.exists(_.log == log))
      // Foreign commits have no place among ours: the newest below the first mark is as good.
      ReadPoint(blocking.fold(view.next)(_.number) - 1, view.snapshot, notAfterMs = Long.MaxValue)
    }
    val blocked = view.unfinished.flatMap(_.tables.map(_.log)).toSet
    val moved = logs.filter { case (path, log) =>
      blocked(log) || view.lastSlot(log).exists(_ > seen(path))
    }
    seen ++ moved.map { case (path, log) =>
      path -> pins(readPoint(log), path, notBelow.getOrElse(path, -1L), "reader").version
    }
  }

  private def bindingsOf(tables: Vector[TableRef]): Map[TableRef, Binding] =
    env.inParallel(tables)(table => bindingOf(table).map(table -> _)).flatten.toMap

  /** None where no transaction can be: a query may read such a store beside others. */
  private def bindingOf(path: TableRef): Option[Binding] =
    try Bindings.read(stores, path)
    catch {
      case e: LakestepException if e.getCondition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT" => None
    }
}
