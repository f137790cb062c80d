package io.lakestep.names

import java.net.URI
import java.util.{Collections, UUID, WeakHashMap}

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.NoSuchDatabaseException
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogTable, CatalogTableType, ExternalCatalog
}

import io.lakestep.{Errors, Json, LakestepException}
import io.lakestep.commit.{Catalogs, Safeguards}
import io.lakestep.log.TableRef
import io.lakestep.storage.CanonicalPath
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NameKey, NamedObject}

/**
 * The metastore of this Spark, past any transaction.
 *
 * It is known by a random id that is stored in it, as a property of the schema `default`: two addresses may
 * lead to one metastore, and one address to two.
 *
 * Spark's clients delete and move folders: `dropTable` that of a managed table, `dropDatabase` all below,
 * `renameTable` moves it. So names are altered instead of renamed, and what is dropped lies elsewhere
 * then: a schema at a place that never was, and a table, once it is external, under a name that
 * nobody else uses. Whatever others have put in its place since this client looked is not dropped.
 */
private[lakestep] final class Metastore(
    catalog: => ExternalCatalog,
    conf: => Configuration,
    safeguards: Safeguards = Safeguards.all)
    extends Catalogs {

  /** The id, which this call stores when there is none. */
  def id: String = Metastore.id(catalog)

  override def has(metastore: String): Boolean = isOurs(metastore, unknown = false)

  override def mayHave(metastore: String): Boolean = isOurs(metastore, unknown = true)

  private def isOurs(metastore: String, unknown: Boolean) =
    try Metastore.known(catalog).contains(metastore)
    catch { case NonFatal(_) => unknown }

  override def isStill(metastore: String): Boolean =
    Metastore.read(catalog).contains(metastore)

  override def find(key: NameKey): Option[NamedObject] = key.name match {
    case Some(name) => Metastore.table(catalog, key.schema, name).map(Definition.of)
    case None => Metastore.schema(catalog, key.schema).map(Definition.of)
  }

  override def apply(
      entry: CommitEntry,
      making: Making,
      again: NameChange => NameChange = identity): Vector[Throwable] =
    telling(begins => inOrder(entry.names)(make(entry, _, making, again, begins)))

  /** Tells what failed before the first change. */
  private def telling[A](work: (() => Unit) => A): A = {
    var isChanged = false
    try work(() => isChanged = true)
    catch { case NonFatal(e) if !isChanged => throw new Catalogs.NothingChanged(e) }
  }

  private def inOrder[A](changes: Vector[NameChange])(work: NameChange => Option[A]): Vector[A] = {
    val ours = changes.filter(c => has(c.key.metastore))
    val (schemas, others) = ours.partition(_.key.name.isEmpty)
    val (dropped, kept) = schemas.partition(_.after.isEmpty)
    // A name goes to its new owner before it goes from the old one.
    (kept ++ others.filter(_.after.isDefined) ++ others.filter(_.after.isEmpty) ++ dropped)
      .flatMap(work(_))
  }

  override def repair(
      entries: Vector[CommitEntry],
      atRisk: Set[NameKey],
      left: Making,
      making: Making,
      again: NameChange => NameChange = identity): Vector[Throwable] = telling { begins =>
    val histories = entries.flatMap(_.names).groupBy(_.key)
    val first = entries.head
    val ended = for (c <- first.names; name <- c.key.name if has(c.key.metastore)) yield {
      val ours = histories(c.key).flatMap(h => h.before ++ h.after)
      try {
        endDrop(c.key.schema, name, ours, left, begins)
        None
      } catch { case e: AnalysisException => Some(e) }
    }
    ended.flatten ++ inOrder(first.names.map(c => c.copy(after = histories(c.key).last.after))) {
      wanted =>
        val now = find(wanted.key)
        val isHeld = atRisk(wanted.key)
        // One that may be about to drop a schema does not keep others from that.
        val waits = isHeld && wanted.key.name.isEmpty && wanted.after.isDefined
        if (!mayBeLeft(histories(wanted.key), now) || waits) None
        else {
          val after = if (isHeld) wanted.after.map(_.asExternal) else wanted.after
          make(first, wanted.copy(before = now, after = after), making, again, begins)
        }
    }
  }

  override def mayBeLeft(changes: Vector[NameChange], now: Option[NamedObject]): Boolean =
    LeftNames.mayBe(changes, now)

  /** @param begins told before the metastore is changed */
  private def make(
      entry: CommitEntry,
      change: NameChange,
      making: Making,
      again: NameChange => NameChange,
      begins: () => Unit): Option[Throwable] = {
    val isDrop = change.key.name.isEmpty && change.after.isEmpty
    val now = find(change.key)
    val isUnmoved = NamedObject.areSame(change.before, change.after)
    if (NamedObject.areSame(now, change.after) && !isUnmoved) None
    else if (NamedObject.areSame(now, change.before) || LeftNames.isHalfMade(change, now)) {
      if (isDrop && now.isDefined) endDrops(change.key.schema, begins)
      if (isDrop && all(change.key).nonEmpty) {
        begins()
        putBack(change, now)
        Some(taken(entry, change, now))
      } else
        try {
          begins()
          change.key.name.fold(makeSchema(change, making))(makeTable(change, _, making, again))
          None
        } catch {
          // Not again by whoever comes next: names that were made may have been changed by then.
          case e: LakestepException if e.getCondition == SchemaFolder.NotEmpty => Some(e)
          // Somebody else does the same, and is quicker.
          case _: AnalysisException
              if !isUnmoved && NamedObject.areSame(find(change.key), change.after) => None
          case _: NoSuchDatabaseException => Some(taken(entry, change, None))
        }
    } else Some(taken(entry, change, now))
  }

  /** A schema that somebody has begun to drop, and that stays, as it is not empty. */
  private def putBack(change: NameChange, now: Option[NamedObject]): Unit =
    for (old <- change.before if LeftNames.isHalfMade(change, now))
      catalog.alterDatabase(Definition.schema(change.key.schema, old))

  private def makeTable(
      change: NameChange,
      name: String,
      making: Making,
      again: NameChange => NameChange): Unit = {
    val schema = change.key.schema
    val identifier = TableIdentifier(name, Some(schema))
    def create(made: NamedObject) =
      catalog.createTable(Definition.table(identifier, made), ignoreIfExists = false)
    (change.before, change.after) match {
      case (None, Some(made)) => create(made)
      case (Some(old), Some(now)) if old.kind == now.kind =>
        catalog.alterTable(Definition.table(identifier, now))
      case (Some(old), after) =>
        drop(schema, name, old, making)
        // Others may have begun to drop it since.
        if (after.isDefined) again(change).after.foreach(create)
      case _ =>
    }
  }

  private def drop(schema: String, name: String, old: NamedObject, making: Making): Unit =
    for (there <- Metastore.table(catalog, schema, name) if isStill(there, old))
      // Somebody else may do the same, and be quicker.
      Metastore.found {
        if (Metastore.isManaged(there))
          catalog.alterTable(there.copy(tableType = CatalogTableType.EXTERNAL))
        if (safeguards.setsAside && isSetAside(schema, name, making))
          endDrop(schema, name, Seq(old), making)
        else dropName(schema, name)
      }

  private def dropName(schema: String, name: String): Unit =
    catalog.dropTable(schema, name, ignoreIfNotExists = true, purge = false)

  /** Not by a client of Glue, for example, which renames no table. */
  private def isSetAside(schema: String, name: String, making: Making): Boolean = {
    @tailrec
    def isUnsupported(e: Throwable): Boolean = e match {
      case null => false
      case _: UnsupportedOperationException => true
      case other => isUnsupported(other.getCause)
    }
    try {
      catalog.renameTable(schema, name, Metastore.aside(name, making))
      true
    } catch { case e if isUnsupported(e) => false }
  }

  private def isStill(there: CatalogTable, old: NamedObject): Boolean =
    NamedObject.areSame(Some(Definition.of(there)), Some(old))

  /** Drops what was set aside, or gives it back, if it is none of ours. */
  private def endDrop(
      schema: String,
      name: String,
      ours: Seq[NamedObject],
      making: Making,
      begins: () => Unit = () => ()): Unit = {
    val aside = Metastore.aside(name, making)
    for (there <- Metastore.table(catalog, schema, aside)) {
      begins()
      if (!safeguards.looksAside || ours.exists(isStill(there, _)) && !Metastore.isManaged(there))
        dropName(schema, aside)
      else catalog.renameTable(schema, aside, name)
    }
  }

  /** Those of others who have died, or have not ended yet, in a schema that goes. */
  private def endDrops(schema: String, begins: () => Unit): Unit =
    for {
      name <- catalog.listTables(schema) if Metastore.isAside(name)
      there <- Metastore.table(catalog, schema, name)
      if !Metastore.isManaged(there)
    } {
      begins()
      dropName(schema, name)
    }

  private def makeSchema(change: NameChange, making: Making): Unit =
    (change.before, change.after) match {
      case (None, Some(made)) =>
        catalog.createDatabase(Definition.schema(change.key.schema, made), ignoreIfExists = false)
      case (Some(_), Some(now)) =>
        val schema = Definition.schema(change.key.schema, now)
        val own =
          catalog.getDatabase(schema.name).properties.view.filterKeys(_ == Definition.IdProperty)
        catalog.alterDatabase(schema.copy(properties = schema.properties ++ own))
      case _ =>
        Metastore.schema(catalog, change.key.schema).foreach { there =>
          if (safeguards.movesSchemas) keepingTables(there, making)
          // Where this fails the folder stays elsewhere: what was asked may still happen.
          catalog.dropDatabase(there.name, ignoreIfNotExists = true, cascade = false)
        }
    }

  override def inside(schema: NameKey): Set[String] =
    all(schema).filterNot(Metastore.isAside)

  private def all(schema: NameKey): Set[String] =
    if (Metastore.schema(catalog, schema.schema).isEmpty) Set.empty
    else
      ifThere {
        (catalog.listTables(schema.schema) ++ catalog.listFunctions(schema.schema, "*")).toSet
      }(Set.empty)

  /** A schema may go before what is in it is asked for. */
  private def ifThere[A](asked: => A)(gone: A): A =
    try asked
    catch { case _: NoSuchDatabaseException => gone }

  override def namesAt(places: Vector[TableRef]): Map[TableRef, String] = {
    def resolved(location: Path): String =
      // A store that this client does not have is none of the tables'.
      try TableRef(CanonicalPath(location, conf).toUri.toString).uri
      catch { case NonFatal(_) => location.toString }
    val wanted = places.map(place => place -> resolved(new Path(new URI(place.uri))))
    val named = for {
      schema <- catalog.listDatabases()
      table <- ifThere(catalog.getTablesByName(schema, catalog.listTables(schema)))(Nil)
      location <- table.storage.locationUri
    } yield table.identifier.unquotedString -> resolved(new Path(location))
    wanted.flatMap { case (place, path) =>
      named.collectFirst {
        case (name, other) if CanonicalPath.areNested(path, other) => place -> name
      }
    }.toMap
  }

  /**
   * Hive and the in-memory catalog delete the folder, in which tables may lie that were dropped. Hive
   * before 3.0 does not let it be changed.
   */
  private def keepingTables(schema: CatalogDatabase, making: Making): Unit =
    SchemaFolder.leave(catalog, conf, schema, s"${LeftNames.Elsewhere}${making.id}")

  private def taken(entry: CommitEntry, change: NameChange, now: Option[NamedObject]): Throwable =
    Errors(
      "LAKESTEP_NAME_TAKEN",
      "name" -> change.key.toString,
      "entry" -> entry.number.toString,
      "transaction" -> entry.transaction.id,
      "wanted" -> change.after.fold("nothing")(Metastore.shown),
      "found" -> now.fold("nothing")(Metastore.shown),
      "next" -> Metastore.nextStep(change.after)
    )
}

private[lakestep] object Metastore {

  private val Default = "default"

  /** The name that a table has for the moment before it is dropped. No other client, and no other time, has it. */
  private def aside(name: String, making: Making): String =
    s"lakestep_dropping_${making.id}_${Json.blake3(name).take(16)}"

  private def isManaged(table: CatalogTable) = table.tableType == CatalogTableType.MANAGED

  private val Aside = "lakestep_dropping_[0-9a-f]{32}_[0-9a-f]{16}".r
  def isAside(name: String): Boolean = Aside.matches(name)

  /** What a user is told of it. */
  def shown(named: NamedObject): String =
    named.path.fold(named.kind)(path => s"${named.kind} ${path.uri}")

  /** What is done about a name that somebody else has taken. */
  private def nextStep(wanted: Option[NamedObject]): String = wanted match {
    case Some(NamedObject(NamedObject.Table, Some(path), _)) =>
      // As SQL spells it: not escaped as a URI is.
      val place = new Path(new URI(path.uri)).toString.replace("\\", "\\\\").replace("'", "\\'")
      "The table can be read and written by its path. To give it a name, say " +
        s"CREATE TABLE another_name USING delta LOCATION '$place'."
    case Some(other) => s"Make the ${other.kind} by another name."
    case None => "That stays. Drop it if it is not wanted."
  }

  private val ids = Collections.synchronizedMap(new WeakHashMap[ExternalCatalog, String])

  /** The id, when the metastore has one. What is thrown says that it is not known whether it has. */
  def known(catalog: ExternalCatalog): Option[String] =
    Option(ids.get(catalog)).orElse(read(catalog))

  /** As it is now: of two clients that store the first at once, one must learn of the other's. */
  private def read(catalog: ExternalCatalog): Option[String] = {
    val found = schema(catalog, Default).flatMap(_.properties.get(Definition.IdProperty))
    found.foreach(ids.put(catalog, _))
    found
  }

  /** The id, which this call stores when there is none. */
  def id(catalog: ExternalCatalog): String = known(catalog).getOrElse {
    def refusal(cause: Throwable) =
      Errors.caused("LAKESTEP_METASTORE_WITHOUT_ID", cause, "property" -> Definition.IdProperty)
    try {
      val default = catalog.getDatabase(Default)
      // Somebody else may just have stored one.
      if (!default.properties.contains(Definition.IdProperty)) {
        val made = UUID.randomUUID.toString.replace("-", "")
        val property = Definition.IdProperty -> made
        catalog.alterDatabase(default.copy(properties = default.properties + property))
      }
    } catch { case NonFatal(cause) => throw refusal(cause) }
    known(catalog).getOrElse(throw refusal(null))
  }

  def table(catalog: ExternalCatalog, schema: String, name: String): Option[CatalogTable] =
    found(catalog.getTable(schema, name))

  def schema(catalog: ExternalCatalog, name: String): Option[CatalogDatabase] =
    found(catalog.getDatabase(name))

  /**
   * What is asked for, nothing where the table or its schema is not there. Hive's client throws another
   * class than Spark's own catalog.
   */
  def found[A](look: => A): Option[A] =
    try Some(look)
    catch { case e: AnalysisException if Absent(e.getCondition) => None }

  private val Absent = Set("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")
}
