package io.lakestep.commit

import io.lakestep.Errors
import io.lakestep.log.{Flatten, LogCommit, NetChanges, TableLog}
import io.lakestep.storage.PutOutcome
import io.lakestep.timeline.{Conflict, Rule}

/** A written table with what the transaction does in it, and the log that it is bound to. */
private[commit] final case class Staged(
    table: WrittenTable,
    log: TableLog,
    binding: Binding,
    changes: NetChanges)

/** Steps 1 and 4: the staged commits of a table as its net actions, durable before the order point. */
private[commit] final class Stage(env: Environment, bindings: Bindings) {
  import env.{timeline, stores, observer, options}

  /** A conflict when what was staged is gone: the table was deleted, or another is there. */
  def apply(txn: BegunTransaction, table: WrittenTable): Either[Conflict, Staged] =
    env.log(table.path).staged(txn.id, table.pin, table.stagedTo).map(flatten(txn, table, _))
      .toRight(Conflict.overTable(Rule.TableGone, table.name, table.path))

  private def flatten(
      txn: BegunTransaction,
      table: WrittenTable,
      commits: Vector[LogCommit]): Staged = {
    val about =
      Flatten.Table(table.name, table.path, table.pin, table.rowTracking, table.pinned)
    val changes =
      if (table.oneCommit) Flatten(txn.id, about, commits)
      else Flatten.keepingCommits(txn.id, about, commits)
    val binding =
      if (changes.isEmpty) Binding(timeline.id, "", table.path)
      else bindings.bind(table.path, timeline.id)
    observer.flattened(txn.id, table.path)
    Staged(table, env.log(table.path), binding, changes)
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

  /** The net actions, and every data file that they name, durable before the order point. */
  def persist(txn: BegunTransaction, s: Staged): Unit = {
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
    if (options.syncDataFiles) {
      val made = s.changes.madeFiles(path)
      made.foreach { file =>
        if (!stores.forPath(file).sync(file))
          throw Errors(
            "LAKESTEP_STAGED_FILE_LOST",
            "file" -> file,
            "transaction" -> txn.id,
            "table" -> s.table.name
          )
      }
      env.keep(made.flatMap(path.foldersAbove(_)).distinct: _*)
    }
  }
}
