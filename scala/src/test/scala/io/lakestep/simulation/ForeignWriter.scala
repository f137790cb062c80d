package io.lakestep.simulation

import java.util.SplittableRandom

import scala.annotation.tailrec

import io.lakestep.log.{Action, LogCommit, ReplayedState, TableLog, TableRef}
import io.lakestep.storage.PutOutcome

/**
 * A client without Lakestep: walks the log by put-if-absent and knows nothing of marks.
 *
 * As every Delta writer it refuses a table whose protocol names a writer feature that it does not
 * know, also when it meets that protocol while it walks.
 *
 * @param heedsFence without it the simulation must notice
 */
final class ForeignWriter(
    world: World,
    client: SimulatedClient,
    random: SplittableRandom,
    heedsFence: Boolean) {

  private val states = new SimulatedStates(client)

  /** Makes one commit to a table, or gives up when the log moves too fast; makes it where there is none. */
  def commit(table: String): Unit = states.newest(table) match {
    case Some(head) =>
      def slots = world.store.list(TableRef(table).log, "0").map(f => f.name -> f.modifiedMs).toMap
      val before = slots
      val state = states.stateAt(TableRef(table), head)
      val after = slots
      // What it may build then is decision 7, "What is left".
      if (before.exists { case (slot, at) => after.get(slot).exists(_ != at) })
        world.counts.event("foreign read a slot that was put again")
      else walk(table, state, change(table, _), attempts = 6)
    case None => create(table)
  }

  private def create(table: String): Unit = {
    val number = world.token()
    (0 until Cells.Count).foreach(i => write(table, s"${Cells.cell(i)}-$number"))
    client.putIfAbsent(TableRef(table).slot(0), TableLog.text(Cells.first(table, number)))
    world.counts.event("foreign create")
  }

  @tailrec
  private def walk(
      table: String,
      state: ReplayedState,
      change: ReplayedState => (String, Vector[Action]),
      attempts: Int): Unit = if (heedsFence && refuses(state)) world.counts.event("foreign refused")
  else if (attempts > 0) {
    val (kind, actions) = change(state)
    val slot = state.version + 1
    val path = TableRef(table).slot(slot)
    val bytes = TableLog.text(actions)
    val created = client.putIfAbsent(path, bytes) match {
      case PutOutcome.Created => Some(true)
      case PutOutcome.AlreadyExists => Some(false)
      case PutOutcome.Unknown(_) => client.get(path).map(java.util.Arrays.equals(_, bytes))
    }
    created match {
      case Some(true) => world.counts.event(s"foreign $kind")
      case None => ()
      case Some(false) =>
        client.get(path) match {
          case Some(theirs) =>
            val next = state.next(LogCommit(slot, TableLog.parse(path, theirs)))
            walk(table, next, change, attempts - 1)
          case None => ()
        }
    }
  }

  private def refuses(state: ReplayedState): Boolean =
    state.protocol.writerFeatures.exists(!_.subsetOf(ForeignWriter.Known))

  /**
   * Deletes every file of the table, one after another in any order, as a recursive delete does;
   * half of the time makes another table in its place.
   */
  def drop(table: String): Unit = {
    world.dropped += table
    val files = world.store.below(table).map(f => random.nextInt() -> f).sortBy(_._1).map(_._2)
    files.foreach(client.delete)
    world.store.below(table).foreach(client.delete)
    world.counts.event("foreign drop")
    if (random.nextBoolean()) create(table)
  }

  /**
   * An append, a change of metadata, a rewrite of a cell, rows taken by a deletion vector, or a
   * compaction of one file, of what is live now.
   */
  private def change(table: String, state: ReplayedState): (String, Vector[Action]) = {
    val token = world.token()
    // A table that a transaction made, and took back, is empty.
    def file(compactable: Boolean) = {
      val all = state.files.values.map(_.add).toVector.sortBy(_.path)
        .filter(f => compactable || Cells.cellOf(f.path).isDefined)
      Option.when(all.nonEmpty)(all(random.nextInt(all.size)))
    }
    def append(): (String, Vector[Action]) = {
      val path = s"a-$token"
      write(table, path)
      "append" -> Vector(Cells.info("WRITE", blindAppend = true), Cells.add(path))
    }
    random.nextInt(14) match {
      case 10 if random.nextInt(2) == 0 =>
        val info = Cells.info("SET TBLPROPERTIES", blindAppend = false)
        "metadata" -> Vector(info, Cells.altered(state.metaData, token))
      case 11 | 12 | 13 =>
        Cells.taking(state, random) match {
          case Vector() => append()
          case taken =>
            val isUpdate = random.nextInt(3) == 0
            val path = s"a-$token"
            if (isUpdate) write(table, path)
            val info = Cells.info(if (isUpdate) "UPDATE" else "DELETE", blindAppend = false)
            "row delete" -> ((info +: taken) ++ Option.when(isUpdate)(Cells.add(path)))
        }
      case 0 | 1 | 2 | 3 | 10 => append()
      case n =>
        file(compactable = n == 9).fold(append()) { old =>
          val keep = n >= 8
          val path =
            if (keep) s"${old.path}~$token" else s"${Cells.cellOf(old.path).getOrElse("a")}-$token"
          write(table, path)
          val info = Cells.info(if (keep) "OPTIMIZE" else "UPDATE", blindAppend = false)
          val gone = Cells.deleted(old)
          (if (keep) "compaction" else "rewrite") -> Vector(
            info,
            Cells.remove(old.path, gone, dataChange = !keep),
            Cells.add(path, if (keep) gone else Set.empty, dataChange = !keep)
          )
        }
    }
  }

  private def write(table: String, path: String): Unit =
    world.store.create(TableRef(table).dataFile(path), Array.emptyByteArray, client.name)
}

object ForeignWriter {

  /** Writer features that it knows. */
  private val Known = Set("appendOnly", "invariants")
}
