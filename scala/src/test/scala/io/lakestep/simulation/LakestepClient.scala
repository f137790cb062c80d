package io.lakestep.simulation

import java.util.SplittableRandom

import scala.util.control.NonFatal

import io.lakestep.delta.{Action, ReplayedState, TableLog, TablePath}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.ReadSet
import io.lakestep.transaction.{
  BeginRequest, BegunTransaction, CommitOutcome, Database, IsolationLevel, ReadTable, WrittenTable
}

/**
 * One session of ours: begins, pins, stages and commits as a Spark session does, through the
 * product's own protocol code.
 */
final class LakestepClient(
    world: World,
    client: SimulatedClient,
    root: String,
    random: SplittableRandom,
    actor: Scheduler#Actor,
    open: SimulatedClient => Database) {

  private lazy val database = open(client)
  private lazy val states = new SimulatedStates(client)
  private var seenEntry = 0L
  private var seenVersions = Map.empty[String, Long]

  /** One transaction over several tables; what it did is recorded in the world. */
  def transaction(tables: Vector[String], isolation: IsolationLevel): Unit = {
    val begun = begin(readOnly = false, isolation)
    val pins = pin(begun, tables)
    // Under SERIALIZABLE the last table is sometimes only read.
    val readsOne = isolation == IsolationLevel.Serializable && random.nextInt(3) > 0
    val (written, read) = tables.splitAt(if (readsOne) tables.size - 1 else tables.size)
    val staged = written.flatMap(t => stage(begun, t, pins(t), isolation))
    if (staged.size == written.size && random.nextInt(20) > 0)
      commit(begun, staged, read.map(t => ReadTable(t, t, pins(t), ReadSet.WholeTable)))
    else {
      database.discard(begun, tables)
      world.counts.event("rollback")
    }
  }

  /** Takes a snapshot and reads every table of it. */
  def snapshot(tables: Vector[String], readOnly: Boolean): Unit = {
    val begun = begin(readOnly, IsolationLevel.Snapshot)
    val pins = pin(begun, tables)
    pins.foreach { case (t, version) => states.stateAt(t, version) }
    if (!readOnly) database.discard(begun, tables)
  }

  def recover(): Unit = {
    val report = database.recover()
    world.counts.event("helped entry", report.finished.size.toLong)
    if (report.failed.nonEmpty) world.counts.event("helping failed", report.failed.size.toLong)
  }

  /** As [[recover]]; gives what went wrong. */
  def recoverAll(): Vector[Throwable] = database.recover().failed.map(_._2)

  /** An update of a cell of every table, when nothing can conflict any more. */
  def probe(tables: Vector[String]): Option[CommitOutcome] = {
    val begun = begin(readOnly = false, IsolationLevel.Snapshot)
    val pins = pin(begun, tables)
    commit(
      begun,
      tables.flatMap(t => stage(begun, t, pins(t), IsolationLevel.Snapshot)),
      Vector.empty
    )
    world.attempts.lastOption.flatMap(_.answer)
  }

  /** Ends every transaction that has begun and has no entry, then deletes what it staged. */
  def collect(): Unit = {
    val found = client.list(s"$root/transactions", "t").map(_.name.stripSuffix(".json"))
    if (found.nonEmpty) {
      val ended = database.abort(found, "collected")
      world.counts.event("collected", ended.size.toLong)
      ended.foreach(collectFiles)
    }
  }

  private def collectFiles(id: String): Unit = world.tables.foreach { table =>
    val folder = TablePath.staging(table, id)
    val staged = client.list(folder, "0").map(f => s"$folder/${f.name}")
    val files = staged.flatMap(f => client.get(f).toVector.flatMap(TableLog.parse(f, _))).collect {
      case a: io.lakestep.delta.AddFile => a.path
    }
    client.deleteFolder(folder)
    files.foreach(f => client.delete(TablePath.dataFile(table, f)))
  }

  private var begunAt = 0

  private def begin(readOnly: Boolean, isolation: IsolationLevel): BegunTransaction = {
    begunAt = world.scheduler.step
    val begun = database.begin(
      BeginRequest(None, "user", client.name, isolation, readOnly, notBefore = seenEntry)
    )
    if (begun.snapshot < seenEntry)
      world.violated(s"I4 ${client.name} went back from entry $seenEntry to ${begun.snapshot}")
    seenEntry = begun.snapshot
    begun
  }

  private def pin(begun: BegunTransaction, tables: Vector[String]): Map[String, Long] = {
    val from = begunAt
    val pins = tables.map { t =>
      val version = database.pin(begun, t, notBelow = seenVersions.getOrElse(t, -1L))
      if (version < seenVersions.getOrElse(t, -1L))
        world.violated(s"I4 ${client.name} went back to version $version of $t")
      seenVersions += t -> version
      t -> version
    }.toMap
    world.saw(SeenSnapshot(client.name, root, from, !begun.readOnly, begun.snapshot, pins))
    pins
  }

  /** Stages what a statement or two would stage; nothing when the store did not keep it. */
  private def stage(
      begun: BegunTransaction,
      table: String,
      pin: Long,
      isolation: IsolationLevel): Option[(PlannedWrite, WrittenTable)] = {
    val state = states.stateAt(table, pin)
    val (commits, twoParts) = statements(state)
    val kept = commits.zipWithIndex.forall { case (actions, i) =>
      actions.collect { case a: io.lakestep.delta.AddFile => a.path }.foreach { path =>
        world.store.create(TablePath.dataFile(table, path), Array.emptyByteArray, client.name)
      }
      val path = TablePath.stagedSlot(table, begun.id, pin + 1 + i)
      client.putIfAbsent(path, TableLog.text(actions)) match {
        case PutOutcome.Unknown(_) => client.exists(path)
        case outcome => outcome == PutOutcome.Created
      }
    }
    Option.when(kept)(plan(table, pin, state, commits, twoParts, isolation))
  }

  private def plan(
      table: String,
      pin: Long,
      state: ReplayedState,
      commits: Vector[Vector[Action]],
      twoParts: Boolean,
      isolation: IsolationLevel): (PlannedWrite, WrittenTable) = {
    import io.lakestep.delta.{AddFile, MetaData, RemoveFile}
    val adds = commits.flatten.collect { case a: AddFile => a.path }.toSet
    val removes = commits.flatten.collect { case r: RemoveFile => r.path }.toSet
    val appends = removes.isEmpty
    val changesHeader = commits.flatten.exists(_.isInstanceOf[MetaData])
    val parts = if (twoParts) commits.size else 1
    val netAdds = if (parts > 1) adds else adds -- removes
    val netRemoves = if (parts > 1) removes else removes -- adds
    val readsAll = isolation == IsolationLevel.Serializable && !appends
    (
      PlannedWrite(table, pin, netRemoves, netAdds, parts, readsAll, changesHeader),
      WrittenTable(
        path = table,
        name = table,
        tableId = state.metadataId,
        pin = pin,
        stagedTo = Some(pin + commits.size),
        pinned = Some(
          io.lakestep.delta.PinnedHeader(state.metaData, state.protocol, state.domains.keySet)
        ),
        oneCommit = !twoParts,
        reads = Option.when(!appends)(ReadSet.WholeTable)
      )
    )
  }

  /** An append, an update of a cell, both, or two updates that make one commit or two. */
  private def statements(state: ReplayedState): (Vector[Vector[Action]], Boolean) = {
    def append = Vector[Action](
      Cells.info("WRITE", blindAppend = true),
      Cells.add(s"a-${world.token()}")
    )
    def update(old: String) = {
      val next = s"${old.takeWhile(_ != '-')}-${world.token()}"
      (
        Vector[Action](
          Cells.info("UPDATE", blindAppend = false),
          Cells.remove(old),
          Cells.add(next)
        ),
        next
      )
    }
    def cell = {
      val cells = state.files.keys.filter(Cells.cellOf(_).isDefined).toVector.sorted
      cells(random.nextInt(cells.size))
    }
    random.nextInt(13) match {
      case 12 =>
        val alter = Cells.info("SET TBLPROPERTIES", blindAppend = false)
        (Vector(Vector(alter, Cells.altered(state.metaData, world.token())), append), false)
      case 0 | 1 | 2 | 3 => (Vector(append), false)
      case 4 | 5 | 6 | 7 => (Vector(update(cell)._1), false)
      case 8 => (Vector(update(cell)._1, append), false)
      case 9 => (Vector(append, update(cell)._1), random.nextBoolean())
      case 10 =>
        val (first, next) = update(cell)
        (Vector(first, update(next)._1), random.nextBoolean())
      case _ => (Vector(append, append), true)
    }
  }

  private def commit(
      begun: BegunTransaction,
      staged: Vector[(PlannedWrite, WrittenTable)],
      reads: Vector[ReadTable]): Unit = {
    val attempt =
      new Attempt(
        client.name,
        root,
        begun.id,
        staged.map(_._1),
        reads.map(r => r.path -> r.pin).toMap
      )
    world.tries(attempt)
    val tables = staged.map(_._1.table) ++ reads.map(_.path)
    // As a session does: what throws has no entry, and what conflicts without one has none.
    def discard(): Unit =
      try database.discard(begun, tables)
      catch { case NonFatal(_) => () }
    val answer =
      try database.commit(begun, staged.map(_._2), reads)
      catch {
        case NonFatal(e) =>
          discard()
          throw e
      }
    attempt.answer = Some(answer)
    attempt.answeredAt = world.scheduler.step
    answer match {
      case c: CommitOutcome.Committed =>
        seenEntry = seenEntry.max(c.entry.number)
        seenVersions = seenVersions ++ c.versions
      case CommitOutcome.Conflicted(_, None) => discard()
      case _ => ()
    }
    actor.yieldNow()
  }
}
