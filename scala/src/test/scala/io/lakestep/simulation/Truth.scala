package io.lakestep.simulation

import scala.collection.mutable

import io.lakestep.Json
import io.lakestep.log.{
  AddFile, CommitMark, ForeignWriters, LogCommit, MarkKind, MetaData, Protocol, RemoveFile,
  TableLog, TableRef
}
import io.lakestep.timeline.{
  CommitEntry, Completed, Outcome, RolledBack, TimelineCodec, TimelineEntry
}

/** A mark of ours in a log, and its slot. */
final case class PlacedMark(slot: Long, mark: CommitMark)

/**
 * One table's log as it really happened: the first file that was ever put into each slot, also
 * where a clean-up deleted it later. A file put into a slot a second time is seen by nobody.
 *
 * @param live files that are live after each version, with the rows that are deleted in each
 * @param headers metadata and protocol after each version
 * @param faults what no log may hold: holes, removes of files that are not live, and the like
 */
final case class TrueLog(
    table: String,
    commits: Vector[LogCommit],
    created: Vector[Created],
    live: Vector[Map[String, Set[Int]]],
    headers: Vector[Header],
    faults: Vector[String]) {

  val marks: Vector[PlacedMark] =
    commits.flatMap(c => c.mark.map(PlacedMark(c.version, _)))

  def marksOf(timeline: String, entry: Long, table: Int): Vector[PlacedMark] =
    marks.filter(_.mark.isOf(timeline, entry, table))
}

/** What stands in the head of a table's log. */
final case class Header(metaData: Option[MetaData], protocol: Option[Protocol]) {

  def isFenced: Boolean = protocol.exists(ForeignWriters.isFenced)

  /** Whether foreign writers are kept out until a transaction lets them in again. */
  def isClosed: Boolean =
    isFenced && metaData.exists(ForeignWriters.mode(_) == ForeignWriters.Forbid)

  def next(commit: LogCommit): Header = Header(
    commit.actions.collect { case m: MetaData => m }.lastOption.orElse(metaData),
    commit.actions.collect { case p: Protocol => p }.lastOption.orElse(protocol)
  )
}

/** One entry as it really is. */
final case class TrueEntry(
    entry: TimelineEntry,
    hash: String,
    outcome: Option[Outcome],
    rolledBack: Option[RolledBack],
    createdAt: Int,
    finishedAt: Int) {
  def isCompleted: Boolean = outcome.exists(_.isInstanceOf[Completed])
}

final case class TrueTimeline(
    root: String,
    id: String,
    entries: Vector[TrueEntry],
    faults: Vector[String])

/** What a history left behind, read from the store's own list of changes and not through the product. */
object Truth {

  def logs(world: World): Map[String, TrueLog] = {
    val created = world.store.changes.collect { case c: Created => c }
    world.tables.map(t =>
      t -> log(t, created.filter(_.path.startsWith(s"${TableRef(t).log}/0")))
    ).toMap
  }

  private def log(table: String, created: Seq[Created]): TrueLog = {
    val slots = created
      .filter(_.path.endsWith(".json"))
      .groupBy(_.path)
      .values
      .map(_.head)
      .toVector
      .sortBy(_.path)
    val commits = slots.map { c =>
      val version = c.path.drop(TableRef(table).log.length + 1).take(20).toLong
      LogCommit(version, TableLog.parse(c.path, c.bytes))
    }
    val faults = mutable.ArrayBuffer.empty[String]
    commits.zipWithIndex.foreach { case (c, i) =>
      if (c.version != i) faults += s"I3 $table has a hole before version ${c.version}"
      if (i > 0 && slots(i).step < slots(i - 1).step)
        faults += s"I3 $table got version ${c.version} before the one below it"
    }
    val maker = commits.headOption.flatMap(_.mark)
    def unmakes(c: LogCommit) = c.mark.exists { m =>
      m.kind == MarkKind.Undo && maker.exists(_.isOf(m.timeline, m.entry, m.table))
    }
    val live = commits.scanLeft(Map.empty[String, Set[Int]])((files, c) =>
      replay(table, files, c, unmakes(c), faults)
    ).tail
    val headers = commits.scanLeft(Header(None, None))(_ next _).tail
    if (headers.headOption.exists(h => h.metaData.isEmpty || h.protocol.isEmpty))
      faults += s"I3 $table begins without protocol and metadata"
    headers.zip(commits).foldLeft(false) { case (wasReserved, (h, c)) =>
      // A fence without the property is that of a transaction which is being published.
      val isReserved = c.mark.map(_.kind).fold(wasReserved)(_ == MarkKind.Reserve)
      val says = h.metaData.exists(ForeignWriters.mode(_) == ForeignWriters.Forbid)
      if (says && !h.isFenced || h.isFenced && !says && !isReserved)
        faults += s"MODE property and feature differ in version ${c.version} of $table"
      isReserved
    }
    TrueLog(table, commits, slots, live, headers, faults.toVector)
  }

  private def replay(
      table: String,
      files: Map[String, Set[Int]],
      commit: LogCommit,
      unmakes: Boolean,
      faults: mutable.Buffer[String]): Map[String, Set[Int]] = {
    val removes = commit.actions.collect { case r: RemoveFile => r }
    val adds = commit.actions.collect { case a: AddFile => a.path -> Cells.deleted(a) }
    val where = s"$table version ${commit.version}"
    removes.foreach { r =>
      if (!files.get(r.path).contains(Cells.deleted(r)))
        faults += s"I5 $where removes ${r.path} with ${r.dvId}, which is not live"
    }
    val rest = files -- removes.map(_.path)
    adds.map(_._1).filter(rest.contains).foreach(f =>
      faults += s"I5 $where adds $f, which is live"
    )
    val result = rest ++ adds
    result.keys.groupBy(Cells.cellOf).foreach {
      case (Some(cell), several) if several.size > 1 =>
        faults += s"I5 $where has several contents of $cell: ${several.mkString(", ")}"
      case _ => ()
    }
    val cells = result.keySet.flatMap(Cells.cellOf)
    if (!unmakes && !files.keySet.flatMap(Cells.cellOf).subsetOf(cells))
      faults += s"I3 $where lost a cell: it has ${cells.mkString(", ")}"
    result
  }

  def timeline(world: World, root: String): Option[TrueTimeline] =
    world.store.get(s"$root/format.json").map { format =>
      val created = world.store.changes.collect {
        case c: Created if c.path.startsWith(s"$root/timeline/") => c
      }
      val byName = created.map(c => c.path.drop(s"$root/timeline/".length) -> c).toMap
      val faults = mutable.ArrayBuffer.empty[String]
      if (byName.size != created.size) faults += s"I2 a file of $root/timeline was put twice"
      val numbers = byName.keys.filter(_.length == 25).map(_.take(20).toLong).toVector.sorted
      if (numbers != (1L to numbers.size.toLong).toVector)
        faults += s"I2 the entries of $root are not contiguous: ${numbers.mkString(", ")}"
      val entries = numbers.map(entry(_, byName))
      ("" +: entries.map(_.hash)).zip(entries).foreach { case (previous, e) =>
        if (e.entry.previousHash != previous)
          faults += s"I2 the hash chain is broken at ${e.entry.number}"
        if (e.outcome.exists(_.entryHash != e.hash) || e.rolledBack.exists(_.entryHash != e.hash))
          faults += s"I2 the end of entry ${e.entry.number} is that of another one"
      }
      TrueTimeline(root, Json.parse(format).get("timeline").asText, entries, faults.toVector)
    }

  private def entry(number: Long, files: Map[String, Created]): TrueEntry = {
    val prefix = f"$number%020d"
    val file = files(s"$prefix.json")
    val outcomeFile = files.get(s"$prefix.outcome.json")
    val endFile = files.get(s"$prefix.rolled_back.json")
    val outcome = outcomeFile.map(c => TimelineCodec.decodeOutcome(c.path, c.bytes))
    val end = endFile.map(c => TimelineCodec.decodeRolledBack(c.path, c.bytes))
    val finishedAt = outcome match {
      case Some(_: Completed) => outcomeFile.fold(0)(_.step)
      case _ => endFile.fold(Int.MaxValue)(_.step)
    }
    TrueEntry(
      byRealPaths(TimelineCodec.decodeEntry(file.path, file.bytes)),
      Json.blake3(file.bytes),
      outcome,
      end,
      file.step,
      finishedAt
    )
  }

  /** With each table under the path that the store has, whatever path its writer knew. */
  private def byRealPaths(entry: TimelineEntry): TimelineEntry = entry match {
    case c: CommitEntry =>
      c.copy(
        tables = c.tables.map(t => t.copy(path = TableRef(Alias.real(t.path.uri)))),
        reads = c.reads.map(r => r.copy(path = TableRef(Alias.real(r.path.uri))))
      )
    case other => other
  }
}
