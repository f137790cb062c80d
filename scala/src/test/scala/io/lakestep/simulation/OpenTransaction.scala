package io.lakestep.simulation

import java.util.SplittableRandom

import io.lakestep.LakestepException
import io.lakestep.commit.{
  BegunTransaction, Database, FirstTouch, IsolationLevel, Pin, ReadTable, Rerun, WrittenTable
}
import io.lakestep.log.{
  Action, AddFile, ForeignWriters, LogCommit, MetaData, PinnedHeader, ReadSet, RemoveFile,
  ReplayedState, TableLog, TableRef
}
import io.lakestep.storage.PutOutcome

/** A statement of a transaction: it writes a table, or only reads it. */
final case class Statement(table: String, writes: Boolean)

/**
 * A transaction of a session: its statements one after another, each of which pins its table at
 * first touch and stages commits there, as Delta does in an overlay.
 *
 * @param named the path by which the session knows a table
 * @param seen the newest version of a table that the session has met
 */
final class OpenTransaction(
    world: World,
    client: SimulatedClient,
    random: SplittableRandom,
    database: Database,
    states: SimulatedStates,
    named: String => String,
    seen: String => Long,
    statements: Vector[Statement],
    begun: BegunTransaction) {

  /**
   * @param statement the first one on the table
   * @param state what the transaction sees of the table
   * @param staged commits, each with its statement; the first one may be there for Delta alone
   */
  private case class Touched(
      table: String,
      pin: Pin,
      statement: Int,
      pinned: ReplayedState,
      state: ReplayedState,
      staged: Vector[(Int, Vector[Action])],
      twoParts: Boolean) {
    def commits: Vector[Vector[Action]] =
      staged.map(_._2).filterNot(c => ForeignWriters.isStaging(LogCommit(0, c)))
    def last: Long = pin.version + staged.size
    def isNew: Boolean = pin == Pin.None
  }

  private var current = begun
  private var touched = Vector.empty[Touched]

  def txn: BegunTransaction = current
  def pins: Map[String, Long] = touched.map(t => t.table -> t.pin.version).toMap

  /** Whether a table was known to belong to a timeline when it was pinned. */
  def isBound(table: String): Boolean =
    touched.exists(t => t.table == table && t.pin.log.isDefined)
  def paths: Vector[String] = statements.map(s => named(s.table)).distinct

  /** Runs the statements from a number on. False when the store did not keep what one staged. */
  def run(from: Int): Boolean = (from until statements.size).forall { number =>
    val statement = statements(number)
    val table = touched.find(_.table == statement.table).getOrElse(touch(statement.table, number))
    !statement.writes || write(table, number)
  }

  private def touch(table: String, statement: Int): Touched = {
    val pin =
      try database.pinned(current, TableRef(named(table)), notBelow = seen(table))
      catch { case e: LakestepException if e.getCondition == "LAKESTEP_NOT_A_TABLE" => Pin.None }
    val state =
      if (pin == Pin.None) ReplayedState.empty
      else states.stateAt(TableRef(named(table)), pin.version)
    val met = Touched(table, pin, statement, state, state, Vector.empty, twoParts = false)
    touched = touched :+ met
    met
  }

  private def write(table: Touched, number: Int): Boolean = {
    val isFirst = table.staged.isEmpty
    val (commits, twoParts) =
      if (!isFirst) (Vector(append), false)
      else if (table.isNew) (make(table.table), false)
      else work(table.state)
    val staging =
      Option.when(isFirst && !table.isNew && ForeignWriters.isFenced(table.state.protocol))(
        ForeignWriters.staging(table.state.protocol, None)
      )
    (staging.toVector ++ commits).forall(stage(table.table, number, _, twoParts))
  }

  private def stage(
      table: String,
      number: Int,
      actions: Vector[Action],
      twoParts: Boolean): Boolean = {
    val at = touched.indexWhere(_.table == table)
    val before = touched(at)
    actions.collect { case a: AddFile if !before.state.files.contains(a.path) => a.path }
      .foreach { path =>
        world.store.create(TableRef(table).dataFile(path), Array.emptyByteArray, client.name)
      }
    val version = before.last + 1
    val file = TableRef(named(table)).stagedSlot(current.id, version)
    val isKept = client.putIfAbsent(file, TableLog.text(actions)) match {
      case PutOutcome.Unknown(_) => client.exists(file)
      case outcome => outcome == PutOutcome.Created
    }
    touched = touched.updated(
      at,
      before.copy(
        state = before.state.next(LogCommit(version, actions)),
        staged = before.staged :+ (number -> actions),
        twoParts = before.twoParts || twoParts
      )
    )
    isKept
  }

  private def append: Vector[Action] = Vector(
    Cells.info("WRITE", blindAppend = true),
    Cells.add(s"a-${world.token()}")
  )

  /** CREATE TABLE AS; the same with a DELETE of rows; or CREATE TABLE and an INSERT. */
  private def make(table: String): Vector[Vector[Action]] = {
    world.counts.event("transaction that makes a table")
    val first = Cells.first(table, world.token())
    val (files, header) = first.partition(_.isInstanceOf[AddFile])
    random.nextInt(3) match {
      case 0 => Vector(first)
      case 1 => Vector(first, take(ReplayedState.empty.next(LogCommit(0, first))))
      case _ => Vector(header, Cells.info("WRITE", blindAppend = true) +: files)
    }
  }

  /** Rows taken out of files, as a DELETE or an UPDATE does; an append where there are none. */
  private def take(from: ReplayedState): Vector[Action] = Cells.taking(from, random) match {
    case Vector() => append
    case rows =>
      val isUpdate = random.nextBoolean()
      val info = Cells.info(if (isUpdate) "UPDATE" else "DELETE", blindAppend = false)
      (info +: rows) ++ Option.when(isUpdate)(Cells.add(s"a-${world.token()}"))
  }

  /**
   * What a statement or two stage: an append, an update of a cell, both, two updates that make one
   * commit or two, rows taken out of files, other metadata, or another mode of foreign writers.
   */
  private def work(state: ReplayedState): (Vector[Vector[Action]], Boolean) = {
    val cells = state.files.values.map(_.add).filter(f => Cells.cellOf(f.path).isDefined)
      .toVector.sortBy(_.path)
    def update(old: AddFile) = {
      val next = Cells.add(s"${old.path.takeWhile(_ != '-')}-${world.token()}")
      val info = Cells.info("UPDATE", blindAppend = false)
      (Vector[Action](info, Cells.remove(old.path, Cells.deleted(old)), next), next)
    }
    def cell = cells(random.nextInt(cells.size))
    random.nextInt(21) match {
      case 0 | 1 | 2 | 3 => (Vector(append), false)
      // A table that a transaction made, and took back, is empty.
      case 4 | 5 | 6 | 7 | 8 | 9 if cells.isEmpty => (Vector(append), false)
      case 4 | 5 | 6 => (Vector(update(cell)._1), false)
      case 7 => (Vector(update(cell)._1, append), false)
      case 8 => (Vector(append, update(cell)._1), random.nextBoolean())
      case 9 =>
        val (first, next) = update(cell)
        (Vector(first, update(next)._1), random.nextBoolean())
      case 10 => (Vector(append, append), true)
      case 11 =>
        (Vector(alter(Cells.altered(state.metaData, world.token())), append), false)
      case 12 =>
        (Vector(switch(state.metaData)) ++ Option.when(random.nextBoolean())(append), false)
      case 13 =>
        val first = take(state)
        (Vector(first, take(state.next(LogCommit(0, first)))), random.nextInt(3) == 0)
      case _ => (Vector(take(state)), false)
    }
  }

  private def alter(metaData: MetaData): Vector[Action] =
    Vector(Cells.info("SET TBLPROPERTIES", blindAppend = false), metaData)

  private def switch(now: MetaData): Vector[Action] = {
    val others = Vector(ForeignWriters.Allow, ForeignWriters.Reserve, ForeignWriters.Forbid)
      .filterNot(_ == ForeignWriters.mode(now))
    val mode = others(random.nextInt(others.size))
    val isUnset = mode == ForeignWriters.Allow && random.nextBoolean()
    val info =
      Cells.info(if (isUnset) "UNSET TBLPROPERTIES" else "SET TBLPROPERTIES", blindAppend = false)
    val name = s""""${ForeignWriters.Property}""""
    info.body.putObject("operationParameters")
      .put("properties", if (isUnset) s"[$name]" else s"""{$name:"$mode"}""")
    val next = now.withProperty(ForeignWriters.Property, Option.unless(isUnset)(mode))
    Vector(info, next)
  }

  /** Step 13 (c) and (d): takes the statements from the first one on that is run again back. */
  def rewind(rerun: Rerun): Unit = {
    touched.foreach { t =>
      val kept = t.staged.takeWhile(_._1 < rerun.statement)
      val gone = t.pin.version + kept.size + 1 to t.last
      database.dropStaged(current, TableRef(named(t.table)), gone)
    }
    touched = touched.filter(_.statement < rerun.statement).map { t =>
      val kept = t.staged.takeWhile(_._1 < rerun.statement)
      val state = kept.zipWithIndex.foldLeft(t.pinned) { case (s, ((_, actions), i)) =>
        s.next(LogCommit(t.pin.version + 1 + i, actions))
      }
      t.copy(
        staged = kept,
        state = state,
        twoParts = t.twoParts && kept.size == t.staged.size
      )
    }
    current = rerun.txn
  }

  def touches: Vector[FirstTouch] =
    touched.map(t => FirstTouch(TableRef(named(t.table)), t.pin, t.statement))

  /** What COMMIT is called with, each table with what it is to do. */
  def written: Vector[(PlannedWrite, WrittenTable)] =
    touched.filter(_.staged.nonEmpty).map(t => (plan(t), writtenTable(t)))

  def onlyRead: Vector[ReadTable] = touched.filter(t => t.staged.isEmpty && !t.isNew)
    .map(t =>
      ReadTable(TableRef(named(t.table)), t.table, t.pin.version, ReadSet.WholeTable, Some(t.pin))
    )

  private def writtenTable(t: Touched): WrittenTable = WrittenTable(
    path = TableRef(named(t.table)),
    name = t.table,
    tableId = (if (t.isNew) t.state else t.pinned).metadataId,
    pin = t.pin.version,
    stagedTo = t.last,
    pinned = Option.unless(t.isNew)(
      PinnedHeader(t.pinned.metaData, t.pinned.protocol, t.pinned.domains.keySet)
    ),
    oneCommit = !t.twoParts,
    reads = Option.unless(isAppend(t))(ReadSet.WholeTable),
    pinnedAs = Some(t.pin)
  )

  private def isAppend(t: Touched) = !t.commits.flatten.exists(_.isInstanceOf[RemoveFile])

  private def isForbidden(state: ReplayedState) =
    ForeignWriters.mode(state.metaData) == ForeignWriters.Forbid

  private def plan(t: Touched): PlannedWrite = {
    val actions = t.commits.flatten
    val states = t.commits.scanLeft(t.pinned)((s, c) => s.next(LogCommit(s.version + 1, c)))
      .map(_.files.map { case (path, f) => path -> Cells.deleted(f.add) })
    val steps = if (t.twoParts) states else Vector(states.head, states.last)
    val (before, after) = (states.head, states.last)
    val removes = before.collect { case (p, gone) if !after.get(p).contains(gone) => p }.toSet
    val adds = after.collect { case (p, gone) if !before.get(p).contains(gone) => p }.toSet
    PlannedWrite(
      table = t.table,
      pin = t.pin.version,
      removes =
        if (t.twoParts) actions.collect { case r: RemoveFile => r.path }.toSet else removes,
      adds = if (t.twoParts) actions.collect { case a: AddFile => a.path }.toSet else adds,
      vectors =
        if (t.twoParts) Map.empty
        else removes.intersect(adds).map(p => p -> Vectors(before(p), after(p))).toMap,
      parts = steps.zip(steps.tail).map { case (from, to) => RowChange.between(from, to) },
      readsAll = current.isolation == IsolationLevel.Serializable && !isAppend(t),
      changesHeader = actions.exists(_.isInstanceOf[MetaData]),
      opens = !t.isNew && isForbidden(t.pinned) && !isForbidden(t.state)
    )
  }
}
