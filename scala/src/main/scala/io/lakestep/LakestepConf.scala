package io.lakestep

import java.util.concurrent.TimeUnit

/** One configuration key with its meaning. Every key is listed in docs/settings.md. */
final case class ConfKey[T](key: String, default: T, doc: String, parse: String => T) {

  /** Condition: LAKESTEP_INVALID_SETTING. */
  def from(get: String => Option[String]): T =
    get(key).fold(default)(text => valid(text)(parse(text)))

  /** What a value stands for; `meant` throws a RuntimeException for one that stands for nothing. */
  def as[A](get: String => Option[String])(meant: T => A): A = {
    val value = from(get)
    valid(get(key).getOrElse(value.toString))(meant(value))
  }

  private def valid[A](text: String)(made: => A): A =
    try made
    catch {
      case cause: RuntimeException =>
        throw Errors.caused("LAKESTEP_INVALID_SETTING", cause, "key" -> key, "value" -> text)
    }
}

object LakestepConf {

  private def atLeast[N](least: N)(value: N)(implicit order: Ordering[N]): N = {
    require(order.gteq(value, least), s"it is below $least")
    value
  }

  val Root: ConfKey[Option[String]] = ConfKey(
    "spark.lakestep.root",
    None,
    "Folder of the timeline, shared by everyone who writes the same tables. " +
      "Default: _lakestep in the warehouse folder.",
    text => Some(text.trim).filter(_.nonEmpty)
  )

  val Isolation: ConfKey[String] = ConfKey(
    "spark.lakestep.isolationLevel",
    "SNAPSHOT",
    "SNAPSHOT or SERIALIZABLE: the level of a transaction whose BEGIN names none.",
    _.trim
  )

  val SyncFiles: ConfKey[Boolean] = ConfKey(
    "spark.lakestep.commit.syncFiles",
    true,
    "On a local disk, make log, timeline and data files durable (fsync) before they count.",
    _.trim.toBoolean
  )

  val MaxAttempts: ConfKey[Int] = ConfKey(
    "spark.lakestep.commit.maxAttempts",
    50,
    "How often statements are run in all when they met conflicts.",
    text => atLeast(1)(text.trim.toInt)
  )

  val TimeoutMs: ConfKey[Long] = ConfKey(
    "spark.lakestep.commit.timeoutMs",
    600000L,
    "Milliseconds after which statements are not run again after a conflict, after which COMMIT " +
      "gives up while others take every place in the timeline (not before it has tried 50), and for " +
      "which younger-waits waits at most.",
    text => atLeast(0L)(text.trim.toLong)
  )

  val RedoStatements: ConfKey[Boolean] = ConfKey(
    "spark.lakestep.commit.redoStatements",
    true,
    "Whether COMMIT runs statements again that met a conflict, when they were typed one by one, " +
      "changed tables, and nobody has seen a result.",
    _.trim.toBoolean
  )

  val AbortOnError: ConfKey[Boolean] = ConfKey(
    "spark.lakestep.abortOnError",
    false,
    "Whether a statement that fails ends its transaction, as in Postgres: then nothing but ROLLBACK " +
      "and ROLLBACK TO is accepted. Else the transaction goes on without it. As it was at BEGIN.",
    _.trim.toBoolean
  )

  val OnAssertionFailure: ConfKey[String] = ConfKey(
    "spark.lakestep.assert.onFailure",
    "keep",
    "What a COMMIT does of which an assertion fails: keep (the transaction stays open, so that it can be " +
      "looked at and mended) or rollback.",
    _.trim.toLowerCase(java.util.Locale.ROOT) match {
      case known @ ("keep" | "rollback") => known
      case other => throw new IllegalArgumentException(s"$other is neither keep nor rollback")
    }
  )

  val RequireTransaction: ConfKey[Boolean] = ConfKey(
    "spark.lakestep.requireTransaction",
    false,
    "Whether a session refuses every write outside of a transaction, so that nothing is committed by " +
      "itself that its author believes to be inside of one. Streams with foreachBatch may start; what their " +
      "batches do is refused outside of a transaction, too.",
    _.trim.toBoolean
  )

  val CompactFiles: ConfKey[String] = ConfKey(
    "spark.lakestep.commit.compactFiles",
    "off",
    "auto: COMMIT writes the small files that the transaction has added to a table as one for each " +
      "partition, up to 16 MiB of a table. off: they are published as they are. As it was " +
      "at BEGIN.",
    _.trim.toLowerCase(java.util.Locale.ROOT) match {
      case known @ ("off" | "auto") => known
      case other => throw new IllegalArgumentException(s"$other is neither off nor auto")
    }
  )

  val Strategy: ConfKey[String] = ConfKey(
    "spark.lakestep.commit.conflictStrategy",
    "first-committer-wins",
    "What COMMIT does about a transaction in flight over its tables: first-committer-wins (finishes " +
      "it at once), younger-waits (waits for its client, at most timeoutMs), or the name of a class.",
    _.trim
  )

  val PublishThreads: ConfKey[Int] = ConfKey(
    "spark.lakestep.commit.publishThreads",
    16,
    "How many tables one process stages, checks and publishes at the same time.",
    text => atLeast(1)(text.trim.toInt)
  )

  val CheckpointInterval: ConfKey[Int] = ConfKey(
    "spark.lakestep.timeline.checkpointInterval",
    64,
    "After how many entries of the timeline a COMMIT puts a checkpoint; twice as many are kept in " +
      "memory at most.",
    text => atLeast(1)(text.trim.toInt)
  )

  val UndoHours: ConfKey[Long] = ConfKey(
    "spark.lakestep.undo.retainHours",
    0L,
    "VACUUM leaves the files that were removed in the last so many hours, also where it is told fewer, " +
      "so that REVERT and RESTORE find them. At most delta.deletedFileRetentionDuration of the table.",
    text => {
      val hours = text.trim.toLong
      if (hours < 0 || hours > 1000000) throw new IllegalArgumentException(s"$hours hours")
      hours
    }
  )

  val ForeignWriters: ConfKey[Option[String]] = ConfKey(
    "spark.lakestep.foreignWriters",
    None,
    "allow: you vouch that whoever writes these tables without Lakestep creates log files " +
      "atomically. Needed for tables on S3, where plain Spark does not.",
    text =>
      Some(text.trim.toLowerCase(java.util.Locale.ROOT)).filter(_.nonEmpty).map {
        case "allow" => "allow"
        case other => throw new IllegalArgumentException(s"$other is not allow")
      }
  )

  val ReuseSnapshots: ConfKey[Boolean] = ConfKey(
    "spark.lakestep.reuseSnapshots",
    true,
    "Whether a transaction takes over what Delta has in memory of a table at its version. Without " +
      "it every transaction reconstructs each table's state anew.",
    _.trim.toBoolean
  )

  val Observer: ConfKey[Option[String]] = ConfKey(
    "spark.lakestep.commit.observer",
    None,
    "Class that is told of every step of a commit. For tests.",
    text => Some(text.trim).filter(_.nonEmpty)
  )

  /** For how long undo finds what is removed, if it is to. */
  def undoMs(get: String => Option[String]): Option[Long] =
    Some(UndoHours.from(get)).filter(_ > 0).map(TimeUnit.HOURS.toMillis)

  val all: Seq[ConfKey[_]] =
    Seq(
      Root,
      Isolation,
      SyncFiles,
      MaxAttempts,
      TimeoutMs,
      RedoStatements,
      AbortOnError,
      OnAssertionFailure,
      RequireTransaction,
      CompactFiles,
      Strategy,
      PublishThreads,
      CheckpointInterval,
      UndoHours,
      ForeignWriters,
      ReuseSnapshots,
      Observer
    )
}
