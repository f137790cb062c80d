package io.lakestep.timeline

/**
 * What a transaction takes back: another transaction, or all since a point. For people, and so that nothing
 * is taken back twice; what tables and streaming queries are then stands in the rest of the entry.
 *
 * @param transaction that is reverted; none for what restores
 * @param restored what is restored: `DATABASE`, `` SCHEMA `s` ``, `TABLES (…)`
 * @param to what it is restored to, as RESTORE says it
 */
final case class Undone(
    transaction: Option[String],
    restored: Option[String] = None,
    to: Option[String] = None) {

  /** As the statement says it. */
  override def toString: String = transaction.fold(
    s"RESTORE ${restored.getOrElse("")} TO ${to.getOrElse("")}"
  )(id => s"REVERT TRANSACTION '$id'")
}

/**
 * The newest batch of a streaming query is that of before again.
 *
 * @param key the batch of before, none when there was none
 * @param from the entry that holds the newest batch, which is taken back
 */
final case class BatchTakenBack(key: BatchKey, from: Long)
