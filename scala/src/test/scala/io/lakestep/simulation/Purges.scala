package io.lakestep.simulation

import scala.collection.mutable

import io.lakestep.log.{AddFile, RemoveFile, TableLog, TableRef}
import io.lakestep.timeline.{
  Aborting, CommitEntry, Completed, NameChange, NamedObject, Outcome, Purge, TimelineCodec,
  TimelineEntry
}

/** An entry that purges, with the DROP of one of its tables. */
private final case class Decision(entry: CommitEntry, decidedAt: Int, purge: Purge, drop: Long) {
  def folder: String = Purges.folder(purge.path)
}

/**
 * Watches those who delete the data of dropped tables (step 15): whatever they delete must be nobody's.
 *
 * What others do after a client has looked for the last time is none of its business: so it is held
 * against what was there when it began to look.
 */
final class Purges(world: World) {
  import Purges._

  /** When each VACUUM looked for what is old enough. */
  private val looked = mutable.Map.empty[String, Int]
  private val deleting = mutable.Map.empty[String, LastLook]

  /** How many transactions were told that they have dropped a table. */
  var drops: Int = 0

  /** Whether something of a dropped table was deleted. */
  def isDeleting: Boolean = touched.nonEmpty

  /** Folders of which something was deleted. */
  private val touched = mutable.Set.empty[String]
  private val deleted = mutable.Set.empty[String]

  private def violated(message: String): Unit = world.violated(s"PURGE $message")

  def looks(transaction: String): Unit = looked(transaction) = world.scheduler.step

  /** A client deletes what entries have decided. */
  def by[A](client: String)(work: => A): A = {
    deleting(client) = LastLook(world.scheduler.step, leading)
    try work
    finally deleting -= client
  }

  /** To be called when a client asks for a file or a folder to be deleted; the result, when it is. */
  def check(client: String, path: String): () => Unit = deleting.get(client) match {
    case Some(look) => () => if (isThere(path)) deletes(client, path, look)
    case None => () => ()
  }

  private def isThere(path: String) =
    world.store.exists(path) || world.store.below(path).nonEmpty

  /** Names of tables, with the folders to which they lead. */
  private def leading: Set[(String, String, String)] = for {
    metastore <- world.metastores.toSet[SimulatedMetastore]
    (key, named) <- metastore.now
    path <- named.path if named.kind == NamedObject.Table
  } yield (metastore.id, key.toString, folder(path))

  private def deletes(client: String, path: String, look: LastLook): Unit = {
    val found = decisions.filter(d => s"$path/".startsWith(s"${d.folder}/"))
    deleted += path
    if (found.isEmpty) violated(s"$client deletes $path, which no entry has decided")
    val wrong = found.map(needed(_, look))
    if (wrong.nonEmpty && wrong.forall(_.isDefined))
      violated(s"$client deletes $path, and ${wrong.flatten.head}")
    found.map(_.folder).foreach { folder =>
      if (touched.add(folder))
        world.counts.event(s"folder deleted by ${client.takeWhile(_ != '-')}")
      if (world.tables.contains(folder)) world.dropped += folder
    }
  }

  /** Why nobody who began to look then may delete a table. */
  private def needed(d: Decision, look: LastLook): Option[String] = {
    val since = commits(d.folder).filter { case (name, step) =>
      step > decidedAt(d.drop).getOrElse(0) && step < look.step && world.store.exists(name)
    }
    val later = entries.collectFirst {
      case (c: CommitEntry, step)
          if c.number > d.entry.number && step < look.step && concerns(c, d.folder) &&
            !outcome(c.number).exists(_.isInstanceOf[Aborting]) =>
        s"entry ${c.number} names or writes it"
    }
    def open = looked.get(d.entry.transaction.id).flatMap { begun =>
      requested.collectFirst {
        case (id, snapshot, step)
            if id != d.entry.transaction.id && snapshot < d.drop && step < begun =>
          s"transaction $id has its snapshot $snapshot from before entry ${d.drop} dropped it"
      }
    }
    def named = look.names.intersect(leading).collectFirst {
      case (metastore, name, other)
          if metastore == d.purge.key.metastore && areNested(other, d.folder) =>
        s"$metastore.$name leads there"
    }
    // What is not made yet.
    def owed = completed.filter(c => decidedAt(c.number).exists(_ < look.step))
      .flatMap(c => c.names.map(_ -> c.number)).groupBy(_._1.key).values.map(_.last)
      .collectFirst {
        case (name, number)
            if name.key.metastore == d.purge.key.metastore && !world.isApplied(number) &&
              placeOf(name).exists(areNested(_, d.folder)) =>
          s"entry $number, which is not made yet, names it ${name.key}"
      }
    later.orElse(since.headOption.map(c => s"${c._1} was put in step ${c._2}"))
      .orElse(open).orElse(named).orElse(owed)
  }

  private def created: Iterator[Created] =
    world.store.changes.iterator.collect { case c: Created => c }

  /** The commits that were ever put into a log, with the steps. */
  private def commits(folder: String): Vector[(String, Int)] = created.collect {
    case Created(step, path, _, _) if isCommit(folder, path) => path -> step
  }.toVector

  private def file(number: Long, kind: String) =
    f"${History.MainRoot}/timeline/$number%020d$kind.json"

  private def entries: Vector[(TimelineEntry, Int)] = created.collect {
    case Created(step, path, bytes, _) if EntryFile.matches(path) =>
      TimelineCodec.decodeEntry(path, bytes) -> step
  }.toVector

  private def outcome(number: Long): Option[Outcome] = {
    val path = file(number, ".outcome")
    world.store.get(path).map(TimelineCodec.decodeOutcome(path, _))
  }

  private def decidedAt(number: Long): Option[Int] =
    created.find(_.path == file(number, ".outcome")).map(_.step)

  /** REQUESTED files that are there now: id, snapshot, and when it was put. */
  private def requested: Iterator[(String, Long, Int)] = for {
    c <- created
    if c.path.startsWith(s"${History.MainRoot}/transactions/") && world.store.exists(c.path)
    requested = TimelineCodec.decodeRequested(c.path, c.bytes)
  } yield (requested.id, requested.snapshot, c.step)

  private def completed: Vector[CommitEntry] = entries.collect {
    case (c: CommitEntry, _) if outcome(c.number).exists(_.isInstanceOf[Completed]) => c
  }

  private def decisions: Vector[Decision] = {
    val all = completed
    for {
      entry <- all
      at <- decidedAt(entry.number).toVector
      purge <- entry.purges
      drop = all.filter(c => c.number <= entry.transaction.snapshot && drops(c, purge)).lastOption
    } yield Decision(entry, at, purge, drop.fold(0L)(_.number))
  }

  private def drops(c: CommitEntry, purge: Purge) = {
    def isIt(named: Option[NamedObject]) =
      named.filter(_.kind == NamedObject.Table).flatMap(_.path).map(folder)
        .contains(folder(purge.path))
    c.names.exists(n => isIt(n.before)) && !c.names.exists(n => isIt(n.after))
  }

  /** When all is quiet, and a VACUUM has run to its end with every metastore. */
  def judge(): Unit = {
    val all = completed
    all.foreach(exclusive(_, all))
    // In a damaged log an entry may have no end, and nothing after it is finished.
    if (!world.dropped.exists(world.isDamaged)) {
      all.filter(_.purges.nonEmpty).foreach { c =>
        world.counts.event("committed entry that purges")
        if (!world.isApplied(c.number)) violated(s"entry ${c.number} was never done")
      }
      decisions.foreach(left)
    }
    decisions.foreach(readable)
    named(all)
  }

  /** Of VACUUM, UNDROP and who writes by path one wins. */
  private def exclusive(later: CommitEntry, all: Vector[CommitEntry]): Unit =
    for (c <- all if c.number > later.transaction.snapshot && c.number < later.number) {
      val both = Seq(c -> later, later -> c).flatMap { case (one, other) =>
        one.purges.map(p => folder(p.path)).filter { f =>
          concerns(other, f) || other.purges.exists(p => areNested(f, folder(p.path)))
        }
      }
      both.headOption.foreach { folder =>
        violated(
          s"entries ${c.number} and ${later.number} purge $folder, and name, write or purge it"
        )
      }
    }

  /** What was purged goes, unless somebody needs it. */
  private def left(d: Decision): Unit = {
    val old = world.store.below(d.folder).filter(f => putAt(f).exists(_ < d.decidedAt))
    if (old.nonEmpty) {
      world.counts.event("purged table that is left")
      val isWritten = commits(d.folder).exists(_._2 > decidedAt(d.drop).getOrElse(0))
      val isLater = entries.collect { case (c: CommitEntry, _) => c }
        .exists(c => c.number > d.entry.number && concerns(c, d.folder))
      val isNamed = world.metastores.exists(_.hasLedTo(areNested(_, d.folder), d.decidedAt))
      if (!isWritten && !isLater && !isNamed)
        violated(s"$d is decided, and its data are left: $old")
    }
  }

  /** When a file was put that is there now. */
  private def putAt(path: String): Option[Int] =
    created.filter(_.path == path).map(_.step).maxOption

  /** Nobody can add to a log whose data are gone. */
  private def readable(d: Decision): Unit = {
    val log = TableRef(d.folder).log
    val slots = world.store.below(log).filter(isCommit(d.folder, _))
    val first = slots.headOption.filter(_ == TableRef(d.folder).slot(0)).flatMap(putAt)
    if (first.exists(_ < d.decidedAt)) {
      val actions = slots.flatMap(s => world.store.get(s).toVector.flatMap(TableLog.parse(s, _)))
      val live = actions.foldLeft(Set.empty[String]) {
        case (all, a: AddFile) => all + a.path
        case (all, r: RemoveFile) => all - r.path
        case (all, _) => all
      }
      def isGone(file: String) = deleted(file) && !world.store.exists(file)
      live.find(f => isGone(TableRef(d.folder).dataFile(f))).foreach { f =>
        violated(s"the log of ${d.folder} can be read, and $f is gone")
      }
    }
  }

  /** What has a name in the end, and lies where nobody else makes tables, has its data. */
  private def named(all: Vector[CommitEntry]): Unit = {
    val last = all.flatMap(_.names).map(c => c.key -> c.after).toMap.values.flatten
    for (n <- last if n.kind == NamedObject.Table; path <- n.path.map(folder))
      if (path.contains("/lakestep-") && !world.store.exists(s"$path/rows"))
        violated(s"$path has a name, and its data are gone")
  }
}

object Purges {

  /** @param names of tables, with their folders */
  private final case class LastLook(step: Int, names: Set[(String, String, String)])

  def folder(path: TableRef): String = Alias.real(path.uri)

  def areNested(one: String, other: String): Boolean =
    s"$one/".startsWith(s"$other/") || s"$other/".startsWith(s"$one/")

  /** Whether an entry names or writes something there. */
  def concerns(c: CommitEntry, folder: String): Boolean =
    (c.names.flatMap(placeOf) ++ c.tables.map(t => this.folder(t.path))).exists(areNested(
      _,
      folder
    ))

  /** Where a table lies that is given a name. */
  def placeOf(c: NameChange): Option[String] =
    c.after.filter(_.kind == NamedObject.Table).flatMap(_.path).map(folder)

  private def isCommit(folder: String, path: String): Boolean =
    path.startsWith(s"$folder/_delta_log/") && CommitFile.findFirstIn(path).isDefined

  private val CommitFile = """_delta_log/\d{20}\.json$""".r
  private val EntryFile = s"${History.MainRoot}/timeline/\\d{20}\\.json".r
}
