package io.lakestep.simulation

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.analysis.{NoSuchDatabaseException, NoSuchTableException}
import org.apache.spark.sql.catalyst.catalog.{CatalogDatabase, CatalogTable, ExternalCatalog}

import io.lakestep.catalog.ExternalCatalogCalls
import io.lakestep.commit.{Catalogs, ForwardingCatalogs, Safeguards}
import io.lakestep.names.{Metastore, TableName}
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NameKey}

/**
 * A metastore as one client sees it: every call is a request, and so a scheduling point.
 *
 * @param detaches whether a managed table may be made external
 * @param refuses whether the next change is refused
 * @param pauses what happens before a change
 */
final class SimulatedCatalog(
    world: World,
    metastore: SimulatedMetastore,
    client: SimulatedClient,
    detaches: Boolean,
    refuses: () => Boolean,
    pauses: () => Unit)
    extends ExternalCatalogCalls(SimulatedCatalog.Nothing) {

  private val working = mutable.Map.empty[Scheduler#Actor, Applying]

  /**
   * Work that makes what an entry says, or what the last of several does.
   *
   * @param isRepair whether it is known that the first was made before
   */
  def applying[A](entries: Vector[CommitEntry], isRepair: Boolean)(work: => A): A = {
    val (number, wanted) =
      (entries.head.number, entries.flatMap(_.names).map(c => c.key -> c.after).toMap)
    val actor = world.scheduler.running
    val last = entries.last.number
    working(actor) = new Applying(number, last, wanted.get, isRepair || world.isApplied(number))
    try work
    finally working -= actor
  }

  /** Whether some thread of the client makes what an entry says. */
  def isMaking: Boolean = working.nonEmpty

  private def by: Option[Applying] = working.get(world.scheduler.running)

  private def path(key: NameKey) = s"${metastore.id} $key"

  private def ask[A](request: Request, key: NameKey)(answer: => A): A =
    client.ask(request, path(key)) {
      by.foreach(_.meets(key, metastore.changesOf(key)))
      answer
    }

  private def change(request: Request, key: NameKey)(
      effect: Option[Applying] => Option[Throwable]): Unit = {
    pauses()
    // As the client knows it now, also where the change happens later.
    val who = by.map(_.copied)
    if (refuses()) throw new MetastoreAway(path(key))
    client.change(request, path(key))(effect(who)).foreach(e => throw e)
  }

  override def getDatabase(name: String): CatalogDatabase =
    ask(
      Request.AskSchema,
      metastore.schemaKey(name)
    )(metastore.schema(name)).getOrElse(throw new NoSuchDatabaseException(name))

  override def getTable(schema: String, table: String): CatalogTable =
    ask(Request.AskName, metastore.key(TableName(schema, table))) {
      metastore.table(TableName(schema, table))
    }.getOrElse(throw new NoSuchTableException(schema, table))

  override def listTables(schema: String): Seq[String] =
    ask(Request.ListNames, metastore.schemaKey(schema)) {
      metastore.schema(schema).map(_ => metastore.inside(schema))
    }.getOrElse(throw new NoSuchDatabaseException(schema))

  override def listDatabases(): Seq[String] =
    client.ask(Request.ListNames, metastore.id)(metastore.all)

  override def getTablesByName(schema: String, tables: Seq[String]): Seq[CatalogTable] =
    ask(Request.ListNames, metastore.schemaKey(schema)) {
      metastore.schema(schema).map(_ => tables.flatMap(t => metastore.table(TableName(schema, t))))
    }.getOrElse(throw new NoSuchDatabaseException(schema))

  override def listFunctions(schema: String, pattern: String): Seq[String] = Nil

  override def createTable(table: CatalogTable, ignoreIfExists: Boolean): Unit =
    changeTable(TableName.of(table.identifier))(metastore.create(table, _))

  override def alterTable(table: CatalogTable): Unit = if (detaches || !isDetached(table))
    changeTable(TableName.of(table.identifier))(metastore.alter(table, _))

  private def isDetached(table: CatalogTable) = metastore.table(TableName.of(table.identifier))
    .exists(t => t.storage == table.storage && t.tableType != table.tableType)

  override def dropTable(
      schema: String,
      table: String,
      ignoreIfNotExists: Boolean,
      purge: Boolean): Unit =
    changeTable(TableName(schema, table))(metastore.drop(TableName(schema, table), _))

  override def renameTable(schema: String, from: String, to: String): Unit =
    changeTable(TableName(schema, from))(
      metastore.rename(TableName(schema, from), TableName(schema, to), _)
    )

  private def changeTable(name: TableName)(
      effect: Option[Applying] => Option[Throwable]): Unit =
    change(Request.ChangeName, metastore.key(name))(effect)

  override def createDatabase(schema: CatalogDatabase, ignoreIfExists: Boolean): Unit =
    changeSchema(schema.name) { by =>
      if (metastore.schema(schema.name).isDefined) None
      else metastore.putSchema(schema.name, Some(schema), by)
    }

  override def alterDatabase(schema: CatalogDatabase): Unit = changeSchema(schema.name) { by =>
    if (metastore.schema(schema.name).isEmpty) Some(new NoSuchDatabaseException(schema.name))
    else metastore.putSchema(schema.name, Some(schema), by)
  }

  override def dropDatabase(name: String, ignoreIfNotExists: Boolean, cascade: Boolean): Unit =
    changeSchema(name)(metastore.dropSchema(name, _))

  private def changeSchema(name: String)(effect: Option[Applying] => Option[Throwable]): Unit =
    change(Request.ChangeSchema, metastore.schemaKey(name))(effect)
}

object SimulatedCatalog {
  private val Nothing: ExternalCatalog = null

  /** The product's own metastore over it. */
  def catalogs(catalog: SimulatedCatalog, conf: Configuration, safeguards: Safeguards): Catalogs =
    new ForwardingCatalogs(new Metastore(catalog, conf, safeguards)) {
      override def apply(
          entry: CommitEntry,
          making: Making,
          again: NameChange => NameChange): Vector[Throwable] =
        catalog.applying(Vector(entry), isRepair = false)(super.apply(entry, making, again))
      override def repair(
          entries: Vector[CommitEntry],
          atRisk: Set[NameKey],
          left: Making,
          making: Making,
          again: NameChange => NameChange): Vector[Throwable] =
        catalog.applying(entries, isRepair = true) {
          super.repair(entries, atRisk, left, making, again)
        }
    }
}
