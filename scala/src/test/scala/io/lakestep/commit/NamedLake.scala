package io.lakestep.commit

import scala.collection.mutable

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NameKey, NamedObject}

/** A metastore with a schema that several clients have, or not. */
private[commit] final class SharedMetastore {
  val schema: NameKey = NameKey("m", "s", None)
  val ofSchema: NamedObject = NamedObject(NamedObject.Schema, Some(TableRef("/s")), Json.obj())
  val names: mutable.Map[NameKey, NamedObject] = mutable.Map(schema -> ofSchema)
  var asked = 0

  /**
   * @param sleep between asking for a name and changing it
   * @param dropped when what had a name of another kind is dropped, and the name is free
   * @param repairing before it puts names right
   */
  def client(
      id: String = "m",
      works: Boolean = true,
      sleep: () => Unit = () => (),
      dropped: () => Unit = () => (),
      repairing: () => Unit = () => ()): Catalogs = new Catalogs {
    override def has(metastore: String): Boolean = metastore == id
    override def mayHave(metastore: String): Boolean = has(metastore)
    override def find(key: NameKey): Option[NamedObject] = names.get(key)
    override def isStill(metastore: String): Boolean = has(metastore)
    override def inside(schema: NameKey): Set[String] = Set.empty
    override def mayBeLeft(changes: Vector[NameChange], now: Option[NamedObject]): Boolean =
      !NamedObject.areSame(now, changes.last.after) &&
        changes.exists(c => NamedObject.areSame(now, c.after))
    override def namesAt(places: Vector[TableRef]): Map[TableRef, String] = places.flatMap {
      place =>
        names.collectFirst {
          case (key, named) if named.path.contains(place) => place -> key.toString
        }
    }.toMap
    override def repair(
        entries: Vector[CommitEntry],
        atRisk: Set[NameKey],
        left: Making,
        making: Making,
        again: NameChange => NameChange): Vector[Throwable] = {
      repairing()
      entries.flatMap(_.names).groupBy(_.key).foreach { case (key, changes) =>
        val now = names.get(key)
        if (mayBeLeft(changes, now)) {
          val after = changes.last.after
          val wanted =
            NameChange(key, now, if (atRisk(key)) after.map(_.asExternal) else after)
          make(wanted, again)
        }
      }
      Vector.empty
    }
    override def apply(
        entry: CommitEntry,
        making: Making,
        again: NameChange => NameChange): Vector[Throwable] = {
      asked += 1
      if (!works) throw new IllegalStateException("the metastore is away")
      val wanted = entry.names.filter { c =>
        has(c.key.metastore) && NamedObject.areSame(names.get(c.key), c.before)
      }
      sleep()
      wanted.foreach(make(_, again))
      Vector.empty
    }
    private def make(change: NameChange, again: NameChange => NameChange): Unit = {
      val isOtherKind = change.drops && change.after.isDefined
      if (change.drops) names.remove(change.key)
      if (isOtherKind) dropped()
      val made = if (isOtherKind) again(change) else change
      names.updateWith(change.key)(_ => made.after)
      ()
    }
  }
}

/** The catalogs of a client, to change one of their answers. */
private[lakestep] class ForwardingCatalogs(real: Catalogs) extends Catalogs {
  override def has(metastore: String): Boolean = real.has(metastore)
  override def mayHave(metastore: String): Boolean = real.mayHave(metastore)
  override def isStill(metastore: String): Boolean = real.isStill(metastore)
  override def find(key: NameKey): Option[NamedObject] = real.find(key)
  override def inside(schema: NameKey): Set[String] = real.inside(schema)
  override def mayBeLeft(changes: Vector[NameChange], now: Option[NamedObject]): Boolean =
    real.mayBeLeft(changes, now)
  override def namesAt(places: Vector[TableRef]): Map[TableRef, String] = real.namesAt(places)
  override def apply(
      entry: CommitEntry,
      making: Making,
      again: NameChange => NameChange): Vector[Throwable] = real(entry, making, again)
  override def repair(
      entries: Vector[CommitEntry],
      atRisk: Set[NameKey],
      left: Making,
      making: Making,
      again: NameChange => NameChange): Vector[Throwable] =
    real.repair(entries, atRisk, left, making, again)
}

/** Tables A and B, and their names in a schema of a metastore. */
private[commit] final class NamedLake {
  val lake: Lake = Lake.inMemory()
  val store = new SharedMetastore
  import store.schema
  for (name <- Seq("A", "B")) {
    lake.create(name, s"${name.toLowerCase}1")
    store.names(key(name)) = named(name)
  }

  def key(name: String): NameKey = schema.copy(name = Some(name))
  def named(table: String): NamedObject =
    NamedObject(NamedObject.Table, Some(lake.path(table)), Json.obj().put("type", "MANAGED"))

  def drop(name: String): NameChange = drop(name, name)
  def drop(name: String, table: String): NameChange =
    NameChange(key(name), Some(named(table)), None)
  def make(name: String, table: String): NameChange =
    NameChange(key(name), None, Some(named(table)))

  def client(
      catalogs: Catalogs = store.client(),
      observer: CommitSteps = CommitSteps.Silent,
      safeguards: Safeguards = Safeguards.all,
      interval: Int = 64,
      pause: Long => Unit = _ => ()): Database = lake.client(
    observer,
    options =
      Lake.Forgetful.copy(catalogs = catalogs, checkpointInterval = interval, pause = pause),
    safeguards = safeguards
  )

  def rename(db: Database, from: String, to: String, table: String): CommitOutcome =
    commit(
      db,
      NameChange(key(from), Some(named(table)), None),
      NameChange(key(to), None, Some(named(table)))
    )

  def commit(db: Database, changes: NameChange*): CommitOutcome = {
    val txn = lake.begin(db)
    db.commit(txn, Nil, Nil, changes.toVector)
  }

  def places: Map[String, String] = (for ((k, o) <- store.names; name <- k.name)
    yield name -> o.path.fold("")(_.uri.split('/').last)).toMap
}
