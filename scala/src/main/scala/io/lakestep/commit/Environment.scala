package io.lakestep.commit

import scala.collection.mutable
import scala.util.control.NonFatal

import io.lakestep.{Clock, Errors, Ids, Json, LakestepException}
import io.lakestep.log.{
  CommitMark, DeletionVectors, LogCommit, LogTail, NetChanges, ListedCommit, StateReader, TableLog,
  TableRef, TableState
}
import io.lakestep.storage.{CanonicalPath, ObjectStores}
import io.lakestep.timeline.{
  CommitEntry, Conflict, EntryTable, NamedObject, Rule, SlotStamp, Timeline
}

/** Everything that the protocol sees of the env. */
private[commit] final class Environment(
    val timeline: Timeline,
    val stores: ObjectStores,
    val states: StateReader,
    val vectors: DeletionVectors,
    val clock: Clock,
    val ids: Ids,
    val observer: CommitSteps,
    val options: DatabaseOptions,
    val safeguards: Safeguards) {

  private val listener = TransactionListener.all(Seq(options.listener))

  private val heard = new ThreadLocal[mutable.Buffer[TransactionEvent]]

  /** Never throws. */
  def tell(event: TransactionEvent): Unit = {
    Option(heard.get).foreach(_ += event)
    listener.on(event)
  }

  /** What comes of some work, and what this thread tells meanwhile. */
  def listening[A](work: => A): (A, Vector[TransactionEvent]) = {
    val events = mutable.Buffer.empty[TransactionEvent]
    heard.set(events)
    try (work, events.toVector)
    finally heard.remove()
  }

  /** Names that lead to tables, also those that no metastore shows yet. */
  def namesAt(paths: Vector[TableRef]): Map[TableRef, String] =
    if (paths.isEmpty || !safeguards.heedsLeadingNames) Map.empty
    else {
      val owed = for {
        (key, after) <- timeline.known.snapshot.names.pending.toVector
        other <- after.filter(_.kind == NamedObject.Table).flatMap(_.path).toVector
        place = CanonicalPath.place(other.uri)
        path <- paths if CanonicalPath.areNested(place, CanonicalPath.place(path.uri))
      } yield path -> key.toString
      options.catalogs.namesAt(paths) ++ owed
    }

  def log(table: TableRef): TableLog = new TableLog(stores.forPath(table.uri), table)

  /** The same work on different tables, at once; throws the first failure when all have ended. */
  def inParallel[A, B](items: Vector[A])(work: A => B): Vector[B] =
    options.publishExecutor.all(items)(work)

  /** Two things at once. */
  def both[A, B](one: => A, other: => B): (A, B) = options.publishExecutor.atOnce.both(one, other)

  /**
   * The net actions that an entry publishes in a table, checked against the hash in the entry.
   *
   * Condition: LAKESTEP_STAGED_COMMIT_LOST.
   */
  def changes(entry: CommitEntry, table: EntryTable): NetChanges = {
    val file = table.path.netActions(entry.transaction.id, table.actionsHash)
    def lost(reason: String) = Errors(
      "LAKESTEP_STAGED_COMMIT_LOST",
      "file" -> file,
      "entry" -> entry.number.toString,
      "transaction" -> entry.transaction.id,
      "reason" -> reason
    )
    val bytes = stores.forPath(table.path.uri).get(file).getOrElse(throw lost("it is missing"))
    val changes = NetChanges.decode(file, bytes)
    if (changes.hash != table.actionsHash) throw lost("its actions are not those of the entry")
    changes
  }

  /** Whether the entry's log is not at its path any more: dropped, or another table is there now. */
  def isAnotherLog(table: EntryTable): Boolean =
    !Bindings.read(stores, table.path).exists(_.log == table.log)

  /** Whether the log ends with the base, so that nobody has published anything of the entry. */
  def isAtHead(table: EntryTable): Boolean = {
    val tail = log(table.path).tail(table.base)
    val slot = tail.slot(table.base).map(Environment.stamp)
    tail.head.forall(_ == table.base) && slot == table.baseSlot && slot.isDefined == table.base >= 0
  }

  /**
   * Whether the log that was listed is not the one that the entry was validated against. The commit
   * file of its base tells, and where that differs or is gone the binding and the table's id do.
   */
  def isAnotherTable(table: EntryTable, tail: LogTail, head: Long): Boolean =
    tail.slot(table.base) match {
      case Some(slot) if table.baseSlot.forall(_ == Environment.stamp(slot)) => false
      case Some(_) =>
        isAnotherLog(table) || states.stateAt(table.path, head).metadataId != table.tableId
      case None => isAnotherLog(table)
    }

  /** Whether a state is one of the entry's table, which the entry itself may have given another id. */
  def isOf(table: EntryTable, state: TableState, changes: => NetChanges): Boolean =
    state.metadataId == table.tableId ||
      (try changes.parts.flatMap(_.metaData).exists(_.id == state.metadataId)
      catch {
        case e: LakestepException if e.getCondition == "LAKESTEP_STAGED_COMMIT_LOST" => false
      })

  /** A conflict with a commit of others. */
  def conflict(
      rule: Rule,
      table: String,
      path: TableRef,
      commit: LogCommit,
      files: Vector[String]): Conflict = Conflict.overTable(rule, table, path, files).copy(
    version = Some(commit.version),
    operation = commit.info.flatMap(_.operation),
    user = commit.info.flatMap(_.user).orElse(commit.mark.flatMap(userOf)),
    timeMs = commit.info.flatMap(_.timestampMs),
    otherTransaction = commit.mark.map(_.transaction)
  )

  /** Who made the transaction of a mark, as its entry says. */
  private def userOf(mark: CommitMark): Option[String] =
    try
      Option.when(timeline.existingId.contains(mark.timeline))(timeline.status(mark.entry).entry)
        .collect {
          case c: CommitEntry if c.transaction.id == mark.transaction => c.transaction.user
        }
    catch { case NonFatal(_) => None }

  /** Makes files durable that somebody else put, so that what is built on them may be kept. */
  def keep(files: String*): Unit =
    if (options.syncDataFiles) files.foreach(file => stores.forPath(file).force(file))

  /**
   * Removes the staged commits of a transaction that has ended, never a data file. Idempotent; nobody
   * waits for it.
   *
   * @param first what is done before, as long as they can be read
   * @param more what is done then
   */
  def cleanUp(
      transaction: String,
      tables: Seq[TableRef],
      first: Seq[() => Unit] = Nil,
      more: Seq[() => Unit] = Nil): Unit = {
    def remove(table: TableRef): Unit =
      stores.forPath(table.uri).deleteFolder(table.staging(transaction))
    options.afterwards(
      first,
      Seq(() => observer.beforeCleanUp(transaction)),
      tables.map(table => () => remove(table)),
      more
    )
  }

  def hashOf(node: com.fasterxml.jackson.databind.JsonNode): String =
    Json.blake3(Json.canonical(node))

  /** A taken slot again and again, or a store without answers: the entry stays for the next client. */
  def unfinished(entry: CommitEntry, reason: String, cause: Option[Throwable] = None): Throwable =
    new LakestepException(
      "LAKESTEP_ENTRY_UNFINISHED",
      Map(
        "entry" -> entry.number.toString,
        "transaction" -> entry.transaction.id,
        "tables" -> entry.tables.map(_.name).mkString(", "),
        "reason" -> reason
      ),
      cause
    )
}

private[commit] object Environment {
  def stamp(slot: ListedCommit): SlotStamp = SlotStamp(slot.sizeBytes, slot.modifiedMs)
}
