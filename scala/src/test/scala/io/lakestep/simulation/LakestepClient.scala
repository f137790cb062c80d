package io.lakestep.simulation

import java.util.SplittableRandom

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.lakestep.commit.{
  BeginRequest, BegunTransaction, CommitOutcome, Database, IsolationLevel, ReadNames
}
import io.lakestep.log.{AddFile, RemoveFile, TableLog, TableRef}
import io.lakestep.timeline.{BatchKey, Conflict, NameChange, NameKey, Purge}

/**
 * One session of ours: begins, pins, stages and commits as a Spark session does, through the
 * product's own protocol code.
 *
 * @param named the path by which the session knows a table
 * @param names its metastore, if it has one
 */
final class LakestepClient(
    world: World,
    client: SimulatedClient,
    root: String,
    random: SplittableRandom,
    actor: Scheduler#Actor,
    protections: Protections,
    named: String => String,
    open: SimulatedClient => Database,
    names: Option[NamesOfSession] = None) {

  private lazy val database = open(client)

  /** Another thread of the same process, with a session of its own. */
  def twin(random: SplittableRandom, actor: Scheduler#Actor): LakestepClient = new LakestepClient(
    world,
    client,
    root,
    random,
    actor,
    protections,
    named,
    _ => database,
    names
  )

  private lazy val states = new SimulatedStates(client)
  private var seenEntry = 0L
  private var seenDrops = 0
  private var takenAt = 0
  private var seenVersions = Map.empty[String, Long]

  /** One transaction over several tables; what it did is recorded in the world. */
  def transaction(tables: Vector[String], isolation: IsolationLevel): Unit = {
    world.counts.event("transaction")
    // Under SERIALIZABLE the last table is sometimes only read.
    val readsOne = isolation == IsolationLevel.Serializable && random.nextInt(3) > 0
    val first = tables.zipWithIndex.map { case (t, i) =>
      Statement(t, writes = !readsOne || i < tables.size - 1)
    }
    val more = Option.when(random.nextInt(4) == 0)(Statement(tables.head, writes = true))
    val from = world.scheduler.step
    // As a driver of a stream does, or a second one, or one that has lost its checkpoint.
    val batch = Option.when(random.nextInt(4) == 0)(world.batches(root) + random.nextInt(2))
    val txn = begun(begin(readOnly = false, isolation, batch), first ++ more)
    val isKept = txn.run(0)
    saw(txn, from)
    val replays = txn.txn.replays
    for (entry <- replays; number <- batch)
      world.saw(SeenReplay(client.name, root, number, entry))
    if (isKept && replays.isEmpty && random.nextInt(20) > 0) {
      commit(txn, reruns = 2)
      ()
    } else {
      database.discard(txn.txn, txn.paths.map(TableRef(_)))
      world.counts.event("rollback")
    }
  }

  private def begun(txn: BegunTransaction, statements: Vector[Statement]): OpenTransaction =
    new OpenTransaction(
      world,
      client,
      random,
      database,
      states,
      named,
      seenVersions.getOrElse(_, -1L),
      statements,
      txn
    )

  private def saw(txn: OpenTransaction, from: Int): Unit = sees(txn.txn, from, txn.pins)

  private def sees(txn: BegunTransaction, from: Int, pins: Map[String, Long]): Unit = {
    pins.foreach { case (t, version) =>
      if (version < seenVersions.getOrElse(t, -1L) && !world.dropped(t))
        world.violated(s"I4 ${client.name} went back to version $version of $t")
      seenVersions += t -> version
    }
    world.saw(SeenSnapshot(client.name, root, from, takenAt, !txn.readOnly, txn.snapshot, pins))
  }

  /** Takes a snapshot and reads every table of it. */
  def snapshot(tables: Vector[String], readOnly: Boolean, isolation: IsolationLevel): Unit = {
    val from = world.scheduler.step
    val txn = begun(begin(readOnly, isolation), tables.map(Statement(_, writes = false)))
    txn.run(0)
    saw(txn, from)
    if (!readOnly) database.discard(txn.txn, txn.paths.map(TableRef(_)))
  }

  /**
   * A transaction that means its tables by their names, and changes names.
   *
   * @param makeable tables that it may make
   */
  def transactionOverNames(
      isolation: IsolationLevel,
      makeable: Vector[String],
      readOnly: Boolean = false): Unit = names.foreach { session =>
    val from = world.scheduler.step
    val txn = begin(readOnly, isolation)
    val names = session.of(database, txn)
    val makes =
      Option.when(!readOnly && makeable.nonEmpty && random.nextInt(3) == 0)(makeable.head)
    val met = names.meet().map(Statement(_, writes = !readOnly && random.nextInt(3) > 0))
    val tables = met ++ makes.filterNot(m => met.exists(_.table == m)).map(Statement(_, !readOnly))
    val opened = begun(txn, tables)
    val isKept = opened.run(0)
    saw(opened, from)
    val isConfirmed = names.confirm(opened.isBound)
    names.saw(client.name)
    if (!readOnly) {
      (0 to random.nextInt(3)).foreach(i => names.statement(makes.filter(_ => i == 0)))
      val changes = names.changes
      val isEmpty = opened.written.isEmpty && changes.isEmpty
      if (isKept && isConfirmed && !isEmpty && random.nextInt(20) > 0) {
        val read = if (txn.isSerializable) names.read else Set.empty[NameKey]
        commit(opened, reruns = 0, changes, read)
      } else discard(opened)
      ()
    }
  }

  /**
   * A query outside a transaction, which reads several names, and the tables that they stand for.
   *
   * @param isLast whether nobody changes anything any more
   */
  def queryOfNames(isLast: Boolean = false): Unit = {
    database.lookForNames()
    names.flatMap(_.ofQuery(database)).foreach { names =>
      val tables = names.meet()
      names.saw(client.name, isLast, query(tables, names.ofQuery, names.from))
    }
  }

  /**
   * VACUUM DROPPED TABLES.
   *
   * @param isLast whether nothing goes wrong, and nobody else is there
   */
  def vacuumDropped(isLast: Boolean = false): Unit = {
    def now(percent: Int) = isLast || random.nextInt(100) < percent
    if (!now(30)) actor.await(() => world.purges.drops > seenDrops)
    // Those that were open then are to end.
    if (!now(30)) actor.sleep(random.nextInt(150))
    seenDrops = world.purges.drops
    val txn = begin(readOnly = false, IsolationLevel.Snapshot)
    world.purges.looks(txn.id)
    val isDecided =
      try {
        val old = database.oldDropped(txn, retainMs = 0)
        for (reason <- old.flatMap(_.kept))
          world.counts.event(s"dropped table that is kept: ${reason.split(' ').last}")
        val purges = old.filter(_.kept.isEmpty).map(_.purge)
        if (!now(70)) actor.sleep(random.nextInt(200))
        if (purges.isEmpty) database.discard(txn, Nil)
        purges.isEmpty || commit(txn, purges)
      } catch {
        case NonFatal(e) =>
          database.discard(txn, Nil)
          throw e
      }
    if (!now(60)) actor.sleep(random.nextInt(400))
    if (isDecided && now(80)) world.purges.by(client.name)(database.purge())
  }

  private def commit(txn: BegunTransaction, purges: Vector[Purge]): Boolean = {
    val attempt = new Attempt(
      client.name,
      root,
      txn.id,
      Vector.empty,
      Map.empty,
      txn.snapshot,
      Vector.empty,
      Set.empty,
      None,
      purges
    )
    world.tries(attempt)
    val answer = database.commit(txn, Nil, purges = purges)
    attempt.answer = Some(answer)
    attempt.answeredAt = world.scheduler.step
    answer match {
      case CommitOutcome.Committed(entry, _, _, _, _, _) =>
        seenEntry = seenEntry.max(entry.number)
        true
      case _: CommitOutcome.Conflicted =>
        world.counts.event("purge that conflicts")
        database.discard(txn, Nil)
        false
      case _ => false
    }
  }

  /** Whether the process is about to make names. */
  def isMakingNames: Boolean = names.exists(_.isMaking)

  /** The tables that have lost their names. */
  def dropped: Set[String] = database.dropped().flatMap(_.table.path).map(_.uri).toSet

  /**
   * Step 12: a query outside a transaction, which reads several tables.
   *
   * @param names what it has met as their names
   * @param from when it began
   * @return the version of each table that was there
   */
  def query(
      tables: Vector[String],
      names: Option[ReadNames] = None,
      from: Int = world.scheduler.step): Map[String, Long] = {
    def isBound(table: String) = client.get(TableRef(named(table)).binding).isDefined
    val early = if (protections.loadsFirst) tables else tables.filter(isBound)
    // Of a table that nobody has made yet there is no query.
    val loaded = tables.flatMap { t =>
      states.newest(named(t)).map { head =>
        states.stateAt(TableRef(named(t)), head)
        t -> head
      }
    }.toMap
    val asked = early.filter(loaded.contains).map(t => named(t) -> loaded(t)).toMap
    val found = if (asked.isEmpty) asked
    else
      database.consistent(asked.map { case (t, v) => TableRef(t) -> v }, names = names).map {
        case (t, v) => t.uri -> v
      }
    val versions = loaded ++
      early.filter(loaded.contains).map(t => t -> found(named(t)))
    versions.foreach { case (t, version) => states.stateAt(TableRef(named(t)), version) }
    world.counts.event(if (versions == loaded) "query as loaded" else "query of other versions")
    world.saw(SeenQuery(client.name, root, from, versions))
    versions
  }

  /** Step 12: a statement outside a transaction that writes a table, as Delta itself does. */
  def statement(table: String, delta: ForeignWriter): Unit = {
    database.helpBeforeWrite(TableRef(named(table)))
    delta.commit(table)
    world.counts.event("statement outside a transaction")
  }

  private def describe(id: String): Unit =
    world.saw(SeenStatus(client.name, id, database.describe(id)))

  private def requested: Vector[String] =
    client.list(s"$root/transactions", "t").map(_.name.stripSuffix(".json"))

  /** SHOW TRANSACTIONS, and DESCRIBE of one of them. */
  def describe(): Unit = {
    val open = requested
    if (open.nonEmpty) describe(open(random.nextInt(open.size)))
  }

  def recover(): Unit = {
    val report = database.recover()
    world.counts.event("helped entry", report.finished.size.toLong)
    if (report.failed.nonEmpty) world.counts.event("helping failed", report.failed.size.toLong)
  }

  /** As [[recover]]; gives what went wrong. */
  def recoverAll(): Vector[Throwable] = database.recover().failed.map(_._2)

  /** A transaction over every table, when nothing can conflict any more. */
  def probe(tables: Vector[String]): Option[CommitOutcome] = {
    val from = world.scheduler.step
    val all = tables.map(Statement(_, writes = true))
    val txn = begun(begin(readOnly = false, IsolationLevel.Snapshot), all)
    txn.run(0)
    saw(txn, from)
    commit(txn, reruns = 0)
  }

  /** Ends every transaction that has begun and has no entry, then deletes what it staged. */
  def collect(): Unit = {
    val found = requested
    if (found.nonEmpty) {
      val ended = database.abort(found, "collected")
      world.counts.event("collected", ended.size.toLong)
      ended.foreach(collectFiles)
    }
  }

  private def collectFiles(id: String): Unit = world.tables.foreach { table =>
    val folder = TableRef(table).staging(id)
    val staged = client.list(folder, "0").map(f => s"$folder/${f.name}")
    val actions = staged.flatMap(f => client.get(f).toVector.flatMap(TableLog.parse(f, _)))
    // A file that only gets a deletion vector is not the transaction's own.
    val older = actions.collect { case r: RemoveFile => r.path }.toSet
    val files = actions.collect { case a: AddFile => a.path }.filterNot(older).distinct
    client.deleteFolder(folder)
    files.foreach(f => client.delete(TableRef(table).dataFile(f)))
  }

  private def begin(
      readOnly: Boolean,
      isolation: IsolationLevel,
      batch: Option[Long] = None): BegunTransaction = {
    val key = batch.map(b => BatchKey("q", Some(b)))
    val begun = database.begin(
      BeginRequest(None, "user", client.name, isolation, readOnly, notBefore = seenEntry, key)
    )
    sawEntry(begun.snapshot)
    client.decidedAt(begun.id).foreach(takenAt = _)
    begun
  }

  private def sawEntry(snapshot: Long): Unit = {
    if (snapshot < seenEntry)
      world.violated(s"I4 ${client.name} went back from entry $seenEntry to $snapshot")
    seenEntry = snapshot
    takenAt = world.scheduler.step
  }

  /** COMMIT, and again after a conflict that leaves something to go on with. */
  @tailrec
  private def commit(
      txn: OpenTransaction,
      reruns: Int,
      changes: Vector[NameChange] = Vector.empty,
      readNames: Set[NameKey] = Set.empty): Option[CommitOutcome] = {
    val staged = txn.written
    val reads = txn.onlyRead.filter(_ => txn.txn.isolation == IsolationLevel.Serializable)
    val attempt = new Attempt(
      client.name,
      root,
      txn.txn.id,
      staged.map(_._1),
      reads.map(r => r.name -> r.pin).toMap,
      txn.txn.snapshot,
      changes,
      readNames,
      txn.txn.batch.flatMap(_.batch)
    )
    world.tries(attempt)
    val answer =
      try database.commit(txn.txn, staged.map(_._2), reads, changes, readNames)
      catch {
        case NonFatal(e) =>
          discard(txn)
          throw e
      }
    attempt.answer = Some(answer)
    attempt.answeredAt = world.scheduler.step
    val goesOn = answer match {
      case c: CommitOutcome.Committed =>
        seenEntry = seenEntry.max(c.entry.number)
        if (changes.exists(_.after.isEmpty)) world.purges.drops += 1
        for (batch <- attempt.batch)
          world.batches = world.batches.updated(root, world.batches(root).max(batch))
        seenVersions = seenVersions ++ c.published.collect {
          case (t, slots) if slots.nonEmpty => Alias.real(t.uri) -> slots.last
        }
        false
      case CommitOutcome.Conflicted(conflict, None) =>
        val goesOn = reruns > 0 && conflict.rule.isOverData &&
          random.nextInt(4) > 0 && rerun(txn, attempt, conflict)
        if (!goesOn) discard(txn)
        goesOn
      case CommitOutcome.NothingToCommit =>
        discard(txn)
        false
      case _: CommitOutcome.Unknown if random.nextBoolean() =>
        describe(txn.txn.id)
        false
      case _ => false
    }
    actor.yieldNow()
    if (goesOn) commit(txn, reruns - 1, changes, readNames) else Some(answer)
  }

  /** As a session does: what throws has no entry, and what conflicts without one has none. */
  private def discard(txn: OpenTransaction): Unit =
    try database.discard(txn.txn, txn.paths.map(TableRef(_)))
    catch { case NonFatal(_) => () }

  /** Step 13. False when there is nothing to go on with. */
  private def rerun(txn: OpenTransaction, attempt: Attempt, conflict: Conflict): Boolean = {
    val from = world.scheduler.step
    database.rerun(txn.txn, txn.touches, conflict).exists { rerun =>
      world.counts.event("rerun")
      if (rerun.statement > 0) world.counts.event("rerun that keeps statements")
      attempt.isRunAgain = true
      sawEntry(rerun.txn.snapshot)
      txn.rewind(rerun)
      val isKept = txn.run(rerun.statement)
      saw(txn, from)
      isKept
    }
  }
}
