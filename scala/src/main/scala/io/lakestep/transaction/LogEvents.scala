package io.lakestep.transaction

import org.apache.spark.internal.Logging
import org.slf4j.{MDC => Keys}

import io.lakestep.commit.{Finished, TransactionEvent, TransactionListener}
import io.lakestep.commit.TransactionEvent._
import io.lakestep.timeline.CommitEntry

/**
 * Transactions in the log of the driver: INFO for what goes its way, WARN for what a person looks at.
 * Each line has the keys of `context`, which a layout in JSON shows.
 */
private[transaction] object LogEvents extends TransactionListener with Logging {

  override def on(event: TransactionEvent): Unit = {
    val keys = context(event)
    keys.foreach { case (key, value) => Keys.put(key, value) }
    try log(event)
    finally keys.keys.foreach(Keys.remove)
  }

  /** The keys `lakestep.event`, `.transaction`, `.entry`, `.rule` and `.ms`, as far as they are known. */
  private[transaction] def context(event: TransactionEvent): Map[String, String] = {
    def of(name: String, transaction: String, more: (String, Any)*) =
      (Seq[(String, Any)]("event" -> name, "transaction" -> transaction) ++ more)
        .map { case (key, value) => s"lakestep.$key" -> value.toString }.toMap
    event match {
      case Began(t) => of("begin", t.id)
      case Committed(e, _, _, ms, _) =>
        of("commit", e.transaction.id, "entry" -> e.number, "ms" -> ms)
      case CommittedNothing(t, ms) => of("commit", t.id, "ms" -> ms)
      case Rerunning(t, conflict, _) => of("rerun", t.id, "rule" -> conflict.rule.name)
      case Conflicted(t, conflict, _, ms) =>
        of("conflict", t.id, "rule" -> conflict.rule.name, "ms" -> ms)
      case OutcomeUnknown(t, _) => of("unknown", t.id)
      case Failed(t, _) => of("failure", t.id)
      case RolledBack(t) => of("rollback", t.id)
      case FinishedForOther(e, _) => of("recovery", e.transaction.id, "entry" -> e.number)
      case Aborted(ids, _) => of("abort", ids.mkString(","))
      case CatalogBehind(e, _) => of("names", e.transaction.id, "entry" -> e.number)
    }
  }

  private def log(event: TransactionEvent): Unit = event match {
    case Began(t) =>
      val name = t.name.fold("")(n => s" '$n'")
      val mode = if (t.readOnly) "READ ONLY" else "READ WRITE"
      logInfo(
        s"Transaction ${t.id}$name began: ${t.isolation.name}, $mode, after entry ${t.snapshot}"
      )
      for (key <-
          t.batch;
        batch <-
          key.batch;
        entry <- t.replays)
        logWarning(
          s"Transaction ${t.id} changes nothing: entry $entry holds batch $batch of query ${key.query}"
        )
    case Committed(entry, slots, tries, ms, _) =>
      val tried = if (tries == 1) "" else s", the $tries. that it tried,"
      logInfo(
        s"Transaction ${entry.transaction.id} committed as entry ${entry.number}$tried in $ms ms: " +
          versions(entry, slots)
      )
    case CommittedNothing(t, ms) =>
      logInfo(s"Transaction ${t.id} committed in $ms ms; it has changed nothing")
    case Rerunning(t, conflict, statements) =>
      logInfo(
        s"Transaction ${t.id} runs its last $statements statements again after a conflict of rule " +
          s"${conflict.rule.name} over ${conflict.table}"
      )
    case Conflicted(t, conflict, residue, ms) =>
      val left = if (residue.isEmpty) "" else s"; left behind: ${residue.mkString(", ")}"
      logInfo(
        s"Transaction ${t.id} met a conflict of rule ${conflict.rule.name} over ${conflict.table} " +
          s"after $ms ms$left"
      )
    case OutcomeUnknown(t, cause) =>
      logWarning(
        s"The outcome of transaction ${t.id} is not known; DESCRIBE TRANSACTION tells",
        cause
      )
    case Failed(t, cause) =>
      logInfo(s"The COMMIT of transaction ${t.id} failed and changed nothing: ${cause.getMessage}")
    case RolledBack(t) => logInfo(s"Transaction ${t.id} rolled back")
    case FinishedForOther(entry, Finished.Completed(slots)) =>
      logInfo(s"Finished entry ${entry.number} of ${owner(entry)}: ${versions(entry, slots)}")
    case FinishedForOther(entry, Finished.RolledBack(conflict, _)) =>
      logInfo(
        s"Rolled entry ${entry.number} of ${owner(entry)} back after a conflict of rule " +
          s"${conflict.rule.name} over ${conflict.table}"
      )
    case Aborted(ids, reason) => logInfo(s"Ended transactions ${ids.mkString(", ")}: $reason")
    case CatalogBehind(entry, cause) =>
      logWarning(s"Entry ${entry.number} is committed, and a name of it is not made", cause)
  }

  private def owner(entry: CommitEntry): String =
    s"transaction ${entry.transaction.id} by ${entry.transaction.user}"

  private def versions(entry: CommitEntry, slots: Vector[Vector[Long]]): String =
    entry.tables.zip(slots).map { case (t, s) => s"${t.name} version ${s.mkString(", ")}" }
      .mkString("; ")
}
