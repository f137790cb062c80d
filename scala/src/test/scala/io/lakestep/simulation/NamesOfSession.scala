package io.lakestep.simulation

import java.util.SplittableRandom

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}

import io.lakestep.commit.{BegunTransaction, Catalogs, Database, QueryNames, ReadNames}
import io.lakestep.log.TableRef
import io.lakestep.names.{Definition, NameState, TableName, TransactionNames}
import io.lakestep.timeline.{DroppedTable, NameChange, NameKey, NamedObject}

/**
 * A session's metastore, and the names of what it does, as the product's own code has them.
 *
 * @param refusedPercent how many changes the metastore refuses
 * @param contended whether only two names are made and dropped, and the client often sleeps meanwhile
 */
final class NamesOfSession(
    world: World,
    client: SimulatedClient,
    random: SplittableRandom,
    protections: Protections,
    metastore: SimulatedMetastore,
    refusedPercent: Int,
    contended: Boolean) {

  private val catalog = {
    val dice = random.split()
    def refuses() = refusedPercent > 0 && dice.nextInt(100) < refusedPercent
    def naps() = if (contended && dice.nextInt(4) == 0)
      world.scheduler.running.sleep(20 + dice.nextInt(1000))
    new SimulatedCatalog(
      world,
      metastore,
      client,
      protections.keepsFolders,
      () => refuses(),
      () => naps()
    )
  }

  val catalogs: Catalogs = SimulatedCatalog.catalogs(catalog, world.conf, protections.protocol)

  /** Whether some thread of the client makes what an entry says. */
  def isMaking: Boolean = catalog.isMaking

  /** The names of a transaction. */
  def of(database: Database, begun: BegunTransaction): NamesOfTransaction = new NamesOfTransaction(
    new TransactionNames(once(database.namesBefore(begun, _))),
    database,
    Some(begun.snapshot),
    None
  )

  /** Those of a query outside a transaction; nothing where the client knows of no change of a name. */
  def ofQuery(database: Database): Option[NamesOfTransaction] =
    database.namesOfQuery().map { query =>
      val before = once(_ => slowly(() => query.before()))
      new NamesOfTransaction(new TransactionNames(before), database, None, Some(query))
    }

  private type Before = Boolean => Map[NameKey, Option[NamedObject]]

  /** The timeline is read after each answer of the metastore, or only once and before all. */
  private def once(before: Before): Before =
    if (protections.asksMetastoreFirst) before
    else {
      val read = before(true)
      _ => read
    }

  /** Others may do a lot between an answer of the metastore and the reading of the timeline. */
  private def slowly[A](read: () => A): A = {
    if (random.nextInt(3) == 0) world.scheduler.running.sleep(random.nextInt(30))
    read()
  }

  final class NamesOfTransaction(
      names: TransactionNames,
      database: Database,
      snapshot: Option[Long],
      query: Option[QueryNames]) {

    val from: Int = world.scheduler.step
    private var met = Map.empty[TableName, Option[CatalogTable]]

    private def table(name: TableName) = names.table(catalog, name)

    /** Reads some names; gives the tables that they stand for. */
    def meet(): Vector[String] = {
      val all = NamesOfSession.all.map(n => random.nextInt() -> n).sortBy(_._1).map(_._2)
      // Those that mostly stand for something, also in pairs that change places.
      val some = all.filter(_.schema == "s").take(1 + random.nextInt(3)) ++
        all.take(random.nextInt(2))
      some.distinct.foreach(n => met += n -> table(n))
      met.values.flatten.flatMap(_.storage.locationUri).map(l => TableRef(l.toString).uri)
        .filter(world.tables.contains).toVector.distinct.sorted
    }

    /**
     * Once the tables are pinned. False when a name stood for something else.
     *
     * @param isRead whether the timeline was read for a table's pin
     */
    def confirm(isRead: String => Boolean): Boolean = {
      val other = met.keys.toVector.sortBy(_.toString).flatMap { n =>
        val isPinned = met(n).flatMap(_.storage.locationUri).exists { l =>
          isRead(TableRef(l.toString).uri)
        }
        names.confirm(catalog, n, isRead = isPinned).map(n -> _)
      }
      met ++= other
      if (other.nonEmpty) world.counts.event("name that stood for something else")
      other.isEmpty
    }

    def ofQuery: Option[ReadNames] = query.map(ReadNames(_, names.met(catalog)(_ => true)))

    /**
     * What has been read is held against the entries; with the names in a schema.
     *
     * @param rows the versions of tables that were read
     */
    def saw(who: String, isLast: Boolean = false, rows: Map[String, Long] = Map.empty): Unit = {
      val schema = Vector("s", "t")(random.nextInt(2))
      val listed =
        if (random.nextInt(2) == 0) None
        else Some(schema -> names.tables(catalog, schema, catalog.listTables(schema)).toSet)
      world.saw(SeenNames(
        who,
        metastore,
        from,
        world.scheduler.step,
        snapshot,
        met.map { case (n, t) => metastore.key(n) -> t.map(Definition.of) },
        listed,
        rows,
        isLast
      ))
    }

    def changes: Vector[NameChange] = names.changes(catalog)
    def read: Set[NameKey] = names.read(catalog)

    private def change(next: NameState => NameState): Unit = names.change(next)

    private def some(schema: String): TableName = {
      val all = NamesOfSession.of(contended).filter(_.schema == schema)
      all(random.nextInt(all.size))
    }
    private def schema: String = if (contended || random.nextInt(3) > 0) "s" else "t"
    private def isThere(schema: String) = names.schema(catalog, schema).isDefined
    private def give(name: TableName, table: CatalogTable)(state: NameState): NameState =
      state.set(
        name,
        Some(table.copy(identifier = TableIdentifier(name.name, Some(name.schema))))
      )
    private def folder(name: TableName): String = {
      val made = s"${SimulatedMetastore.folder(name.schema)}/lakestep-${world.token()}"
      world.store.create(s"$made/rows", Array.emptyByteArray, client.name)
      made
    }

    /**
     * One statement that changes names, if there is something to change.
     *
     * @param made a table that the transaction makes, and that has no name yet
     */
    def statement(made: Option[String]): Unit = {
      val (one, other) = (some(schema), some(schema))
      if (made.isDefined) create(one, made)
      else if (world.hasPurges && random.nextInt(4) > 0) random.nextInt(9) match {
        case 0 | 1 | 2 => if (table(one).isDefined) change(_.set(one, None))
        case 3 | 4 | 5 => create(one, None)
        case 6 => undrop()
        case 7 => undrop(other)
        case _ => changeSchema(random.nextInt(2))
      }
      else
        random.nextInt(if (contended) 4 else 17) match {
          case 0 | 1 => create(one, None)
          case 2 | 3 => if (table(one).isDefined) change(_.set(one, None))
          case 4 | 5 | 6 =>
            for (there <- table(one) if table(other).isEmpty && isThere(other.schema))
              change(s => give(other, there)(s.set(one, None)))
          case 7 | 8 | 9 =>
            for (a <- table(one); b <- table(other) if one != other)
              change(s => give(other, a)(give(one, b)(s)))
          case 10 | 11 => undrop()
          case 12 => for (there <- table(one)) alter(one, there)
          case 13 => view(one)
          case n => changeSchema(n)
        }
    }

    private def create(name: TableName, made: Option[String]): Unit =
      if (isThere(name.schema) && table(name).isEmpty) {
        val path = made.getOrElse(folder(name))
        val table = SimulatedMetastore.table(
          name,
          path,
          isManaged = contended || random.nextBoolean() || world.hasPurges,
          client.clock.nowMs()
        )
        change(give(name, table))
      }

    private def undrop(): Unit = undrop(d => TableName(d.key.schema, d.key.name.getOrElse("")))

    /** CREATE TABLE at the path of a dropped one, without more. */
    private def undrop(name: TableName): Unit = undrop(_ => name)

    private def undrop(nameOf: DroppedTable => TableName): Unit = {
      val all = database.dropped().filter(_.key.metastore == metastore.id)
      if (all.nonEmpty) {
        val one = all(random.nextInt(all.size))
        val name = nameOf(one)
        if (isThere(name.schema) && table(name).isEmpty) {
          world.counts.event("undrop")
          val was = Definition.table(TableIdentifier(name.name, Some(name.schema)), one.table)
          change(give(name, was))
        }
      }
    }

    private def alter(name: TableName, there: CatalogTable): Unit =
      if (there.tableType == CatalogTableType.VIEW) view(name)
      else
        change(give(
          name,
          there.copy(properties = Map("p" -> world.token().toString))
        ))

    /** Also in the place of a table. */
    private def view(name: TableName): Unit =
      if (isThere(name.schema) &&
        (random.nextInt(3) == 0 || table(name).forall(_.tableType == CatalogTableType.VIEW)))
        change(give(name, SimulatedMetastore.view(name, s"SELECT ${world.token()}")))

    private def changeSchema(number: Int): Unit = {
      val schema = "t"
      val comment = world.token().toString
      names.schema(catalog, schema) match {
        case None => change(_.set(schema, Some(SimulatedMetastore.schema(schema, comment))))
        case Some(there) if number % 2 == 0 =>
          change(_.set(schema, Some(there.copy(description = comment))))
        case Some(_) =>
          world.counts.event("drop of a schema")
          val inside = names.tables(catalog, schema, catalog.listTables(schema))
          change(state =>
            inside.foldLeft(state)((s, t) => s.set(TableName(schema, t), None)).set(schema, None)
          )
      }
    }
  }
}

object NamesOfSession {

  /** All names that anybody uses. */
  val all: Vector[TableName] =
    Vector("a", "b", "c", "d").map(TableName("s", _)) ++ Vector("a", "v").map(TableName("t", _))

  /** Those that somebody changes. */
  private def of(contended: Boolean): Vector[TableName] = if (contended) all.take(2) else all

  /** What the names of a metastore stand for at first: tables of the history, one without a log, a view. */
  def setUp(world: World, metastore: SimulatedMetastore, random: SplittableRandom): Unit = {
    val (s, t) = ("s", "t")
    def schema(name: String) =
      metastore.putSchema(name, Some(SimulatedMetastore.schema(name)), Some(SetUp))
    schema(s)
    if (random.nextBoolean()) schema(t)
    def give(name: TableName, path: String) = metastore.put(
      metastore.key(name),
      Some(SimulatedMetastore.table(
        name,
        path,
        isManaged = random.nextBoolean() || world.hasPurges,
        World.StartMs
      )),
      Some(SetUp)
    )
    give(TableName(s, "a"), "/A")
    give(TableName(s, "b"), "/B")
    if (world.tables.contains("/C")) give(TableName(s, "c"), "/C")
    val folder = s"${SimulatedMetastore.folder(s)}/d-${metastore.id}"
    world.store.create(s"$folder/rows", Array.emptyByteArray, "set-up")
    give(TableName(s, "d"), folder)
    if (metastore.schema(t).isDefined)
      metastore.put(
        metastore.key(TableName(t, "v")),
        Some(SimulatedMetastore.view(TableName(t, "v"), "SELECT 0")),
        Some(SetUp)
      )
    metastore.initial
    ()
  }

  private def SetUp = new Applying(0, 0, _ => None, wasNoted = false)

  /** A client without Lakestep that changes one name in a metastore. */
  def foreign(
      world: World,
      client: SimulatedClient,
      metastore: SimulatedMetastore,
      random: SplittableRandom,
      contended: Boolean): Unit =
    if (random.nextInt(4) == 0) foreignSchema(world, client, metastore)
    else foreignTable(world, client, metastore, random, contended)

  /** Makes `t`, or drops it, where it is empty; its folder stays. */
  private def foreignSchema(
      world: World,
      client: SimulatedClient,
      metastore: SimulatedMetastore): Unit = {
    val t = "t"
    client.change(Request.ChangeSchema, s"${metastore.id} $t") {
      if (metastore.schema(t).isEmpty)
        metastore.putSchema(t, Some(SimulatedMetastore.schema(t, world.token().toString)), None)
      else if (metastore.inside(t).isEmpty) metastore.putSchema(t, None, None)
      else None
    }
    ()
  }

  private def foreignTable(
      world: World,
      client: SimulatedClient,
      metastore: SimulatedMetastore,
      random: SplittableRandom,
      contended: Boolean): Unit = {
    val names = of(contended)
    val name = names(random.nextInt(names.size))
    val table = random.nextInt(4) match {
      case 0 => None
      case 1 => Some(SimulatedMetastore.view(name, s"SELECT ${world.token()}"))
      case 2 =>
        val home = SimulatedMetastore.home(metastore.key(name))
        world.store.create(s"$home/rows", Array.emptyByteArray, client.name)
        Some(SimulatedMetastore.table(name, home, isManaged = true, client.clock.nowMs()))
      case _ =>
        val path = s"/foreign/${world.token()}"
        Some(SimulatedMetastore.table(name, path, isManaged = false, client.clock.nowMs()))
    }
    client.change(Request.ChangeName, s"${metastore.id} ${metastore.key(name)}") {
      metastore.put(metastore.key(name), table, None)
    }
    ()
  }
}
