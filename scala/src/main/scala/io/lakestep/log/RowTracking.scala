package io.lakestep.log

import scala.util.control.NonFatal

import io.lakestep.Json

/** Row ids of files that were staged before their place in the log was known. */
object RowTracking {
  private val Field = "rowIdHighWaterMark"

  /** The high-water mark that a commit sets, if it sets one. */
  def highWaterMark(actions: Seq[Action]): Option[Long] =
    actions.collectFirst { case d: DomainMetadata if d.domain == DomainMetadata.RowTracking => d }
      .flatMap(highWaterMark)

  def highWaterMark(domain: DomainMetadata): Option[Long] =
    try Option(Json.parse(domain.configuration).get(Field)).filter(_.isIntegralNumber).map(_.asLong)
    catch { case NonFatal(_) => None }

  /**
   * The same actions, fit for a slot: files that were added after `pinned` get row ids above
   * `current`, and every file that was staged gets the slot as its row commit version.
   *
   * Every added file with a row id above `pinned` must say how many rows it holds.
   *
   * @param pinned high-water mark that staging started from
   * @param current high-water mark of the version before the slot
   * @param pin version that staging started from
   * @param slot version under which the actions are published
   */
  def place(
      actions: Vector[Action],
      pinned: Long,
      current: Long,
      pin: Long,
      slot: Long): Vector[Action] = {
    var mark = current.max(pinned)
    val moved = actions.map {
      case add: AddFile =>
        val body = add.body.deepCopy()
        if (add.baseRowId.exists(_ > pinned)) {
          body.put("baseRowId", mark + 1)
          mark += add.numRecords.getOrElse(0L)
        }
        if (add.defaultRowCommitVersion.exists(_ > pin)) body.put("defaultRowCommitVersion", slot)
        AddFile(body)
      case other => other
    }
    moved.map {
      case d: DomainMetadata if d.domain == DomainMetadata.RowTracking =>
        val configuration = Json.parse(d.configuration).put(Field, mark)
        DomainMetadata(d.body.deepCopy().put("configuration", Json.text(configuration)))
      case other => other
    }
  }
}
