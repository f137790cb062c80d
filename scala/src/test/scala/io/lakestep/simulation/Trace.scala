package io.lakestep.simulation

import scala.collection.mutable

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json
import io.lakestep.log.{AddFile, LogCommit, MetaData, RemoveFile, TableRef}
import io.lakestep.timeline.{AbortEntry, CommitEntry, Completed}

/**
 * A history as the steps of the protocol's model (tests/model), read from the store's own list of
 * changes: one event for each file, in the order in which the files were put, and a last one.
 *
 * What a session read leaves no file, so its steps up to the order point stand at the earliest moment
 * at which they can have seen what its entry says; whether they may stand there is for the model to
 * judge.
 */
object Trace {

  /**
   * Nothing when something happened of which the model does not speak: clean-up, DROP, two roots, new
   * tables, names.
   */
  def of(world: World, strict: Boolean): Option[String] = {
    val beyond =
      world.dropped.nonEmpty || world.hasNewTables || world.metastores.nonEmpty || world.store.changes.exists {
        case Created(_, path, _, _) =>
          path.endsWith(".checkpoint.parquet") || path.endsWith("/format.json") && path !=
            s"${History.MainRoot}/format.json"
        case _ => false
      }
    if (beyond) None
    else Truth.timeline(world, History.MainRoot).map(new Trace(world, _, strict).json)
  }
}

private final class Trace(world: World, timeline: TrueTimeline, strict: Boolean) {

  private val logs = Truth.logs(world)
  private val attempts = world.attempts.map(a => a.transaction -> a).toMap
  private val changes = world.store.changes.toVector
  private val places =
    changes.zipWithIndex.collect { case (c: Created, at) => c.path -> at }.reverse.toMap

  private val commits = timeline.entries.map(_.entry).collect { case c: CommitEntry => c }
  private val aborts = timeline.entries.map(_.entry).collect { case a: AbortEntry => a }
  private val numbers: Map[String, Int] =
    (commits.map(_.transaction.id) ++ aborts.flatMap(_.transactions)).distinct.zipWithIndex
      .map { case (id, i) => id -> (i + 1) }.toMap

  private val events = mutable.ArrayBuffer.empty[((Int, Int), ObjectNode)]

  /** @param order among the events of one moment */
  private def event(at: Int, what: String, order: Int = 0): ObjectNode = {
    val node = Json.obj().put("do", what)
    events += ((at, order) -> node)
    node
  }

  def json: String = {
    commits.foreach(session)
    changes.zipWithIndex.foreach {
      case (Created(_, path, _, _), at) if path.startsWith(s"${timeline.root}/timeline/") =>
        file(path.split('/').last, at)
      case (Created(_, path, _, _), at) => logs.values.foreach(l => commit(l, path, at))
      case _ => ()
    }
    collected()
    event(changes.size, "over")
    val node = Json.obj().put("seed", world.seed)
    val tables = node.putArray("tables")
    world.tables.foreach(tables.add)
    val transactions = node.putArray("transactions")
    numbers.toVector.sortBy(_._2).foreach { case (id, _) => transactions.add(transaction(id)) }
    val sorted = node.putArray("events")
    events.sortBy(_._1).foreach(e => sorted.add(e._2))
    val broken = node.putArray("broken")
    world.violations.map(_.takeWhile(_ != ' ')).distinct.foreach(broken.add)
    node.toString
  }

  private def transaction(id: String): ObjectNode = {
    val entry = commits.find(_.transaction.id == id)
    val node = Json.obj()
    def names(field: String, values: Iterable[String]): Unit = {
      val array = node.putArray(field)
      values.foreach(array.add)
    }
    val tables = entry.toVector.flatMap(_.tables).map(_.path.uri)
    val how = new HowToPublish(logs, attempts.get(id).toVector.flatMap(_.writes))
    names("writes", tables)
    names("capable", tables.filter(how.isCapable))
    names("two", tables.filter(how.parts(_) > 1))
    names("three", tables.filter(how.parts(_) > 2))
    names("reserves", tables.filter(how.reserve(_).isDefined))
    names("closed", tables.filter(how.isClosed))
    names("opens", tables.filter(how.opens))
    names("reads", entry.toVector.flatMap(_.reads).map(_.path.uri))
    node
  }

  private def landed(table: String, version: Long): Int = places(TableRef(table).slot(version))
  private def entryFile(number: Long): String = f"${timeline.root}/timeline/$number%020d"

  /** Steps 2 to 5 of a transaction that was ordered. */
  private def session(entry: CommitEntry): Unit = {
    val of = numbers(entry.transaction.id)
    val ordered = places(s"${entryFile(entry.number)}.json")
    val pins =
      entry.tables.map(t => t.path.uri -> t.pin) ++ entry.reads.map(r => r.path.uri -> r.pin)
    val bases =
      entry.tables.map(t => t.path.uri -> t.base) ++ entry.reads.map(r =>
        r.path.uri -> r.validatedTo
      )
    // A transaction that was run again is one that began when its snapshot was whole.
    val snapshot = (1L to entry.transaction.snapshot).flatMap(ended(_, ordered)).maxOption
    val begun =
      places.get(s"${timeline.root}/transactions/${entry.transaction.id}.json")
        .filter(_ < ordered).getOrElse(0).max(snapshot.getOrElse(0))
    val previous = places.getOrElse(s"${entryFile(entry.number - 1)}.json", 0)
    val read = (Vector(begun, previous) ++ pins.map { case (t, v) => landed(t, v) }).max
    val touched = pins.map(_._1).toSet
    val helped = commits
      .filter(c => c.number < entry.number && c.tables.exists(t => touched(t.path.uri)))
      .flatMap(c => ended(c.number, ordered))
    event(begun, "begin", 1).put("of", of).put("n", entry.transaction.snapshot)
    pins.foreach { case (table, version) =>
      event(read, "pin", 2).put("of", of).put("table", table).put("n", version)
    }
    event(read, "read", 3).put("of", of)
    bases.foreach { case (table, version) =>
      val at = (helped :+ read :+ landed(table, version)).max
      event(at, "list", 4).put("of", of).put("table", table).put("n", version)
    }
  }

  private def ended(number: Long, before: Int): Vector[Int] =
    Vector("outcome", "rolled_back").flatMap { end =>
      places.get(s"${entryFile(number)}.$end.json").filter(_ < before)
    }

  /** A file of the timeline. */
  private def file(name: String, at: Int): Unit = {
    val entry = timeline.entries.find(_.entry.number == name.take(20).toLong)
    entry.map(_.entry) match {
      case Some(c: CommitEntry) =>
        val of = numbers(c.transaction.id)
        name.drop(20) match {
          case ".json" =>
            val closed = event(at, "order").put("of", of).putArray("closed")
            c.tables.filter(_.closed).foreach(t => closed.add(t.path.uri))
          case ".outcome.json" =>
            val completed = entry.flatMap(_.outcome).collect { case done: Completed => done }
            val end = event(at, "end").put("of", of)
            val slots = end.put("kind", completed.fold("aborting")(_ => "completed"))
              .putArray("slots")
            completed.foreach(done =>
              for ((t, all) <- c.tables.zip(done.slots); slot <- all)
                slots.addArray().add(t.path.uri).add(slot)
            )
          case _ => event(at, "end").put("of", of).put("kind", "rolled back").putArray("slots")
        }
      case Some(a: AbortEntry) =>
        val ends = event(at, "abort").putArray("ends")
        a.transactions.foreach(id => ends.add(numbers(id)))
      case _ => ()
    }
    ()
  }

  /** A commit in a table's log. */
  private def commit(log: TrueLog, path: String, at: Int): Unit =
    log.created.zip(log.commits).collectFirst {
      case (c, commit) if c.path == path && commit.version > 0 => commit
    }.foreach { commit =>
      val node = commit.mark match {
        case Some(m) =>
          event(at, "put").put("of", numbers(m.transaction)).put("kind", m.kind.text)
            .put("n", if (m.settles) 1 else m.part)
        case None => event(at, "foreign").put("kind", kind(commit))
      }
      node.put("table", log.table)
      val others = commits.filterNot(c => commit.mark.exists(_.transaction == c.transaction.id))
      val (clash, suspect) = (node.putArray("clash"), node.putArray("suspect"))
      others.foreach { c =>
        val of = numbers(c.transaction.id)
        val isClash = conflicts(c, log, commit)
        if (isClash && !isPartly(c, log, commit)) clash.add(of)
        if (isClash || overlaps(c, log.table, commit)) suspect.add(of)
      }
    }

  private def kind(commit: LogCommit): String =
    if (commit.actions.exists(_.isInstanceOf[MetaData])) "alter"
    else if (commit.actions.exists(_.isInstanceOf[RemoveFile])) "rewrite"
    else "append"

  private def planned(c: CommitEntry, table: String): Option[PlannedWrite] =
    attempts.get(c.transaction.id).flatMap(_.writes.find(_.table == table))

  private def conflicts(c: CommitEntry, log: TrueLog, commit: LogCommit): Boolean =
    planned(c, log.table).exists(w =>
      Judge.isConflict(w, commit) && !isMerged(c, w, log, commit)
    ) ||
      c.reads.exists(_.path.uri == log.table) &&
      (commit.changesData || commit.actions.exists(_.isInstanceOf[MetaData]))

  /** Row level: until the order point a transaction takes over the rows that others took. */
  private def isMerged(c: CommitEntry, w: PlannedWrite, log: TrueLog, commit: LogCommit): Boolean =
    c.tables.find(_.path.uri == log.table).exists { t =>
      commit.version <= t.base && Judge.onlyTakesRows(w, commit) && Judge.rowsFit(w, log, t.base)
    }

  /** Between two parts only what is still to be published can conflict. */
  private def isPartly(c: CommitEntry, log: TrueLog, commit: LogCommit): Boolean =
    log.marks.exists(m => m.slot < commit.version && m.mark.transaction == c.transaction.id)

  /** What the rules also take for a conflict, for every client or for a strict helper. */
  private def overlaps(c: CommitEntry, table: String, commit: LogCommit): Boolean =
    strict && c.tables.exists(_.path.uri == table) || planned(c, table).exists { w =>
      commit.actions.exists {
        case a: AddFile => w.adds(a.path) || w.removes(a.path)
        case _ => false
      }
    }

  /** Data files that somebody deleted: those of a transaction whose COMMIT was called. */
  private def collected(): Unit = {
    val owners = for {
      (id, attempt) <- attempts.toVector if numbers.contains(id)
      write <- attempt.writes
      path <- write.adds
    } yield TableRef(write.table).dataFile(path) -> id
    val byFile = owners.toMap
    changes.zipWithIndex.collect {
      case (Deleted(_, path), at) if byFile.contains(path) => byFile(path) -> at
    }.groupBy(_._1).foreach { case (id, all) =>
      event(all.map(_._2).min, "collect").put("of", numbers(id))
    }
  }
}
