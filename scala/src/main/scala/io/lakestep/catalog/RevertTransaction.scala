package io.lakestep.catalog

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogDatabase, CatalogTable}
import org.apache.spark.sql.delta.DeltaTableUtils

import org.apache.spark.sql.delta.lakestep.{DeltaUndo, SparkInternals}
import io.lakestep.{Errors, Json}
import io.lakestep.commit.{RevertPlan, TransactionStatus}
import io.lakestep.names.{Definition, Metastore, NameState, TableName}
import io.lakestep.timeline.{CommitEntry, Conflict, EntryTable, NameChange, NamedObject, Undone}
import io.lakestep.transaction.{Transaction, TransactionTable}

/**
 * REVERT TRANSACTION: takes one committed transaction back, over all its tables and names, as a part of
 * the open one; nothing of it, where later ones build upon what it did.
 */
private[lakestep] object RevertTransaction {

  /**
   * Conditions: LAKESTEP_REVERT_NOT_COMMITTED, LAKESTEP_REVERT_OF_UNDO, LAKESTEP_ALREADY_REVERTED,
   * LAKESTEP_REVERT_BUILT_UPON, LAKESTEP_REVERT_LOG_GONE, LAKESTEP_UNDO_FILES_GONE,
   * LAKESTEP_UNDO_OF_WRITTEN_TABLE, LAKESTEP_READ_ONLY_TRANSACTION.
   */
  def apply(
      session: SparkSession,
      transaction: Transaction,
      id: String,
      modes: UndoModes): Seq[UndoneRow] = {
    if (transaction.isReadOnly && !modes.isDry)
      throw Errors("LAKESTEP_READ_ONLY_TRANSACTION", "statement" -> "REVERT TRANSACTION")
    val (entry, slots) = committed(transaction, id)
    val reverts = transaction.database.reverts
    val later = reverts.later(entry, transaction.begun)
    def again(): Unit =
      for (reverting <- later.findLast(_.undoes.exists(_.transaction.contains(id)))) throw Errors(
        "LAKESTEP_ALREADY_REVERTED",
        "transaction" -> id,
        "by" -> reverting.transaction.id
      )
    val tables = new UndoneTables(session, transaction, modes)
    val (names, changed) = backwards(session, transaction, entry, later)
    for {
      table <- names.tables.values.flatten if DeltaTableUtils.isDeltaTable(table)
      path = UndoneTables.ref(session, table.location)
      if tables.at(path, None).isEmpty
    } throw UndoneTables.gone(table.identifier.unquotedString, Seq(path.uri))
    val unmade = entry.names.collect { case NameChange(_, None, Some(made)) => made.path }.flatten
    val found = entry.tables.zipWithIndex.map { case (table, index) =>
      val name = named(session, transaction, table)
      val there = tables.at(table.path, name).filter(_.pinned.log.contains(table.log))
      // The whole table goes with its name.
      val drops = table.base < 0 && unmade.contains(table.path)
      there.map(t => (t, reverts.plan(entry, slots, later, index, t.pin, drops), drops))
        .toRight(s"${table.name} was dropped, moved or made anew since")
    }
    val (moved, plans) = found.partitionMap(identity)
    val blockers = changed ++ moved ++ plans.flatMap(_._2.blockers).map(told)
    if (blockers.nonEmpty) {
      again()
      throw Errors(
        "LAKESTEP_REVERT_BUILT_UPON",
        "transaction" -> id,
        "blockers" -> blockers.distinct.mkString("; ")
      )
    }
    for ((table, plan, _) <- plans if plan.missing.nonEmpty)
      throw UndoneTables.gone(table.name, plan.missing)
    val rows = plans.collect { case (table, plan, false) => row(tables, table, plan) }
    val batches = reverts.batches(entry, transaction.begun)
    if (rows.forall(_.action == "UNCHANGED") && names.isEmpty && batches._1.isEmpty) again()
    rows ++ tables.take(Undone(Some(id)), names, batches)
  }

  private val Session = SparkInternals.sessionCatalogName

  /** The name that the entry has, where it still leads to the table. */
  private def named(
      session: SparkSession,
      transaction: Transaction,
      table: EntryTable): Option[TableName] =
    Try(session.sessionState.sqlParser.parseMultipartIdentifier(table.name)).toOption.collect {
      case Seq(Session, schema, name) => TableName(schema, name)
    }.filter { name =>
      transaction.names.table(SparkInternals.metastore(session), name)
        .flatMap(_.storage.locationUri)
        .exists(UndoneTables.ref(session, _) == table.path)
    }

  private def row(tables: UndoneTables, table: TransactionTable, plan: RevertPlan): UndoneRow =
    tables.change(
      table,
      DeltaUndo.of(plan.actions.map(action => Json.text(action.node))),
      None,
      plan.kept,
      plan.versions
    )

  private def committed(
      transaction: Transaction,
      id: String): (CommitEntry, Vector[Vector[Long]]) = {
    def not(state: String) =
      Errors("LAKESTEP_REVERT_NOT_COMMITTED", "transaction" -> id, "state" -> state)
    transaction.database.describe(id) match {
      case TransactionStatus.Committed(entry, _) if entry.number > transaction.begun.snapshot =>
        throw not("committed after this transaction began")
      case TransactionStatus.Committed(entry, _) if entry.undoes.nonEmpty =>
        throw Errors(
          "LAKESTEP_REVERT_OF_UNDO",
          "transaction" -> id,
          "undoes" -> entry.undoes.mkString(", ")
        )
      case TransactionStatus.Committed(entry, _) if entry.purges.nonEmpty =>
        throw not("a VACUUM DROPPED TABLES, whose files are gone")
      case TransactionStatus.Committed(entry, _) if entry.batches.exists(_.batch.isEmpty) =>
        throw not("a FORGET BATCH KEYS")
      case TransactionStatus.Committed(entry, slots) => (entry, slots)
      case TransactionStatus.RolledBack(_, _, _) => throw not("rolled back")
      case TransactionStatus.InFlight(_) => throw not("not finished")
      case TransactionStatus.Aborted(_) => throw not("aborted")
      case TransactionStatus.Open(_) => throw not("open, or left by a client that died")
      case TransactionStatus.NotFound => throw not("not known")
    }
  }

  private def told(c: Conflict): String = {
    val by = c.otherTransaction.fold(c.user.fold("")(u => s" by $u"))(t => s" by transaction $t")
    s"${c.table} version ${c.version.getOrElse("?")}: ${c.operation.getOrElse("a commit")}$by"
  }

  /** What names are without the transaction; and those that stand for something else by now. */
  private def backwards(
      session: SparkSession,
      transaction: Transaction,
      entry: CommitEntry,
      later: Vector[CommitEntry]): (NameState, Seq[String]) = {
    val reverts = transaction.database.reverts
    val base = SparkInternals.metastore(session)
    val id = Metastore.known(base)
    entry.names.foldLeft((NameState.Unchanged, Seq.empty[String])) {
      case ((state, others), c) if !id.contains(c.key.metastore) =>
        (state, others :+ s"${c.key} is of another metastore")
      case ((state, others), NameChange(key, before, after)) =>
        val path = before.orElse(after).flatMap(_.path)
        val by = reverts.over(key, path, later).map(_.transaction.id).distinct
        key.name match {
          case _ if by.nonEmpty =>
            val now = key.name.fold(transaction.names.schema(base, key.schema).isDefined) { name =>
              transaction.names.table(base, TableName(key.schema, name)).isDefined
            }
            val told = changedSince(key.toString, now)
            (state, others :+ s"$told by transaction ${by.mkString(", ")}")
          case Some(name) =>
            val called = TableName(key.schema, name)
            val now = transaction.names.table(base, called)
            val made = before.map(
              Definition.table(TableIdentifier(name, Some(key.schema)), _)
            )
            if (!NamedObject.areSame(now.map(Definition.of(_: CatalogTable)), after))
              (state, others :+ changedSince(key.toString, now.isDefined))
            else if (now.map(Definition.of(_: CatalogTable)) != after &&
              NamedObject.areSame(before, after)) (state, others)
            else (state.set(called, made), others)
          case None =>
            val now = transaction.names.schema(base, key.schema)
            val inside = session.sessionState.catalog.externalCatalog
            def isUsed = before.isEmpty && now.isDefined &&
              inside.listTables(key.schema).exists { table =>
                !entry.names.exists(o => o.key.schema == key.schema && o.key.name.contains(table))
              }
            if (now.map(Definition.of(_: CatalogDatabase)).isDefined != after.isDefined || isUsed)
              (state, others :+ changedSince(key.toString, now.isDefined))
            else (state.set(key.schema, before.map(Definition.schema(key.schema, _))), others)
        }
    }
  }

  private def changedSince(name: String, isThere: Boolean): String =
    if (isThere) s"$name was changed since" else s"$name was dropped since"
}
