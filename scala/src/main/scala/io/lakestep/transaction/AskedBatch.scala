package io.lakestep.transaction

import io.lakestep.Errors
import io.lakestep.timeline.BatchKey

/** A batch as BEGIN names it: `FOR BATCH number [OF QUERY query]`. */
final case class AskedBatch(number: Long, query: Option[String]) {

  /**
   * Condition: LAKESTEP_BATCH_WITHOUT_QUERY.
   *
   * @param running the query in whose batch BEGIN runs, if there is one
   */
  private[transaction] def key(running: Option[String]): BatchKey = {
    val named = query.filter(_.nonEmpty).orElse(running)
      .getOrElse(throw Errors("LAKESTEP_BATCH_WITHOUT_QUERY", "batch" -> number.toString))
    // Where the id is the key, nobody else has it.
    BatchKey(named, Some(number), running.filter(_ != named))
  }
}
