package io.lakestep.simulation

import scala.collection.mutable

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  NoSuchDatabaseException, NoSuchTableException, TableAlreadyExistsException
}
import org.apache.spark.sql.catalyst.catalog.{CatalogDatabase, CatalogTable, CatalogTableType}

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.names.{Definition, Metastore, TableName}
import io.lakestep.timeline.{NameKey, NamedObject}

/**
 * A metastore as Spark's catalogs keep one: schemas, and what stands in them. Its methods act at once;
 * [[SimulatedCatalog]] is the way in which clients see it.
 *
 * Like Hive it would delete the folder of a managed table that is dropped, and that of a schema: that a
 * file lies there is noted as a broken invariant, and the file stays.
 *
 * @param id how entries call it
 */
final class SimulatedMetastore(world: World, val id: String) {

  private val schemas = mutable.TreeMap("default" -> SimulatedMetastore.schema("default").copy(
    properties = Map(Definition.IdProperty -> id)
  ))
  private val tables = mutable.TreeMap.empty[(String, String), CatalogTable]
  private val changes = mutable.Map.empty[NameKey, Int]
  private val wrong = mutable.Map.empty[NameKey, Int]
  private val foreign = mutable.Set.empty[NameKey]

  /** When a name last led to a folder to which it leads no more. */
  private val led = mutable.Map.empty[String, Int]

  /** Names that were last changed by a client that was late. */
  private val madeLate = mutable.Set.empty[NameKey]

  /** What the names stood for at first. */
  lazy val initial: Map[NameKey, NamedObject] = now

  def schemaKey(schema: String): NameKey = NameKey(id, schema, None)
  def key(name: TableName): NameKey = NameKey(id, name.schema, Some(name.name))

  def now: Map[NameKey, NamedObject] =
    (schemas.toMap.map { case (n, s) => schemaKey(n) -> Definition.of(s) } ++
      tables.toMap.map { case ((s, n), t) => key(TableName(s, n)) -> Definition.of(t) })

  def schema(name: String): Option[CatalogDatabase] = schemas.get(name)
  def table(name: TableName): Option[CatalogTable] = tables.get(name.schema -> name.name)
  def inside(schema: String): Vector[String] =
    tables.keysIterator.collect { case (`schema`, name) => name }.toVector

  def all: Vector[String] = schemas.keysIterator.toVector

  /** Whether a name leads to such a folder, or has since a step. */
  def hasLedTo(isIt: String => Boolean, since: Int): Boolean =
    tables.values.flatMap(SimulatedMetastore.place(_)).exists(isIt) ||
      led.exists { case (path, step) => step >= since && isIt(path) }

  /** How often a name was changed. */
  def changesOf(key: NameKey): Int = changes.getOrElse(key, 0)

  /**
   * When a name was first changed by somebody without Lakestep, or by a client that was late; or its
   * schema was, or something in a schema.
   */
  def disturbedAt(key: NameKey): Option[Int] =
    wrong.iterator.collect { case (k, step) if k.meets(key) => step }.minOption

  /** Whether somebody without Lakestep has changed a name, or its schema, or something in a schema. */
  def isForeign(key: NameKey): Boolean = foreign.exists(_.meets(key))

  /** @param by the entry whose change this is, with what was met there; nothing for a foreign client */
  def put(key: NameKey, table: Option[CatalogTable], by: Option[Applying]): Option[Throwable] = {
    val at = (key.schema, key.name.getOrElse(""))
    if (!schemas.contains(key.schema)) Some(new NoSuchDatabaseException(key.schema))
    else {
      for (before <- tables.get(at); path <- SimulatedMetastore.place(before))
        led(path) = world.scheduler.step
      table.fold(tables -= at)(t => tables += at -> timeless(t))
      changed(key, by, table.map(Definition.of))
      None
    }
  }

  def create(table: CatalogTable, by: Option[Applying]): Option[Throwable] = {
    val name = TableName.of(table.identifier)
    if (tables.contains(name.schema -> name.name))
      Some(new TableAlreadyExistsException(name.schema, name.name))
    else put(key(name), Some(table), by)
  }

  /** The time of a view is that of the real clock, and no part of its definition. */
  private def timeless(table: CatalogTable) =
    if (table.tableType == CatalogTableType.VIEW) table.copy(createTime = 0L) else table

  def alter(table: CatalogTable, by: Option[Applying]): Option[Throwable] = {
    val name = TableName.of(table.identifier)
    if (!tables.contains(name.schema -> name.name))
      Some(new NoSuchTableException(name.schema, name.name))
    else put(key(name), Some(table), by)
  }

  def drop(name: TableName, by: Option[Applying]): Option[Throwable] =
    table(name).flatMap { there =>
      if (there.tableType == CatalogTableType.MANAGED) there.storage.locationUri.foreach { l =>
        deletes(TableRef(l.toString).uri, key(name), by)
      }
      put(key(name), None, by)
    }

  /** A managed table goes with its folder, which here stays. */
  def rename(from: TableName, to: TableName, by: Option[Applying]): Option[Throwable] =
    table(from) match {
      case None => Some(new NoSuchTableException(from.schema, from.name))
      case Some(_) if table(to).isDefined =>
        Some(new TableAlreadyExistsException(to.schema, to.name))
      case Some(there) =>
        if (there.tableType == CatalogTableType.MANAGED) moves(there, key(from), key(to), by)
        val moved = there.copy(identifier = TableIdentifier(to.name, Some(to.schema)))
        val wasLate = madeLate(key(from))
        val failed = put(key(from), None, by).orElse(put(key(to), Some(moved), by))
        // Who has set it aside may give it its name back.
        if (wasLate) madeLate += key(to)
        failed
    }

  def putSchema(
      name: String,
      schema: Option[CatalogDatabase],
      by: Option[Applying]): Option[Throwable] = {
    schema.fold(schemas -= name)(s => schemas += name -> s)
    changed(schemaKey(name), by, schema.map(Definition.of))
    None
  }

  def dropSchema(name: String, by: Option[Applying]): Option[Throwable] =
    if (inside(name).nonEmpty) Some(new IllegalStateException(s"$name is not empty"))
    else
      schemas.get(name).flatMap { there =>
        deletes(TableRef(there.locationUri.toString).uri, schemaKey(name), by)
        putSchema(name, None, by)
      }

  private def deletes(folder: String, key: NameKey, by: Option[Applying]): Unit =
    if (world.store.below(folder).nonEmpty) {
      if (madeLate(key)) world.counts.event("late drop of what was made late")
      else world.violated(s"FOLDER $folder is deleted with ${key.metastore}.$key: $by")
    }

  /** One of somebody without Lakestep comes back, from where it was set aside. */
  private def moves(
      there: CatalogTable,
      key: NameKey,
      to: NameKey,
      by: Option[Applying]): Unit = {
    def isHome(key: NameKey) =
      there.storage.locationUri.exists(_.getPath == SimulatedMetastore.home(key))
    if (madeLate(key)) world.counts.event("late drop of what was made late")
    else if (isHome(key) || Metastore.isAside(key.name.getOrElse("")) && isHome(to))
      world.counts.event("late drop of a foreign table")
    else world.violated(s"FOLDER of ${key.metastore}.$key is moved by the metastore: $by")
  }

  private def changed(key: NameKey, by: Option[Applying], now: Option[NamedObject]): Unit = {
    def isMade(applying: Applying) = applying.wanted(key).exists(NamedObject.areSame(now, _))
    val isWrong = by.forall { a =>
      isOvertaken(a) || isBehind(
        key,
        a,
        now
      ) || a.met.get(key).exists(_ != changesOf(key)) && !isMade(a)
    }
    if (isWrong) {
      world.counts.event(if (by.isEmpty) "foreign change of a name" else "late change of a name")
      if (by.isEmpty) foreign += key
      wrong.getOrElseUpdate(key, world.scheduler.step)
      ()
    }
    if (isWrong && by.isDefined) madeLate += key else madeLate -= key
    changes(key) = changesOf(key) + 1
    by.foreach(_.changed(key, changesOf(key)))
  }

  private def isOvertaken(by: Applying) = world.isApplied(by.entry) && !by.wasNoted

  /** Whether it puts something right by entries of which a later one is completed by now. */
  private def isBehind(key: NameKey, by: Applying, now: Option[NamedObject]) = by.wasNoted && {
    val later = world.completedAfter(by.last).flatMap(_.names).filter(_.key == key)
    later.lastOption.exists(c => !NamedObject.areSame(c.after, now))
  }
}

/**
 * What a client knows that makes what an entry says.
 *
 * @param last the newest one of which it knows, where it puts right what an earlier one says
 * @param wanted what a name is to stand for
 * @param wasNoted whether it was noted before that the work is done
 */
final class Applying(
    val entry: Long,
    val last: Long,
    val wanted: NameKey => Option[Option[NamedObject]],
    val wasNoted: Boolean,
    original: Option[Applying] = None) {
  private val seen = mutable.Map.empty[NameKey, Int]

  /** How often each name had been changed when the client asked. */
  def met: Map[NameKey, Int] = seen.toMap
  def meets(key: NameKey, changes: Int): Unit = seen(key) = changes

  /** A late client stays late. */
  def changed(key: NameKey, changes: Int): Unit = {
    if (seen.get(key).forall(_ == changes - 1)) seen(key) = changes
    original.foreach(_.changed(key, changes))
  }

  /** As it is now; what is told to the copy is told to this, too. */
  def copied: Applying = {
    val copy = new Applying(entry, last, wanted, wasNoted, Some(this))
    copy.seen ++= seen
    copy
  }

  override def toString: String = s"entry $entry"
}

object SimulatedMetastore {

  private def place(table: CatalogTable): Option[String] =
    table.storage.locationUri.map(l => Alias.real(TableRef(l.toString).uri))

  /** Where the tables of a schema lie. */
  def folder(schema: String): String = s"/warehouse/$schema"

  /** Where a managed table lies that somebody without Lakestep makes. */
  def home(key: NameKey): String = s"${folder(key.schema)}/${key.name.getOrElse("")}"

  def schema(name: String, comment: String = ""): CatalogDatabase =
    CatalogDatabase(name, comment, new java.net.URI(folder(name)), Map.empty)

  def table(
      name: TableName,
      path: String,
      isManaged: Boolean,
      createdMs: Long): CatalogTable = Definition.table(
    TableIdentifier(name.name, Some(name.schema)),
    NamedObject(
      NamedObject.Table,
      Some(TableRef(path)),
      Json.obj().put("type", if (isManaged) "MANAGED" else "EXTERNAL").put("location", path)
        .put("provider", "delta").put("schema", Schema).put(NamedObject.Created, createdMs / 1000)
    )
  )

  def view(name: TableName, text: String): CatalogTable = Definition.table(
    TableIdentifier(name.name, Some(name.schema)),
    NamedObject(
      NamedObject.View,
      None,
      Json.obj().put("type", "VIEW").put("schema", Schema).put("viewText", text)
    )
  )

  private val Schema = """{"type":"struct","fields":[]}"""
}
