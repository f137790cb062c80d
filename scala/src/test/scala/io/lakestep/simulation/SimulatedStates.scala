package io.lakestep.simulation

import io.lakestep.log.{
  DomainMetadata, LogCommit, ReplayedState, SetTransaction, StateReader, TableLog, TableRef
}
import io.lakestep.storage.ObjectStore

/** The version asked for is not there any more. */
final class VersionGone(message: String) extends RuntimeException(message)

/** Reads states from checkpoints, as [[write]] makes them, and the commits after them. */
final class SimulatedStates(store: ObjectStore) extends StateReader {
  import SimulatedStates._

  override def stateAt(table: TableRef, version: Long): ReplayedState = {
    if (version < 0) throw new VersionGone(s"$table has no version $version")
    val files = store.list(table.log, "0").map(_.name)
    val checkpoint = files.collect { case n if n.endsWith(Suffix) => n.take(20).toLong }
      .filter(_ <= version)
      .maxOption
    val start = checkpoint.fold(ReplayedState.empty)(v => read(checkpointPath(table.uri, v), v))
    (start.version + 1 to version).foldLeft(start) { (state, v) =>
      val path = table.slot(v)
      val bytes =
        store.get(path).getOrElse(throw new VersionGone(s"$path, needed for $version, is gone"))
      state.next(LogCommit(v, TableLog.parse(path, bytes)))
    }
  }

  /** The newest version, by a listing. */
  def head(table: String): Long =
    newest(table).getOrElse(throw new VersionGone(s"$table is no table"))

  /** As [[head]], also where there is no table. */
  def newest(table: String): Option[Long] =
    store
      .list(TableRef(table).log, "0")
      .map(_.name)
      .collect { case n if n.endsWith(Suffix) || SlotName.matches(n) => n.take(20).toLong }
      .maxOption

  private def read(path: String, version: Long): ReplayedState = {
    val bytes = store.get(path).getOrElse(throw new VersionGone(s"$path is gone"))
    ReplayedState.empty.next(LogCommit(version, TableLog.parse(path, bytes)))
  }
}

object SimulatedStates {
  private val Suffix = ".checkpoint.parquet"
  private val SlotName = """\d{20}\.json""".r

  def checkpointPath(table: String, version: Long): String =
    f"${TableRef(table).log}/$version%020d$Suffix"

  /** The content of a checkpoint: the actions that make the state, in the order of names. */
  def write(state: ReplayedState): Array[Byte] = TableLog.text(
    state.header.toVector ++ state.protocolAction ++
      state.txns.toVector.sorted.map { case (id, v) => SetTransaction(id, v, 0L) } ++
      state.domains.values.toVector.sortBy(_.domain).map { d: DomainMetadata => d } ++
      state.files.values.toVector.map(_.add).sortBy(_.path)
  )

}
