package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.Errors
import io.lakestep.log.{AddFile, Flatten, LogCommit, MadeFiles, NetChanges, SmallFiles, TableLog}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{Conflict, Rule}

/**
 * A written table with what the transaction does in it, and the log that it is bound to.
 *
 * @param small groups of its files that may be written as one each
 */
private[commit] final case class Staged(
    table: WrittenTable,
    log: TableLog,
    binding: Binding,
    changes: NetChanges,
    small: Vector[Vector[AddFile]] = Vector.empty)

/** Steps 1 and 4: the staged commits of a table as its net actions, durable before the order point. */
private[commit] final class Stage(env: Environment, bindings: Bindings) {
  import env.{timeline, stores, observer, options, safeguards}

  /**
   * Of each table what it stages, or a conflict when what was staged is gone: the table was deleted, or
   * another is there.
   */
  def apply(
      txn: BegunTransaction,
      tables: Vector[WrittenTable],
      compacts: Boolean): Vector[Either[Conflict, Staged]] = {
    val slots = for (table <- tables; v <- table.pin + 1 to table.stagedTo) yield table -> v
    // Before a table gets a binding, it is looked at: it may have been deleted.
    val unknown = slots.filter { case (table, version) =>
      !table.staged.contains(version) || bindings.lastKnown(table.path).isEmpty
    }
    val read = unknown.map { case (table, version) => table.path -> version }
      .zip(env.inParallel(unknown) { case (table, version) =>
        env.log(table.path).readStaged(txn.id, version)
      }).toMap
    env.inParallel(tables) { table =>
      val commits = (table.pin + 1 to table.stagedTo).toVector.map { version =>
        read.getOrElse(
          (table.path, version),
          table.staged.get(version).map(LogCommit(version, _))
        )
      }
      if (commits.forall(_.isDefined)) Right(flatten(txn, table, commits.flatten, compacts))
      else Left(Conflict.overTable(Rule.TableGone, table.name, table.path))
    }
  }

  private def flatten(
      txn: BegunTransaction,
      table: WrittenTable,
      commits: Vector[LogCommit],
      compacts: Boolean): Staged = {
    val about =
      Flatten.Table(
        table.name,
        table.path,
        table.pin,
        table.rowTracking,
        table.pinned,
        table.rowIdHighWaterMark
      )
    val changes =
      if (table.oneCommit) Flatten(txn.id, about, commits)
      else Flatten.keepingCommits(txn.id, about, commits)
    val binding =
      if (changes.isEmpty) Binding(timeline.id, "", table.path)
      else bindings.bind(table.path, timeline.id)
    observer.flattened(txn.id, table.path)
    def made = commits.flatMap(MadeFiles.of(table.path, _)).toSet
    val small =
      if (compacts && table.oneCommit) SmallFiles.of(table.path, changes, made) else Vector.empty
    Staged(table, env.log(table.path), binding, changes, small)
  }

  /** Two paths to one log would publish one of the two changes only. */
  def refuseOneLogTwice(staged: Vector[Staged]): Unit =
    staged.groupBy(_.binding.log).values.find(_.size > 1).foreach { same =>
      throw Errors(
        "LAKESTEP_TABLE_TWICE",
        "tables" -> same.map(_.table.name).mkString(", "),
        "paths" -> same.map(_.table.path).mkString(", ")
      )
    }

  /**
   * The net actions, and every data file that they name, durable before the order point; or the conflict
   * when this fails because an ABORT entry has ended the transaction meanwhile, or a table was deleted.
   *
   * @param first what the calling thread does beside it
   */
  def persist(
      txn: BegunTransaction,
      staged: Vector[Staged],
      first: () => Any = () => ()): Option[Conflict] =
    try {
      val made = staged.map { s =>
        if (options.syncDataFiles) s.changes.madeFiles(s.table.path) else Vector.empty
      }
      // Those of a large table, one after another, leave threads to the transactions of others.
      val isLittle = made.map(_.size).sum <= Stage.FilesAtOnce
      val looks = staged.zip(made).flatMap { case (s, files) =>
        files.grouped(if (isLittle) 1 else files.size.max(1))
          .map(some => () => some.foreach(sync(txn, s, _)))
      }
      env.inParallel(first +: (staged.map(s => () => putNetActions(txn, s)) ++ looks))(_())
      env.inParallel(staged.zip(made)) { case (s, files) =>
        env.keep(files.flatMap(s.table.path.foldersAbove(_)).distinct: _*)
      }
      None
    } catch {
      case NonFatal(e) => Some(ended(txn).orElse(deleted(txn, staged)).getOrElse(throw e))
    }

  /** The conflict, when somebody has deleted a table with what was staged in it. */
  private def deleted(txn: BegunTransaction, staged: Vector[Staged]): Option[Conflict] =
    staged.map(_.table).find { table =>
      val last = table.path.stagedSlot(txn.id, table.stagedTo)
      !stores.forPath(table.path.uri).exists(last)
    }.map(table => Conflict.overTable(Rule.TableGone, table.name, table.path))

  /** The conflict, when an ABORT entry has ended the transaction. */
  def ended(txn: BegunTransaction): Option[Conflict] =
    if (safeguards.obeysAborts) timeline.refresh().aborted(txn.id).map(Conflict.aborted) else None

  private def sync(txn: BegunTransaction, s: Staged, file: String): Unit =
    if (!stores.forPath(file).sync(file))
      throw Errors(
        "LAKESTEP_STAGED_FILE_LOST",
        "file" -> file,
        "transaction" -> txn.id,
        "table" -> s.table.name
      )

  private def putNetActions(txn: BegunTransaction, s: Staged): Unit = {
    val path = s.table.path
    val store = stores.forPath(path.uri)
    if (s.binding.path != path) {
      val staging = s.binding.path.staging(txn.id)
      val original = stores.forPath(s.binding.path.uri)
      // Another log there is that of a table to which the name went: this one was renamed.
      if (original.list(staging, "0").isEmpty &&
        Bindings.read(stores, s.binding.path).exists(_.log == s.binding.log))
        throw Errors(
          "LAKESTEP_TABLE_IS_A_COPY",
          "table" -> path.uri,
          "original" -> s.binding.path.uri
        )
    }
    val file = path.netActions(txn.id, s.changes.hash)
    val bytes = s.changes.encode
    // Only the entry tells others of it.
    store.putUnannounced(file, bytes) match {
      case PutOutcome.Created => ()
      case _ if store.get(file).exists(java.util.Arrays.equals(_, bytes)) => env.keep(file)
      case PutOutcome.Unknown(cause) =>
        throw Errors.caused("LAKESTEP_OUTCOME_UNKNOWN", cause, "file" -> file)
      case PutOutcome.AlreadyExists =>
        throw Errors(
          "LAKESTEP_LOG_CORRUPT",
          "file" -> file,
          "reason" -> "it holds another commit of this transaction"
        )
    }
  }
}

private object Stage {
  val FilesAtOnce = 64
}
