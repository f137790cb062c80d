package io.lakestep.timeline

import java.util.concurrent.atomic.AtomicReference

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.{Errors, Ids, Json}
import io.lakestep.storage.{ObjectStore, PutOutcome}

/**
 * The one order of a database: numbered entries under `<root>/timeline`, each put once.
 *
 * The first reading begins at the newest checkpoint and lists what follows, so that a hole is found;
 * further ones ask for the next number, if that is taken for more of them at once, and for the end of
 * each entry that had none. What is kept in memory is the snapshot and the recent entries. Every entry
 * that is read is checked against the hash of the one before it. A file that is corrupt, half-written
 * or out of the chain:
 * LAKESTEP_TIMELINE_CORRUPT, naming the file. Any number of threads may use one timeline.
 *
 * @param root the folder with `format.json`
 * @param putAttempts how often a put without a clear answer is repeated
 * @param interval how many entries are between two checkpoints, and are kept in memory
 * @param atOnce makes several reads
 */
final class Timeline(
    protected val store: ObjectStore,
    val root: String,
    ids: Ids,
    putAttempts: Int,
    interval: Int,
    protected val atOnce: AtOnce = AtOnce.OneByOne)
    extends RequestedFiles
    with NameFiles
    with OldEntries
    with EveryEntry {
  import OldEntries.Most
  import Timeline._

  private val folder = s"$root/timeline"
  private val checkpoints = new Checkpoints(store, s"$root/checkpoints", atOnce)
  protected val history: History =
    new History(store, s"$root/history", interval, atOnce, n => store.get(entryFile(n)))

  /** The named snapshots of the database, and what VACUUM cuts. */
  val snapshots: NamedSnapshots = new NamedSnapshots(store, root, atOnce, putOnce)
  private val cache = new AtomicReference(TimelineView.from(TimelineSnapshot.empty, interval))
  private val knownId = new AtomicReference(Option.empty[String])

  /** The timeline's id, if the database exists; creates nothing. */
  def existingId: Option[String] = knownId.get.orElse {
    val found = readId()
    found.foreach(_ => knownId.set(found))
    found
  }

  protected def readId(): Option[String] = store.get(formatFile).map(checkFormat(formatFile, _))

  /** The timeline's id; creates the database when there is none. */
  def id: String = existingId.getOrElse {
    val file = formatFile
    val bytes = Json.text(
      Json.obj().put(
        "timeline",
        ids.nextHex()
      ).put("format", Format).set("requiredFeatures", Json.array())
    )
    store.putIfAbsent(file, (bytes + "\n").getBytes("UTF-8")) match {
      case PutOutcome.Unknown(cause) if existingId.isEmpty => throw unclear(file, cause)
      case _ => existingId.getOrElse(throw StrictFields.corrupt(file, "it is missing"))
    }
  }

  /**
   * Refuses to make the database inside the folder of a table, where VACUUM deletes what it does not
   * know, and DROP everything. Condition: LAKESTEP_ROOT_IN_TABLE.
   */
  def checkPlace(): Unit =
    if (existingId.isEmpty)
      Iterator.iterate(root)(folder => folder.take(folder.lastIndexOf('/')))
        .takeWhile(folder => folder.nonEmpty && !folder.endsWith("/"))
        .find(hasLog)
        .foreach(t => throw Errors("LAKESTEP_ROOT_IN_TABLE", "root" -> root, "table" -> t))

  /** Who may not look into a folder above the root has no table there. */
  private def hasLog(folder: String): Boolean =
    try store.list(s"$folder/_delta_log", "0").nonEmpty
    catch { case NonFatal(_) => false }

  private def formatFile = s"$root/format.json"

  private def checkFormat(file: String, bytes: Array[Byte]): String = {
    val fields = StrictFields.parse(file, bytes)
    fields.checkFeatures(fields.strings(StrictFields.RequiredFeatures), Features)
    val format = fields.long("format")
    if (format > Format) throw fields.unknownFeatures(s"format $format")
    fields.string("timeline")
  }

  /** What is known without a request to the store. */
  def known: TimelineView = cache.get

  /**
   * The timeline as it is now: everything that was put before this call. Where an entry in it is
   * finished, so is every earlier one that it had to follow: ends are looked for once all entries are
   * known. It is what this call has read: what other threads learn meanwhile need not be so.
   */
  def refresh(): TimelineView = {
    val whole = withEnds(read(likely))
    learn(_.merge(whole))
    whole
  }

  /**
   * As `refresh`, without the ends: what is finished may seem to be unfinished.
   *
   * @param ahead how many numbers are asked for at first, by who knows that there are some
   */
  def refreshEntries(ahead: Int = likely): TimelineView = {
    val entries = read(ahead)
    cache.updateAndGet(_.merge(entries))
  }

  /** What is known, with the ends that these entries have by now. */
  def refreshEnds(numbers: Vector[Long]): TimelineView = {
    val ends = atOnce(numbers.map(status))(withEnd(_)).map(s => s.entry.number -> s).toMap
    cache.updateAndGet(_.withEnds(s => ends.get(s.entry.number).fold(s)(s.withEndOf)))
  }

  private def read(ahead: Int): TimelineView = {
    val start = cache.get
    if (start.next == TimelineEntry.First) readAll()
    else {
      val view = onward(start, ahead)
      val found = view.next - start.next
      likely = if (found == 0) (likely / 2).max(1) else Many
      view
    }
  }

  /** How many numbers the next reading asks for at first, after what the last ones have found. */
  @volatile private var likely = 1

  /** Puts a checkpoint when one is due. Whatever goes wrong with it is left to the next client. */
  def checkpoint(): Unit = {
    val known = cache.get.milestone
    // It was begun from a checkpoint of an earlier version.
    val milestone =
      if (known.timeMs.isDefined || known.number % interval != 0) known
      else
        try snapshotAt(known.number)
        catch { case NonFatal(_) => known }
    checkpoints.putIfDue(milestone)
    putHistory(milestone)
  }

  /** Entries alone; of many also their ends, so that not all are kept. */
  @tailrec
  private def onward(view: TimelineView, width: Int): TimelineView = {
    val numbers = (view.next until view.next + width).toVector
    val there = atOnce(numbers)(readEntry(_)).takeWhile(_.isDefined).flatten
    val longer = there.foldLeft(view)(follow)
    if (there.size < width) longer
    else onward(if (width < Most) longer else withEnds(longer), (width * Many).min(Most))
  }

  private def follow(view: TimelineView, status: EntryStatus): TimelineView =
    view.append(checked(status, view.lastHash))

  /** With the ends that entries after the finished prefix have by now. */
  private def withEnds(view: TimelineView): TimelineView = {
    val open = view.after(view.finished).filterNot(_.isFinished)
    val ends = atOnce(open)(withEnd(_)).map(status => status.entry.number -> status).toMap
    if (ends.isEmpty) view
    else view.withEnds(status => ends.getOrElse(status.entry.number, status))
  }

  private def hashOf(number: Long) = store.get(entryFile(number)).map(Json.blake3)

  protected def checkpoint(most: Long)(
      fits: TimelineSnapshot => Boolean): Option[TimelineSnapshot] =
    checkpoints.newest(hashOf, most)(fits)(_ => ()).map(_._1)

  private def readAll(): TimelineView = {
    def after(number: Long) = store.list(folder, numbered(number + 1)).map(_.name).toSet
    val (checkpoint, names) = checkpoints.newest(hashOf)(_ => true)(after)
      .getOrElse(TimelineSnapshot.empty -> after(TimelineSnapshot.empty.number))
    val start = TimelineView.from(checkpoint, interval)
    val newest = names.iterator.collect { case EntryName(n) => n.toLong }.maxOption
    (start.next to newest.getOrElse(start.finished)).grouped(Most).foldLeft(start) {
      (view, numbers) =>
        atOnce(numbers.toVector) { number =>
          val hasEnd = names(s"${numbered(number)}.outcome.json")
          val (status, found) = atOnce.both(
            existing(number, "it is missing before a later entry"),
            if (hasEnd) outcome(number) else None
          )
          found.fold(status) { o =>
            withEnd(status.copy(outcome = Some(checked(number, o, status.hash))))
          }
        }.foldLeft(view)(follow)
    }
  }

  protected def readEntry(number: Long): Option[EntryStatus] = {
    val file = entryFile(number)
    store.get(file).map { bytes =>
      val entry = TimelineCodec.decodeEntry(file, bytes)
      if (entry.number != number)
        throw StrictFields.corrupt(file, s"it says it is entry ${entry.number}")
      EntryStatus(entry, Json.blake3(bytes), None, None)
    }
  }

  /** An entry, and what is known of its end: from memory, or of an older one from the store. */
  def status(number: Long): EntryStatus =
    known.status(number).getOrElse(withEnd(existing(number)))

  protected def existing(number: Long, absent: String = "it is missing"): EntryStatus =
    readEntry(number).getOrElse(throw StrictFields.corrupt(entryFile(number), absent))

  /** The entries after a snapshot, in order; what is not in memory is read, without its end. */
  def after(snapshot: TimelineSnapshot): Iterator[EntryStatus] =
    after(snapshot.number, snapshot.hash)

  /** @param hash of the entry with that number */
  def after(number: Long, hash: String): Iterator[EntryStatus] =
    Iterator.unfold((number + 1, hash, Option.empty[Vector[EntryStatus]])) {
      case (number, hash, ready) =>
        val pack =
          if (number >= known.first) None
          else if (ready.isEmpty || history.begins(number))
            history.packOf(number).map(_.dropWhile(_.entry.number < number)).orElse(Some(Vector()))
          else ready
        known.status(number)
          .orElse(pack.flatMap(_.headOption).orElse(readEntry(number)).map(checked(_, hash)))
          .map(s => s -> (number + 1, s.hash, pack.map(_.drop(1))))
    }

  /** One that was read without its end, with it. */
  def ended(status: EntryStatus): EntryStatus =
    if (status.outcome.isDefined) status
    else known.status(status.entry.number).getOrElse(withEnd(status))

  /** The entries after one, as far as they are known. */
  def since(number: Long): Iterator[EntryStatus] = {
    val view = known
    def hash = if (number < TimelineEntry.First) "" else status(number).hash
    if (view.first <= number + 1) view.after(number).iterator
    else after(number, hash).takeWhile(_.entry.number < view.next)
  }

  protected def checked(status: EntryStatus, previousHash: String): EntryStatus =
    if (status.entry.previousHash == previousHash) status
    else
      throw StrictFields.corrupt(
        entryFile(status.entry.number),
        s"the hash that it holds is not that of entry ${status.entry.number - 1}"
      )

  protected def withEnd(status: EntryStatus): EntryStatus =
    if (status.isFinished) status
    else {
      val number = status.entry.number
      val outcome = status.outcome.orElse(readOutcome(number, status.hash))
      val rolledBack = outcome match {
        case Some(_: Aborting) => readRolledBack(number, status.hash)
        case _ => None
      }
      status.copy(outcome = outcome, rolledBack = rolledBack)
    }

  /** Puts the entry under its number; what the store answered. */
  def putEntry(entry: TimelineEntry): PutOutcome = {
    val bytes = TimelineCodec.encode(entry)
    val put = store.putIfAbsent(entryFile(entry.number), bytes)
    if (put == PutOutcome.Created) {
      val status = EntryStatus(entry, Json.blake3(bytes), None, None)
      learn(view => if (view.next == entry.number) view.append(status) else view)
    }
    put
  }

  /** What this client has put need not be read. */
  protected def learn(more: TimelineView => TimelineView): Unit = {
    cache.updateAndGet(more(_))
    ()
  }

  /** Whether entry `number` exists, and is this one. */
  def holds(entry: TimelineEntry): Option[Boolean] =
    store.get(entryFile(entry.number)).map(java.util.Arrays.equals(_, TimelineCodec.encode(entry)))

  /** The outcome of an entry as the store has it now. */
  def readOutcome(number: Long, entryHash: String): Option[Outcome] =
    outcome(number).map(checked(number, _, entryHash))

  protected def outcome(number: Long): Option[Outcome] =
    store.get(outcomeFile(number)).map(TimelineCodec.decodeOutcome(outcomeFile(number), _))

  private def checked(number: Long, outcome: Outcome, entryHash: String): Outcome = {
    checkHash(outcomeFile(number), outcome.entryHash, entryHash)
    outcome
  }

  def readRolledBack(number: Long, entryHash: String): Option[RolledBack] = {
    val file = rolledBackFile(number)
    store.get(file).map { bytes =>
      val end = TimelineCodec.decodeRolledBack(file, bytes)
      checkHash(file, end.entryHash, entryHash)
      end
    }
  }

  /**
   * Puts an outcome, and gives the one that holds: this, or that of somebody who was first.
   *
   * Condition: LAKESTEP_OUTCOME_UNKNOWN when the store gives no clear answer again and again.
   */
  def decide(outcome: Outcome): Outcome = {
    val decided = putOrRead(outcomeFile(outcome.number), TimelineCodec.encode(outcome), outcome) {
      readOutcome(outcome.number, outcome.entryHash)
    }
    def isMeant(status: EntryStatus) =
      status.entry.number == decided.number && status.hash == decided.entryHash
    learn(_.withEnds(s => if (isMeant(s)) s.copy(outcome = Some(decided)) else s))
    decided
  }

  /** Puts the end of a rolled-back entry, or gives the one that is there. Condition as `decide`. */
  def endRollback(end: RolledBack): RolledBack =
    putOrRead(rolledBackFile(end.number), TimelineCodec.encode(end), end) {
      readRolledBack(end.number, end.entryHash)
    }

  private def putOrRead[A](file: String, bytes: Array[Byte], value: A)(read: => Option[A]): A = {
    @tailrec
    def attempt(left: Int): A = store.putIfAbsent(file, bytes) match {
      case PutOutcome.Created => value
      case PutOutcome.AlreadyExists =>
        read.getOrElse(throw StrictFields.corrupt(file, "it vanished"))
      case PutOutcome.Unknown(cause) =>
        read match {
          case Some(there) => there
          case None if left > 1 => attempt(left - 1)
          case None => throw unclear(file, cause)
        }
    }
    attempt(putAttempts)
  }

  protected def putOnce(file: String, bytes: Array[Byte]): PutOutcome =
    store.putIfAbsent(file, bytes) match {
      case PutOutcome.Unknown(cause) if !store.exists(file) => throw unclear(file, cause)
      case put => put
    }

  /** When outcomes were put, by the store's clock, by entry from a number on. */
  def outcomeTimes(from: Long): Map[Long, Long] =
    store.list(folder, numbered(from)).flatMap { file =>
      OutcomeName.findFirstMatchIn(file.name).map(_.group(1).toLong -> file.modifiedMs)
    }.toMap

  /** Where the temporary files of stores stand, for the timeline's own files. */
  def temporary: Vector[String] =
    (Vector(root, folder, s"$root/transactions", s"$root/makings", s"$root/checkpoints") ++
      history.folders ++ snapshots.folders).map(f =>
      s"$f/tmp"
    )

  private def checkHash(file: String, held: String, actual: String): Unit =
    if (held != actual)
      throw StrictFields.corrupt(file, "the hash that it holds is not that of its entry")

  private def unclear(file: String, cause: Throwable) =
    Errors.caused("LAKESTEP_OUTCOME_UNKNOWN", cause, "file" -> file)

  /** The file of entry `number`. */
  def entryFile(number: Long): String = s"$folder/${numbered(number)}.json"

  /** The file of its outcome. */
  def outcomeFile(number: Long): String = s"$folder/${numbered(number)}.outcome.json"
  private def rolledBackFile(number: Long) = s"$folder/${numbered(number)}.rolled_back.json"
}

object Timeline {

  /** The format that this code writes, and the newest that it reads. */
  val Format = 1L

  /** Features that this code knows; an unknown required one is refused. */
  val Features: Set[String] = Set.empty
  private val Many = 16
  private val EntryName = """(\d{20})\.json""".r
  private val OutcomeName = """^(\d{20})\.outcome\.json$""".r

  private def numbered(number: Long): String = f"$number%020d"
}
