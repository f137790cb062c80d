package io.lakestep.commit

import java.util.concurrent.atomic.AtomicLong

import scala.collection.concurrent.TrieMap
import scala.util.control.ControlThrowable

import io.lakestep.{Clock, Ids, Json}
import io.lakestep.log.{
  Action, AddFile, CommitInfo, CommitMark, DomainMetadata, JsonStates, MetaData, PinnedHeader,
  Protocol, RemoveFile, RowSets, SetTransaction, TableLog, TableRef
}
import io.lakestep.storage.{MemoryStore, ObjectStore, ObjectStores}
import io.lakestep.timeline.{CommitEntry, TimelineCodec}

/** A client that stops for ever, at once. */
final class Crash extends ControlThrowable

/** A clock that stands still until it is moved. */
final class ManualClock extends Clock {
  private val time = new AtomicLong(1000L)
  override def nowMs(): Long = time.get
  override def steadyMs(): Long = time.get
  def advance(ms: Long): Unit = { time.addAndGet(ms); () }
}

/** A small lake: tables of files in a store, foreign writers, and clients of one root. */
private[lakestep] class Lake(
    val store: ObjectStore,
    val clock: ManualClock,
    base: String = "/lake") {
  val stores: ObjectStores = ObjectStores.single(store)
  val states = new JsonStates(store)
  val root = s"$base/_lakestep"
  private val counter = new AtomicLong
  val ids: Ids = () => f"${counter.incrementAndGet()}%032x"

  def path(table: String): TableRef = TableRef(s"$base/$table")
  def log(table: String): TableLog = new TableLog(store, path(table))

  def client(
      observer: CommitSteps = CommitSteps.Silent,
      root: String = root,
      options: DatabaseOptions = Lake.Forgetful,
      safeguards: Safeguards = Safeguards.all,
      stores: ObjectStores = stores): Database =
    Database.open(root, stores, states, RowSets, clock, ids, observer, options, safeguards)

  /** What the steps of a client see, to take one of them alone. */
  private[commit] def environment(client: Database): Environment = new Environment(
    client.timeline,
    stores,
    states,
    RowSets,
    clock,
    ids,
    CommitSteps.Silent,
    DatabaseOptions(),
    Safeguards.all
  )

  def add(
      name: String,
      dv: Option[String] = None,
      rows: Long = 10,
      dataChange: Boolean = true): AddFile = {
    val body = Json.obj().put("path", name).put("size", 100).put("modificationTime", 1)
      .put("dataChange", dataChange).put("stats", s"""{"numRecords":$rows}""")
    body.putObject("partitionValues")
    dv.foreach(d =>
      body.putObject("deletionVector").put(
        "storageType",
        "u"
      ).put("pathOrInlineDv", d).put("cardinality", 1)
    )
    AddFile(body)
  }

  def remove(name: String, dv: Option[String] = None, dataChange: Boolean = true): RemoveFile = {
    val body =
      Json.obj().put("path", name).put("deletionTimestamp", 1).put("dataChange", dataChange)
        .put("extendedFileMetadata", true).put("size", 100)
    body.putObject("partitionValues")
    dv.foreach(d =>
      body.putObject("deletionVector").put(
        "storageType",
        "u"
      ).put("pathOrInlineDv", d).put("cardinality", 1)
    )
    RemoveFile(body)
  }

  def metaData(
      id: String,
      schema: String = "a",
      properties: Map[String, String] = Map.empty): MetaData = {
    val body = Json.obj().put("id", id).put("schemaString", schema)
    val configuration = body.putObject("configuration")
    properties.foreach { case (k, v) => configuration.put(k, v) }
    MetaData(body)
  }

  def protocol(features: String*): Protocol = {
    val body =
      Json.obj().put("minReaderVersion", 1).put("minWriterVersion", if (features.isEmpty) 2 else 7)
    if (features.nonEmpty) features.foldLeft(body.putArray("writerFeatures"))((a, f) => a.add(f))
    Protocol(body)
  }

  def commitInfo(operation: String, blind: Boolean = true): CommitInfo =
    CommitInfo(Json.obj().put("timestamp", clock.nowMs()).put("operation", operation)
      .put("userName", "someone").put("isBlindAppend", blind))

  def txn(app: String, version: Long): SetTransaction = SetTransaction(app, version, 0L)

  def domain(name: String, configuration: String): DomainMetadata =
    DomainMetadata(Json.obj().put(
      "domain",
      name
    ).put("configuration", configuration).put("removed", false))

  /** An entry of the timeline, which is a commit. */
  def entry(number: Long): CommitEntry = {
    val file = f"$root/timeline/$number%020d.json"
    TimelineCodec.decodeEntry(file, store.get(file).get).asInstanceOf[CommitEntry]
  }

  /** The id of the first transaction of the timeline. */
  def firstTransaction: String = entry(1).transaction.id

  /** A foreign commit at the head. */
  def foreign(table: String, actions: Action*): Long = {
    val version = log(table).tail(0).head.fold(0L)(_ + 1)
    touch(actions)
    store.putIfAbsent(
      path(table).slot(version),
      TableLog.text(commitInfo("WRITE", actions.forall(_.isInstanceOf[AddFile])) +: actions)
    )
    version
  }

  /** Files that commits name exist. */
  def touch(actions: Seq[Action]): Unit = ()

  def create(table: String, files: String*): Unit =
    create(table, protocol(), Map.empty[String, String], files)

  def create(
      table: String,
      protocol: Protocol,
      properties: Map[String, String],
      files: Seq[String]): Unit = {
    val header = Seq[Action](protocol, metaData(s"id-$table", properties = properties))
    foreign(table, header ++ files.map(add(_)): _*)
    files.foreach(file(table, _))
  }

  def file(table: String, name: String): Unit = {
    store.putIfAbsent(s"${path(table)}/$name", Array[Byte](1))
    ()
  }

  def begin(
      db: Database,
      isolation: IsolationLevel = IsolationLevel.Snapshot,
      readOnly: Boolean = false,
      notBefore: Long = 0): BegunTransaction =
    db.begin(BeginRequest(Some("test"), "me", "suite", isolation, readOnly, notBefore))

  /** One staged commit, after those that are staged already. */
  def stage(txn: BegunTransaction, table: String, pin: Long, actions: Action*): Unit = {
    val version = pin + 1 + staged(txn, table)
    val file = path(table).stagedSlot(txn.id, version)
    val blind = actions.forall(a => !a.isInstanceOf[RemoveFile])
    val first =
      if (actions.exists(_.isInstanceOf[CommitInfo])) Nil else Seq(commitInfo("WRITE", blind))
    store.putIfAbsent(file, TableLog.text(first ++ actions))
    lastStaged += table -> version
    ()
  }

  /** How many commits a transaction has staged in a table. */
  def staged(txn: BegunTransaction, table: String): Int =
    store.list(path(table).staging(txn.id), "0").count(_.name.endsWith(".json"))

  private val lastStaged = TrieMap.empty[String, Long]

  /** A table with what was last staged in it. */
  def written(table: String, pin: Long): WrittenTable = {
    val at = states.stateAt(path(table), pin)
    WrittenTable(
      path(table),
      table,
      at.metadataId,
      pin,
      lastStaged.getOrElse(table, pin),
      pinned = Some(PinnedHeader(at.metaData, at.protocol, at.domains.keySet))
    )
  }

  /** The live files of a table, with their deletion vectors. */
  def live(table: String): Set[String] = {
    val head = log(table).tail(0).head.getOrElse(-1L)
    states.stateAt(path(table), head).files.values.map(f => f.path + f.dvId.fold("")("@" + _)).toSet
  }

  /** Removes the table's folder, as DROP TABLE does. */
  def drop(table: String): Unit = store.deleteFolder(path(table).uri)

  def memory: MemoryStore = store match {
    case m: MemoryStore => m
    case other => throw new IllegalStateException(s"$other is no store in memory")
  }

  /** The net actions of a transaction in a table; there are several after a merge of rows. */
  def netActions(table: String, id: String): String = {
    val staging = path(table).staging(id)
    memory.paths.find(_.startsWith(s"$staging/commit-"))
      .getOrElse(throw new IllegalStateException(s"no net actions in $staging"))
  }

  /** The marks of ours in a table's log, in order. */
  def marks(table: String): Vector[CommitMark] =
    (0L to head(table)).toVector.flatMap(v => log(table).read(v)).flatMap(_.mark)

  def head(table: String): Long = log(table).tail(0).head.getOrElse(-1L)
}

private[lakestep] object Lake {

  /** Keeps no more than two entries of the timeline in memory, and puts a checkpoint for each. */
  val Forgetful: DatabaseOptions = DatabaseOptions(syncDataFiles = false, checkpointInterval = 1)

  def inMemory(): Lake = {
    val clock = new ManualClock
    new Lake(new MemoryStore(clock), clock)
  }
}

/** Two tables, and a transaction that rewrites a1 in A, or appends there, and rewrites b1 in B. */
private[lakestep] class TwoTables(
    rewriteA: Boolean = true,
    val lake: Lake = Lake.inMemory(),
    properties: Map[String, String] = Map.empty) {
  lake.create("A", lake.protocol(), properties, Seq("a1"))
  lake.create("B", lake.protocol(), properties, Seq("b1"))

  def run(observer: CommitSteps, stores: ObjectStores = lake.stores): CommitOutcome = {
    val db = lake.client(observer, stores = stores)
    val txn = lake.begin(db)
    if (rewriteA) lake.stage(txn, "A", 0, lake.remove("a1"), lake.add("a2"))
    else lake.stage(txn, "A", 0, lake.add("a2"))
    lake.stage(txn, "B", 0, lake.remove("b1"), lake.add("b2"))
    db.commit(txn, Seq("A", "B").map(lake.written(_, 0).copy(stagedTo = 1L)))
  }
}

private[lakestep] object Once {

  /** Runs `body` at the first call only. */
  def apply(body: => Unit): () => Unit = {
    var done = false
    () => if (!done) { done = true; body }
  }
}
