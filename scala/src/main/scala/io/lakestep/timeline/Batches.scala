package io.lakestep.timeline

/**
 * A batch of a streaming query, which is applied exactly once.
 *
 * @param query what the query is called, or its id
 * @param batch its number, which grows; nothing for a query that is to be forgotten
 * @param stream id of the query in its checkpoint, where that is known
 */
final case class BatchKey(query: String, batch: Option[Long], stream: Option[String] = None) {

  /** Whether it is one of the streaming query with this id. */
  def isOf(id: String): Boolean = stream.getOrElse(query) == id
}

/** The newest batch of a query that is committed; `entry` holds it. */
final case class AppliedBatch(batch: Long, stream: Option[String], entry: Long)

/** Of each query the newest batch that is committed. It is kept until the query is forgotten. */
final case class AppliedBatches(byQuery: Map[String, AppliedBatch]) {

  /** With what the next completed entry applies. */
  def and(batches: Vector[BatchKey], entry: Long): AppliedBatches =
    AppliedBatches(batches.foldLeft(byQuery) {
      case (all, BatchKey(query, Some(batch), stream)) =>
        // Not every client knows the stream.
        val known = stream.orElse(all.get(query).flatMap(_.stream))
        all.updated(query, AppliedBatch(batch, known, entry))
      case (all, forgotten) => all - forgotten.query
    })
}

object AppliedBatches {
  val none: AppliedBatches = AppliedBatches(Map.empty)
}
