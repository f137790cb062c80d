package io.lakestep.catalog

import scala.collection.immutable.VectorMap

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.NoSuchDatabaseException
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.delta.DeltaTableUtils
import org.apache.spark.sql.delta.sources.DeltaSourceUtils

import org.apache.spark.sql.delta.lakestep.{DeltaUndo, SparkInternals}
import io.lakestep.{Errors, LakestepException}
import io.lakestep.commit.{AsOf, BegunTransaction, Pin}
import io.lakestep.log.TableRef
import io.lakestep.names.{Definition, Metastore, NameState, TableName, TransactionNames}
import io.lakestep.overlay.{Chain, OverlayPath}
import io.lakestep.timeline.{NamedObject, Undone}
import io.lakestep.transaction.{Transaction, TransactionTable}

/** What RESTORE makes as it was. */
private[lakestep] sealed trait Restored

private[lakestep] object Restored {

  /** Every table that transactions have written, and every name that they have changed. */
  case object Database extends Restored {
    override def toString: String = "DATABASE"
  }

  /** All names of a schema, and the Delta tables that they stand for. */
  final case class Schema(name: Seq[String]) extends Restored {
    override def toString: String = s"SCHEMA ${quoted(name)}"
  }

  /** By name, or by `` delta.`path` ``. */
  final case class Tables(names: Seq[Seq[String]]) extends Restored {
    override def toString: String = names.map(quoted).mkString("TABLES (", ", ", ")")
  }

  private def quoted(name: Seq[String]): String = name.map(part => s"`$part`").mkString(".")
}

/**
 * RESTORE: makes tables and names equal to what they were at a point of the timeline, as a part of the open
 * transaction; nothing of it, where something cannot be.
 */
private[lakestep] final class RestoreTables(
    session: SparkSession,
    transaction: Transaction,
    what: Restored,
    asOf: AsOf,
    modes: UndoModes) {

  private val database = transaction.database
  private val base = SparkInternals.metastore(session)
  private val past: BegunTransaction = PastTables.begin(session, asOf)
  private val earlier = new TransactionNames(database.namesBefore(past, _))
  private val tables = new UndoneTables(session, transaction, modes)

  /**
   * Conditions: LAKESTEP_AS_OF_NOT_FOUND, LAKESTEP_NO_SUCH_SNAPSHOT, LAKESTEP_NOT_THERE_AS_OF,
   * LAKESTEP_UNDO_FILES_GONE, LAKESTEP_UNDO_CUT, LAKESTEP_UNDO_OF_WRITTEN_TABLE,
   * LAKESTEP_UNDO_NAME_TAKEN, LAKESTEP_READ_ONLY_TRANSACTION; SCHEMA_NOT_FOUND.
   */
  def apply(): Seq[UndoneRow] = {
    if (transaction.isReadOnly && !modes.isDry)
      throw Errors("LAKESTEP_READ_ONLY_TRANSACTION", "statement" -> "RESTORE")
    PastTables.check(session, past.snapshot)
    val (names, stood) = what match {
      case Restored.Database => ofDatabase
      case Restored.Schema(name) => ofSchema(name)
      case Restored.Tables(typed) => ofTables(typed)
    }
    val away = names.copy(tables = names.tables ++ renamedAway(names))
    val all = away.copy(tables = away.tables ++ displaced(away))
    val dropped = all.tables.collect { case (name, None) => transaction.names.table(base, name) }
      .flatten.flatMap(_.storage.locationUri).map(UndoneTables.ref(session, _)).toSet
    val back = all.tables.values.flatten.flatMap(_.storage.locationUri)
      .map(UndoneTables.ref(session, _)).toSet
    val (rows, done) = data(stood, dropped, back)
    // Who has written another table, too, goes on where it is.
    val stays =
      transaction.begun.base.logs.collect { case (log, state) if !done(state.path) => log }.toSet
    val batches =
      database.reverts.batchesSince(past.base, transaction.begun.base)(!stays.contains(_))
    val undone = Undone(None, Some(what.toString), Some(told))
    rows ++ tables.take(undone, all, batches, past.past.flatMap(_.named))
  }

  private def told: String = asOf match {
    case AsOf.Time(ms) => s"TIMESTAMP '${java.time.Instant.ofEpochMilli(ms)}'"
    case AsOf.Before(id) => s"BEFORE TRANSACTION '$id'"
    case other => other.toString
  }

  /** Names that have changed since, in the session's metastore; nothing for a schema itself. */
  private lazy val moved: Vector[(String, Option[String])] = {
    val id = Metastore.known(base)
    database.namesBefore(past, refreshes = true).keys.filter(k => id.contains(k.metastore))
      .map(k => k.schema -> k.name).toVector.sorted
  }

  private type Places = VectorMap[TableRef, Option[TableName]]

  private def ofDatabase: (NameState, Places) = {
    val names = moved.collect { case (schema, Some(name)) => TableName(schema, name) }
    val (state, named) = restored(names, moved.collect { case (schema, None) => schema })
    val dropped = past.base.names.dropped.flatMap(_.table.path)
    // Of a table with two names one may be left.
    val gone = dropped.toSet -- database.named(dropped)
    val logs = past.base.logs.values ++ transaction.begun.base.logs.values
    val paths = logs.filter(_.mark.isDefined).map(_.path).toVector.distinct.sortBy(_.uri)
    (state, VectorMap.from(paths.filterNot(gone).map(_ -> None)) ++ named)
  }

  private def ofSchema(name: Seq[String]): (NameState, Places) = {
    val schema = PastTables.schema(session, name)
    val isThere = transaction.names.schema(base, schema).isDefined
    if (!isThere && earlier.schema(base, schema).isEmpty) throw new NoSuchDatabaseException(schema)
    def listed(names: TransactionNames) = names.tables(base, schema, base.listTables(schema))
    val all = (listed(earlier) ++ listed(transaction.names)).distinct.sorted
    restored(all.map(TableName(schema, _)), Seq(schema))
  }

  private def ofTables(typed: Seq[Seq[String]]): (NameState, Places) = {
    val (paths, names) = typed.partition {
      case Seq(format, _) => DeltaSourceUtils.isDeltaDataSourceName(format)
      case _ => false
    }
    val called = names.map { name =>
      val identifier = PastTables.ofSessionCatalog(session, name)
        .getOrElse(throw notThere(name, s"it is not in ${SparkInternals.sessionCatalogName}"))
      TableName.of(session.sessionState.catalog.qualifyIdentifier(identifier))
    }
    for ((name, table) <- names.zip(called)) earlier.table(base, table) match {
      case None => throw notThere(name, "no table had this name then")
      case Some(other) if !isDelta(other) && !isView(other) =>
        throw notThere(name, "it was no Delta table")
      case _ =>
    }
    val (state, named) = restored(called, called.map(_.schema).distinct)
    val places = paths.map { path =>
      if (path.last.isEmpty) throw notThere(path, "a path is missing")
      UndoneTables.ref(session, new Path(path.last).toUri) -> None
    }
    (state, named ++ places)
  }

  private def notThere(name: Seq[String], reason: String): LakestepException = Errors(
    "LAKESTEP_NOT_THERE_AS_OF",
    "table" -> name.mkString("."),
    "version" -> past.snapshot.toString,
    "reason" -> reason
  )

  private def isView(table: CatalogTable) = table.tableType == CatalogTableType.VIEW
  private def isDelta(table: CatalogTable) = !isView(table) && DeltaTableUtils.isDeltaTable(table)

  /** What these names get, and where the Delta tables are that they stood for. Schemas made since stay. */
  private def restored(names: Seq[TableName], schemas: Seq[String]): (NameState, Places) = {
    val missing = for {
      schema <- schemas
      if transaction.names.schema(base, schema).isEmpty
      stood <- earlier.schema(base, schema)
    } yield schema -> Option(stood)
    val found = names.map(name =>
      (name, earlier.table(base, name), transaction.names.table(base, name))
    )
    def isOurs(table: CatalogTable) = isView(table) || isDelta(table)
    def object_(table: Option[CatalogTable]) = table.map(Definition.of(_: CatalogTable))
    val changed = found.collect {
      case (name, stood, now)
          if !NamedObject.areSame(object_(stood), object_(now)) &&
            (stood ++ now).forall(isOurs) => name -> stood
    }
    val places = for ((name, stood, _) <- found; table <- stood if isDelta(table))
      yield UndoneTables.ref(session, table.location) -> Option(name)
    (NameState(changed.toMap, missing.toMap), VectorMap.from(places))
  }

  /** A table that gets its name back loses the one that it was given since. */
  private def renamedAway(names: NameState): Map[TableName, Option[CatalogTable]] = {
    val back = names.tables.values.flatten.flatMap(_.storage.locationUri).toSet
    if (back.isEmpty) Map.empty
    else
      moved.collect { case (schema, Some(name)) => TableName(schema, name) }
        .filterNot(names.tables.contains)
        .filter { name =>
          transaction.names.table(base, name).flatMap(_.storage.locationUri).exists(back) &&
          !earlier.table(base, name).flatMap(_.storage.locationUri).exists(back)
        }.map(_ -> None).toMap
  }

  /**
   * A table whose name another one gets back has the name again that it had then.
   *
   * Condition: LAKESTEP_UNDO_NAME_TAKEN.
   */
  private def displaced(names: NameState): Map[TableName, Option[CatalogTable]] = {
    def place(table: Option[CatalogTable]) = table.flatMap(_.storage.locationUri)
    def after(name: TableName) = names.tables.getOrElse(name, transaction.names.table(base, name))
    val gone = names.tables.toVector.flatMap { case (name, _) =>
      transaction.names.table(base, name).filter(isDelta).flatMap(t => place(Some(t)))
    }.filterNot(names.tables.values.flatMap(t => place(t)).toSet)
    val named = moved.collect { case (schema, Some(name)) => TableName(schema, name) }
    (for {
      location <- gone.distinct
      name <- named.find(n => place(earlier.table(base, n)).contains(location))
    } yield {
      if (after(name).isDefined) throw Errors(
        "LAKESTEP_UNDO_NAME_TAKEN",
        "table" -> location.toString,
        "name" -> UndoneRow.identifier(name).unquotedString
      )
      name -> earlier.table(base, name)
    }).toMap
  }

  /**
   * The rows, and the tables that are as they were, or are dropped.
   *
   * @param dropped those that lose their names, `back` those that get one
   */
  private def data(
      places: Places,
      dropped: Set[TableRef],
      back: Set[TableRef]): (Seq[UndoneRow], Set[TableRef]) = {
    val known = past.base.logs.values.filter(_.mark.isDefined).map(_.path).toSet
    val isByName = what.isInstanceOf[Restored.Tables]
    val found = places.toVector.flatMap { case (path, name) =>
      def stays(action: String) = Option.when(!dropped(path))(
        UndoneRow(
          action,
          name.map(UndoneRow.identifier(_).unquotedString),
          Some(path.uri)
        ) -> None
      )
      try {
        val pin = database.pinned(past, path, notBelow = -1)
        val table =
          tables.at(path, name).getOrElse(throw UndoneTables.gone(path.uri, Seq(path.uri)))
        Some(restore(table, pin) -> Some(path))
      } catch {
        case e: LakestepException
            if !isByName && !back(path) && RestoreTables.NotThere(e.getCondition) =>
          if (!known(path)) stays("MADE SINCE")
          else if (tables.at(path, None).isEmpty) stays("GONE")
          else throw e
      }
    }
    (found.map(_._1), found.flatMap(_._2).toSet ++ dropped)
  }

  private def restore(
      table: TransactionTable,
      pin: Pin): UndoneRow = {
    val change =
      if (pin.version == table.pin && pin.log == table.pinned.log) DeltaUndo.Nothing
      else {
        val source = OverlayPath(Chain(pin.version, Vector.empty, pin.kept), table.base).toPath
        DeltaUndo.between(session, table.overlay, source)
      }
    tables.change(table, change, Some(pin.version), Nil, Vector(pin.version))
  }
}

private object RestoreTables {

  /** What reading a table says that is not there. */
  private val NotThere =
    Set("LAKESTEP_NOT_THERE_AS_OF", "LAKESTEP_NOT_A_TABLE", "LAKESTEP_UNDO_FILES_GONE")
}
