package io.lakestep.names

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogDatabase, CatalogTable, ExternalCatalog}
import org.apache.spark.sql.delta.DeltaTableUtils

import io.lakestep.log.TableRef
import io.lakestep.timeline.{NameChange, NameKey, NamedObject, Purge}

/** A table or view, in the metastore's letter case. */
private[lakestep] final case class TableName(schema: String, name: String)

private[lakestep] object TableName {
  def of(identifier: TableIdentifier): TableName =
    TableName(identifier.database.getOrElse(""), identifier.table)
}

/**
 * What statements of a transaction have made of names so far; nothing is: the name stands for nothing.
 *
 * @param dropped what they have dropped, by its last name
 */
private[lakestep] final case class NameState(
    tables: Map[TableName, Option[CatalogTable]],
    schemas: Map[String, Option[CatalogDatabase]],
    dropped: Map[TableName, CatalogTable] = Map.empty) {

  def isEmpty: Boolean = tables.isEmpty && schemas.isEmpty

  def and(later: NameState): NameState =
    NameState(tables ++ later.tables, schemas ++ later.schemas, dropped ++ later.dropped)

  def drop(name: TableName, table: CatalogTable): NameState =
    if (!DeltaTableUtils.isDeltaTable(table)) set(name, None)
    else set(name, None).copy(dropped = dropped.updated(name, table))

  def set(name: TableName, table: Option[CatalogTable]): NameState =
    copy(tables = tables.updated(name, table))

  def set(name: String, schema: Option[CatalogDatabase]): NameState =
    copy(schemas = schemas.updated(name, schema))
}

private[lakestep] object NameState {
  val Unchanged: NameState = NameState(Map.empty, Map.empty)
}

/**
 * The names of one transaction. What it has resolved once keeps its meaning. Thread-safe.
 *
 * @param before names that metastores may show otherwise than at the snapshot, with what they stood for then;
 *   with the timeline read anew, or as it is known
 */
private[lakestep] final class TransactionNames(
    before: Boolean => Map[NameKey, Option[NamedObject]]) {

  private val current = new AtomicReference(NameState.Unchanged)
  private val metTables = new ConcurrentHashMap[TableName, Option[CatalogTable]]
  private val metSchemas = new ConcurrentHashMap[String, Option[CatalogDatabase]]

  def state: NameState = current.get

  def restore(state: NameState): Unit = current.set(state)

  def table(base: ExternalCatalog, name: TableName): Option[CatalogTable] =
    state.tables.getOrElse(name, metTable(base, name))

  /** At the snapshot. */
  private def metTable(base: ExternalCatalog, name: TableName): Option[CatalogTable] =
    Option(metTables.get(name)).getOrElse {
      val now = Metastore.table(base, name.schema, name.name)
      // The first touch of a Delta table reads the timeline.
      val stood =
        if (now.isEmpty && isOfPaths(name.schema)) None
        else atSnapshot(base, name, now, isNew = !now.exists(DeltaTableUtils.isDeltaTable))
      Option(metTables.putIfAbsent(name, stood)).getOrElse(stood)
    }

  /** What looks like a schema where a table is named by its path. */
  private def isOfPaths(schema: String) = schema.equalsIgnoreCase("delta")

  private def atSnapshot(
      base: ExternalCatalog,
      name: TableName,
      now: Option[CatalogTable],
      isNew: Boolean): Option[CatalogTable] =
    settled(base, now, NameKey(_, name.schema, Some(name.name)), isNew) {
      Definition.table(TableIdentifier(name.name, Some(name.schema)), _)
    }

  private val confirmed = ConcurrentHashMap.newKeySet[TableName]

  /**
   * To be called when a Delta table has been pinned that a name was resolved to, or could not be: what the
   * name stood for, if that is something else.
   *
   * @param isRead whether the timeline was read for the pin
   */
  def confirm(
      base: ExternalCatalog,
      name: TableName,
      isRead: Boolean): Option[Option[CatalogTable]] =
    if (state.tables.contains(name) || !confirmed.add(name)) None
    else {
      val met = Option(metTables.get(name)).flatten
      val stood = atSnapshot(base, name, met, isNew = !isRead)
      Option.when(stood.map(Definition.of(_).identity) != met.map(Definition.of(_).identity)) {
        metTables.put(name, stood)
        stood
      }
    }

  /** What the metastore says, with all that an entry does not hold of it, as long as it says the same. */
  private def settled[A](
      base: ExternalCatalog,
      now: Option[A],
      key: String => NameKey,
      isNew: Boolean)(make: NamedObject => A)(implicit describe: A => NamedObject): Option[A] = {
    // Of a schema all counts that is known of it; tables have that in their logs.
    def isSame(other: Option[NamedObject]) = NamedObject.areSame(now.map(describe), other) &&
      (!other.exists(_.kind == NamedObject.Schema) || now.map(describe) == other)
    val others = otherwise(base, isNew)
    val stood = others.iterator.collectFirst { case (k, v) if k == key(k.metastore) => v }
    stood match {
      case Some(other) if !isSame(other) => other.map(make)
      case _ => now
    }
  }

  private implicit val ofTable: CatalogTable => NamedObject = Definition.of(_)
  private implicit val ofSchema: CatalogDatabase => NamedObject = Definition.of(_)

  def schema(base: ExternalCatalog, name: String): Option[CatalogDatabase] =
    state.schemas.getOrElse(name, metSchema(base, name))

  private def metSchema(base: ExternalCatalog, name: String): Option[CatalogDatabase] =
    Option(metSchemas.get(name)).getOrElse {
      val now = Metastore.schema(base, name)
      val stood =
        if (now.isEmpty && isOfPaths(name)) None
        else
          settled(base, now, NameKey(_, name, None), isNew = now.isEmpty) {
            Definition.schema(name, _)
          }
      Option(metSchemas.putIfAbsent(name, stood)).getOrElse(stood)
    }

  /** @param now what the metastore lists */
  def tables(base: ExternalCatalog, schema: String, now: => Seq[String]): Seq[String] =
    listed(
      Metastore.found(now).getOrElse(Nil).filterNot(Metastore.isAside),
      otherwise(base, isNew = true).collect { case (NameKey(_, `schema`, Some(name)), there) =>
        name -> there.isDefined
      },
      state.tables.collect { case (TableName(`schema`, name), there) => name -> there.isDefined }
    )

  def schemas(base: ExternalCatalog, now: Seq[String]): Seq[String] =
    listed(
      now,
      otherwise(base, isNew = true).collect { case (NameKey(_, name, None), there) =>
        name -> there.isDefined
      },
      state.schemas.map { case (name, there) => name -> there.isDefined }
    )

  private def otherwise(
      base: ExternalCatalog,
      isNew: Boolean): Map[NameKey, Option[NamedObject]] = {
    val all = before(isNew)
    if (all.isEmpty) all
    else {
      val id = Metastore.known(base)
      all.filter { case (key, _) => id.contains(key.metastore) }
    }
  }

  private def listed(now: Seq[String], changes: Map[String, Boolean]*): Seq[String] =
    changes.foldLeft(now.toSet) { (names, changed) =>
      names -- changed.keys ++ changed.filter(_._2).keys
    }.toSeq.sorted

  /** Names that statements have met and that are no Delta tables, whose logs tell what others do: views, and nothing. */
  def read(base: ExternalCatalog): Set[NameKey] =
    met(base)(!_.exists(DeltaTableUtils.isDeltaTable))

  /** What statements have met as names of tables and views, by what it stood for. */
  def met(base: ExternalCatalog)(counts: Option[CatalogTable] => Boolean): Set[NameKey] =
    Metastore.known(base).toSet.flatMap { id: String =>
      metTables.asScala.collect {
        case (name, there) if counts(there) => NameKey(id, name.schema, Some(name.name))
      }
    }

  /** The table that the transaction itself has dropped last under a name, if no other name stands for it. */
  def droppedHere(name: TableName): Option[CatalogTable] = state.dropped.get(name)
    .filterNot(table => state.tables.values.flatten.exists(_.storage == table.storage))

  def change(next: NameState => NameState): Unit = {
    current.updateAndGet(next(_))
    ()
  }

  /** What COMMIT has to make, in a fixed order: the net effect. */
  def changes(base: ExternalCatalog): Vector[NameChange] =
    if (state.isEmpty) Vector.empty
    else {
      val id = Metastore.id(base)
      val schemas = state.schemas.toVector.sortBy(_._1).map { case (name, after) =>
        NameChange(
          NameKey(id, name, None),
          metSchema(base, name).map(Definition.of),
          after.map(Definition.of)
        )
      }
      val tables = state.tables.toVector.sortBy(t => (t._1.schema, t._1.name)).map {
        case (name, after) =>
          NameChange(
            NameKey(id, name.schema, Some(name.name)),
            metTable(base, name).map(Definition.of),
            after.map(Definition.of)
          )
      }
      (schemas ++ tables).filter(c => c.before != c.after)
    }

  /** Dropped tables whose data COMMIT gives up. */
  @volatile var purges: Vector[Purge] = Vector.empty

  /** Whether a table of the transaction names data files of another one. */
  @volatile var hasClones: Boolean = false

  private val folders = new AtomicInteger

  /** The name of a folder for a managed table. */
  def folderOfNewTable(transaction: String): String =
    s"${TableRef.OwnParent}${transaction.take(13)}-${folders.incrementAndGet()}"

  /** Whether a name is still that of the table at a path. */
  def isOf(name: TableIdentifier, base: Path): Boolean =
    state.tables.get(TableName.of(name)).forall {
      _.exists(_.storage.locationUri.exists(new Path(_) == base))
    }

  private val made = ConcurrentHashMap.newKeySet[Path]

  /** A managed table lies there, in a folder that the transaction has made for it. */
  def makes(base: Path): Unit = {
    made.add(base)
    ()
  }

  def hasMade(base: Path): Boolean = made.contains(base)

  /** Whether the transaction has given such a table a name, and taken it away again. */
  def isNameless(base: Path): Boolean = hasMade(base) &&
    !state.tables.values.flatten.exists(_.storage.locationUri.exists(new Path(_) == base))
}
