package io.lakestep.catalog

import java.net.URI

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{DeltaUndo, SparkInternals}
import io.lakestep.{Errors, LakestepException}
import io.lakestep.commit.BroughtBack
import io.lakestep.log.{ReadSet, TableRef}
import io.lakestep.names.{NameState, TableName}
import io.lakestep.timeline.{BatchKey, BatchTakenBack, NamedSnapshot, SnapshotTable, Undone}
import io.lakestep.transaction.{BasePath, Transaction, TransactionTable}

/** How REVERT and RESTORE are asked for. */
private[lakestep] final case class UndoModes(isDry: Boolean, keepsKeys: Boolean)

/** The tables of a transaction that a statement takes back: none of them changes before all are known. */
private[catalog] final class UndoneTables(
    session: SparkSession,
    transaction: Transaction,
    modes: UndoModes) {

  import UndoneTables.Found

  private var changes = Vector.empty[Found]

  /**
   * A table as the transaction reads it; none where there is none.
   *
   * @param name what a catalog calls it
   *
   * Condition: LAKESTEP_UNDO_OF_WRITTEN_TABLE.
   */
  def at(path: TableRef, name: Option[TableName]): Option[TransactionTable] = {
    val conf = session.sessionState.newHadoopConf()
    val overlay =
      try transaction.overlayOf(UndoneTables.place(path), conf, name.map(UndoneRow.identifier))
      catch { case e: LakestepException if e.getCondition == "LAKESTEP_NOT_A_TABLE" => None }
    val table = overlay.flatMap(transaction.table)
    for (t <- table if transaction.isWritten(t)) throw Errors(
      "LAKESTEP_UNDO_OF_WRITTEN_TABLE",
      "table" -> t.name,
      "transaction" -> transaction.id
    )
    table
  }

  /**
   * @param earlier the version that it gets
   * @param kept applications whose marks stay
   * @param versions those that have what comes back
   */
  def change(
      table: TransactionTable,
      whole: DeltaUndo.Change,
      earlier: Option[Long],
      kept: Seq[String],
      versions: Vector[Long]): UndoneRow = {
    val change = if (modes.keepsKeys) whole.withoutApplications else whole
    if (transaction.recordsReads) transaction.reads(table.overlay, ReadSet.WholeTable)
    if (!change.isEmpty) changes = changes :+ Found(table, change, versions)
    UndoneRow(
      if (change.isEmpty) "UNCHANGED" else "RESTORED",
      table.identifier.map(_.unquotedString),
      Some(table.base.toString),
      Some(table.pin),
      earlier,
      change.added,
      change.removed,
      change.applications,
      kept ++ (if (modes.keepsKeys) whole.applications else Nil)
    )
  }

  /**
   * Stages what was found, once it is sure that all is there.
   *
   * @param by the snapshot that holds what comes back, if one does
   *
   * Conditions: LAKESTEP_UNDO_FILES_GONE, LAKESTEP_UNDO_CUT.
   */
  private def stage(by: Option[NamedSnapshot]): Unit = {
    if (!modes.isDry) transaction.holds(changes.flatMap(needed), by)
    for (found <- changes) {
      val gone = DeltaUndo.missing(session, found.table.base, found.change)
      if (gone.nonEmpty) throw UndoneTables.gone(found.table.name, gone)
    }
    if (!modes.isDry) changes.foreach(f => DeltaUndo.stage(session, f.table.overlay, f.change))
  }

  /**
   * The end of both statements: all is staged, with names, batches of queries and what the entry tells of it;
   * the rows of what is no table.
   *
   * @param batches those that are the newest, and others, which stay
   * @param by as for `stage`
   */
  def take(
      undone: Undone,
      names: NameState,
      batches: (Vector[BatchTakenBack], Vector[BatchKey]),
      by: Option[NamedSnapshot] = None): Seq[UndoneRow] = {
    val (newest, others) = batches
    val (taken, kept) = if (modes.keepsKeys) (Vector.empty, newest) else (newest, Vector.empty)
    stage(by)
    if (!modes.isDry) {
      if (!names.isEmpty) {
        val base = SparkInternals.metastore(session)
        new MetastoreLimits(session).refuseUnfit(base)
        val gone = for {
          (name, None) <- names.tables
          table <- transaction.names.table(base, name)
        } yield name -> table
        transaction.names.change { state =>
          gone.foldLeft(state) { case (s, (name, table)) => s.drop(name, table) } and names
        }
      }
      transaction.takesBack(undone, taken)
    }
    UndoneRow.ofNames(names) ++
      UndoneRow.ofBatches(taken, others.map(_.query) ++ kept.map(_.key.query))
  }

  private def needed(found: Found): Option[BroughtBack] = for {
    removed <- DeltaUndo.removedAt(session, found.table.overlay, found.change)
    log <- found.table.pinned.log
  } yield BroughtBack(found.versions.map(SnapshotTable(log, found.table.ref, _)), removed)
}

private[catalog] object UndoneTables {

  private final case class Found(
      table: TransactionTable,
      change: DeltaUndo.Change,
      versions: Vector[Long])

  def place(path: TableRef): Path = new Path(new URI(path.uri))

  def ref(session: SparkSession, location: URI): TableRef = BasePath.ref(
    io.lakestep.storage.CanonicalPath(new Path(location), session.sessionState.newHadoopConf())
  )

  def gone(table: String, files: Seq[String]): LakestepException = Errors(
    "LAKESTEP_UNDO_FILES_GONE",
    "table" -> table,
    "count" -> files.size.toString,
    "files" -> files.sorted.take(5).mkString(", ")
  )
}
