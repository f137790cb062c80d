package io.lakestep.commit

import io.lakestep.Errors
import io.lakestep.timeline.{
  AssertionOutcome, BatchKey, BatchTakenBack, Labels, Requested, TimelineSnapshot, TimelineView,
  Undone
}

/**
 * What BEGIN asks for.
 *
 * @param readOnly nothing is written to any store, nobody is helped
 * @param notBefore newest entry that this session has seen finished; it never goes back behind it
 * @param batch what it applies of a streaming query
 * @param asOf the state that it reads, in place of the newest one; READ ONLY
 */
final case class BeginRequest(
    name: Option[String],
    user: String,
    application: String,
    isolation: IsolationLevel,
    readOnly: Boolean,
    notBefore: Long,
    batch: Option[BatchKey] = None,
    labels: Labels = Labels.none,
    asOf: Option[AsOf] = None) {

  /** The error where the prefix of a view does not reach `notBefore`. */
  private[commit] def behind(view: TimelineView): Throwable = {
    val blocking = view.unfinished.headOption
    Errors(
      "LAKESTEP_SNAPSHOT_BEHIND_DATABASE",
      "snapshot" -> view.finished.toString,
      "seen" -> notBefore.toString,
      "entry" -> blocking.fold("none")(_.number.toString),
      "tables" -> blocking.fold("none")(_.tables.map(_.name).mkString(", "))
    )
  }
}

/**
 * An open transaction; a value. The snapshot is the longest prefix of finished entries at BEGIN.
 *
 * @param base what the entries of the snapshot left behind; of a query's, which may leave out
 *   unfinished entries of other tables, those of the finished prefix
 * @param replays the entry that has applied its batch already, so that nothing of it is committed
 * @param batchBefore the batch of its query that was the newest at BEGIN
 * @param assertions what was found of them at COMMIT
 * @param undoes what its statements take back, and `takenBack` the batches of it
 * @param past the earlier state that it reads
 * @param countsReads whether what is known to be read counts at any level, as an assertion has read it
 */
final case class BegunTransaction(
    id: String,
    name: Option[String],
    user: String,
    application: String,
    snapshot: Long,
    base: TimelineSnapshot,
    requestedAtMs: Long,
    isolation: IsolationLevel,
    readOnly: Boolean,
    batch: Option[BatchKey] = None,
    replays: Option[Long] = None,
    batchBefore: Option[Long] = None,
    assertions: Vector[AssertionOutcome] = Vector.empty,
    countsReads: Boolean = false,
    labels: Labels = Labels.none,
    past: Option[ReadPoint] = None,
    undoes: Vector[Undone] = Vector.empty,
    takenBack: Vector[BatchTakenBack] = Vector.empty) {

  /** What its statements read of tables that it meets now. */
  def readPoint: ReadPoint = past.getOrElse(ReadPoint(snapshot, base, requestedAtMs))

  def isSerializable: Boolean = isolation == IsolationLevel.Serializable

  /** Whether a change of what it has read is a conflict. */
  def readsCount: Boolean = isSerializable || countsReads

  /** What its entry makes of streaming queries: in order, as it may apply a batch once more. */
  def batches: Vector[BatchKey] = takenBack.map(_.key) ++ batch

  def requested: Requested =
    Requested(id, name, user, application, isolation.name, snapshot, requestedAtMs, labels)
}
