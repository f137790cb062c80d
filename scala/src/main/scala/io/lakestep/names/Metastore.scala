package io.lakestep.names

import java.net.URI
import java.util.{Collections, UUID, WeakHashMap}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogTable, CatalogTableType, ExternalCatalog
}

import io.lakestep.{Errors, LakestepException}
import io.lakestep.commit.Catalogs
import io.lakestep.log.TableRef
import io.lakestep.storage.CanonicalPath
import io.lakestep.timeline.{CommitEntry, NameChange, NameKey, NamedObject}

/**
 * The metastore of this Spark, past any transaction.
 *
 * It is known by a random id that is stored in it, as a property of the schema `default`: two addresses may
 * lead to one metastore, and one address to two.
 *
 * Spark's clients delete and move folders: `dropTable` that of a managed table, `dropDatabase` all below,
 * `renameTable` moves it. So a table is made external before it is dropped, names are altered instead
 * of renamed, and a schema is dropped when its folder is empty.
 */
private[lakestep] final class Metastore(catalog: => ExternalCatalog, conf: => Configuration)
    extends Catalogs {
  import Metastore.Elsewhere

  /** The id, which this call stores when there is none. */
  def id: String = Metastore.id(catalog)

  override def has(metastore: String): Boolean =
    try Metastore.known(catalog).contains(metastore)
    catch { case NonFatal(_) => false }

  override def isStill(metastore: String): Boolean =
    Metastore.read(catalog).contains(metastore)

  override def find(key: NameKey): Option[NamedObject] = key.name match {
    case Some(name) => Metastore.table(catalog, key.schema, name).map(Definition.of)
    case None => Metastore.schema(catalog, key.schema).map(Definition.of)
  }

  override def apply(entry: CommitEntry): Vector[Throwable] = {
    val ours = entry.names.filter(c => has(c.key.metastore))
    val (schemas, others) = ours.partition(_.key.name.isEmpty)
    val (dropped, kept) = schemas.partition(_.after.isEmpty)
    // A name goes to its new owner before it goes from the old one.
    (kept ++ others.filter(_.after.isDefined) ++ others.filter(_.after.isEmpty) ++ dropped)
      .flatMap(make(entry, _))
  }

  private def make(entry: CommitEntry, change: NameChange): Option[Throwable] = {
    val now = find(change.key)
    val isUnmoved = NamedObject.areSame(change.before, change.after)
    if (NamedObject.areSame(now, change.after) && !isUnmoved) None
    else if (NamedObject.areSame(now, change.before) || isHalfMade(change, now))
      if (change.key.name.isEmpty && change.after.isEmpty && inside(change.key).nonEmpty)
        Some(taken(entry, change, now))
      else
        try {
          change.key.name.fold(makeSchema(change))(makeTable(change, _))
          None
        } catch {
          // Not again by whoever comes next: names that were made may have been changed by then.
          case e: LakestepException => Some(e)
        }
    else Some(taken(entry, change, now))
  }

  /**
   * Whether somebody ended halfway: what cannot be altered is dropped first, and a schema is moved
   * before it is dropped.
   */
  private def isHalfMade(change: NameChange, now: Option[NamedObject]): Boolean =
    (change.before, change.after, now) match {
      case (Some(old), Some(other), None) => old.kind != other.kind
      case (Some(old), None, Some(there)) if there.kind == NamedObject.Schema =>
        there.path.exists(p => old.path.exists(o => p.uri.startsWith(s"${o.uri}/$Elsewhere")))
      case _ => false
    }

  private def makeTable(change: NameChange, name: String): Unit = {
    val schema = change.key.schema
    val identifier = TableIdentifier(name, Some(schema))
    (change.before, change.after) match {
      case (None, Some(made)) =>
        catalog.createTable(Definition.table(identifier, made), ignoreIfExists = false)
      case (Some(old), Some(now)) if old.kind == now.kind =>
        catalog.alterTable(Definition.table(identifier, now))
      case (Some(_), after) =>
        for (there <- Metastore.table(catalog, schema, name)) {
          keepingFolder(there)
          catalog.dropTable(schema, name, ignoreIfNotExists = true, purge = false)
        }
        for (now <- after)
          catalog.createTable(Definition.table(identifier, now), ignoreIfExists = false)
      case _ =>
    }
  }

  private def keepingFolder(table: CatalogTable): Unit =
    if (table.tableType == CatalogTableType.MANAGED)
      catalog.alterTable(table.copy(tableType = CatalogTableType.EXTERNAL))

  private def makeSchema(change: NameChange): Unit = (change.before, change.after) match {
    case (None, Some(made)) =>
      catalog.createDatabase(Definition.schema(change.key.schema, made), ignoreIfExists = true)
    case (Some(_), Some(now)) =>
      val schema = Definition.schema(change.key.schema, now)
      val own =
        catalog.getDatabase(schema.name).properties.view.filterKeys(_ == Definition.IdProperty)
      catalog.alterDatabase(schema.copy(properties = schema.properties ++ own))
    case _ =>
      Metastore.schema(catalog, change.key.schema).foreach { there =>
        keepingTables(there)
        catalog.dropDatabase(change.key.schema, ignoreIfNotExists = true, cascade = false)
      }
  }

  override def inside(schema: NameKey): Set[String] =
    if (Metastore.schema(catalog, schema.schema).isEmpty) Set.empty
    else
      (catalog.listTables(schema.schema) ++ catalog.listFunctions(schema.schema, "*")).toSet

  override def namesAt(places: Vector[TableRef]): Map[TableRef, String] = {
    def resolved(location: Path): String =
      // A store that this client does not have is none of the tables'.
      try TableRef(CanonicalPath(location, conf).toUri.toString).uri
      catch { case NonFatal(_) => location.toString }
    val wanted = places.map(place => place -> resolved(new Path(new URI(place.uri))))
    val named = for {
      schema <- catalog.listDatabases()
      table <- catalog.getTablesByName(schema, catalog.listTables(schema))
      location <- table.storage.locationUri
    } yield table.identifier.unquotedString -> resolved(new Path(location))
    wanted.flatMap { case (place, path) =>
      named.collectFirst {
        case (name, other) if CanonicalPath.areNested(path, other) => place -> name
      }
    }.toMap
  }

  /** Hive and the in-memory catalog delete the folder, in which tables may lie that were dropped. */
  private def keepingTables(schema: CatalogDatabase): Unit = {
    val folder = new Path(schema.locationUri)
    val fs = folder.getFileSystem(conf)
    def isEmpty = !fs.exists(folder) || fs.listStatus(folder).isEmpty
    if (!isEmpty) {
      val elsewhere = new Path(folder, s"$Elsewhere${UUID.randomUUID}").toUri
      catalog.alterDatabase(schema.copy(locationUri = elsewhere))
      if (!Metastore.schema(catalog, schema.name).exists(_.locationUri == elsewhere))
        throw Errors(
          "LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY",
          "schema" -> schema.name,
          "folder" -> folder.toString
        )
    }
  }

  private def taken(entry: CommitEntry, change: NameChange, now: Option[NamedObject]): Throwable =
    Errors(
      "LAKESTEP_NAME_TAKEN",
      "name" -> change.key.toString,
      "entry" -> entry.number.toString,
      "transaction" -> entry.transaction.id,
      "wanted" -> change.after.fold("nothing")(Metastore.shown),
      "found" -> now.fold("nothing")(Metastore.shown)
    )
}

private[lakestep] object Metastore {

  /** How the folder begins in which a schema lies that is about to be dropped. */
  private val Elsewhere = ".lakestep-"

  private val Default = "default"

  /** What a user is told of it. */
  def shown(named: NamedObject): String =
    named.path.fold(named.kind)(path => s"${named.kind} ${path.uri}")

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
