package io.lakestep.log

import io.lakestep.storage.ObjectStore

/**
 * Reads states from commits and from checkpoints in the form of JSON lines, which
 * `JsonStates.checkpoint` writes; for tests and simulation.
 */
final class JsonStates(store: ObjectStore) extends StateReader {

  override def stateAt(tablePath: TableRef, version: Long): ReplayedState = {
    val log = new TableLog(store, tablePath)
    val checkpoint = log.tail(0).checkpoints.filter(_ <= version).lastOption
    val start = checkpoint.fold(ReplayedState.empty) { v =>
      val file = JsonStates.file(tablePath.uri, v)
      val bytes = store.get(file).getOrElse(throw new IllegalStateException(s"$file vanished"))
      ReplayedState.empty.next(LogCommit(v, TableLog.parse(file, bytes)))
    }
    (start.version + 1 to version).foldLeft(start) { (state, v) =>
      state.next(log.read(v).getOrElse(throw new IllegalStateException(s"no version $v")))
    }
  }
}

object JsonStates {
  private def file(table: String, version: Long) =
    f"${TableRef(table).log}/$version%020d.checkpoint.json"

  /** Writes a checkpoint of the head, and deletes nothing. */
  def checkpoint(store: ObjectStore, table: String): Long = {
    val log = new TableLog(store, TableRef(table))
    val head = log.tail(0).head.getOrElse(throw new IllegalStateException("no log"))
    val state = new JsonStates(store).stateAt(TableRef(table), head)
    val actions: Vector[Action] = state.protocolAction.toVector ++ state.header ++
      state.txns.map { case (app, v) => SetTransaction(app, v, 0L) } ++ state.domains.values ++
      state.files.values.map(_.add)
    store.putIfAbsent(file(table, head), TableLog.text(actions))
    head
  }

  /** Writes a checkpoint of the head and deletes every commit below it, as log clean-up does. */
  def cleanUp(store: ObjectStore, table: String): Long = {
    val head = checkpoint(store, table)
    val slots = new TableLog(store, TableRef(table)).tail(0).slots.map(_.version)
    slots.filter(_ < head).foreach(v => store.delete(TableRef(table).slot(v)))
    head
  }
}
