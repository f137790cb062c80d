package io.lakestep.timeline

import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import io.lakestep.{Json, Versions}
import io.lakestep.log.{ReadScan, ReadSet, RowFilter, TableRef}

/**
 * Timeline files as bytes, one JSON object each; every field is described in `scala/PROTOCOL.md`.
 *
 * Reading anything that is not such a file: LAKESTEP_TIMELINE_CORRUPT, naming the file. StrictFields that
 * are not known are ignored; what must not be ignored is a required feature, in `format.json` or an
 * entry.
 */
object TimelineCodec {

  /** Fences of `lakestep.foreignWriters = reserve`: whoever does not know them would leave them. */
  private val Reserve = "reserve"

  /** Changes of names: whoever does not know them would leave the metastore as it was. */
  private val Names = SnapshotCodec.Names

  /** Dropped tables whose data are deleted: whoever does not know them would give one its name again. */
  private val Purges = "purges"

  /** Tables that the entry makes: whoever does not know them would close one without a header. */
  private val NewTables = "newTables"

  /**
   * Tables that get several commits: whoever does not know them would give files other row ids than
   * those that stand inside them, and call the version of an earlier part by that of a later one.
   */
  private val Parts = "parts"

  /** Batches of streaming queries: whoever does not know them would apply one once more. */
  private val Batches = SnapshotCodec.Batches

  /** For people: nothing depends on it. */
  private val Assertions = "assertions"
  private val Undoes = "undoes"

  private val Features = Set(Reserve, Names, Purges, NewTables, Parts, Batches)

  def encode(entry: TimelineEntry): Array[Byte] = bytes(entry match {
    case c: CommitEntry =>
      val node = head("commit", c)
      val features = Vector(Reserve).filter(_ => c.tables.exists(_.reserve.isDefined)) ++
        Vector(Names).filter(_ => c.names.nonEmpty) ++
        Vector(Purges).filter(_ => c.purges.nonEmpty) ++
        Vector(NewTables).filter(_ => c.tables.exists(_.pin < 0)) ++
        Vector(Parts).filter(_ => c.tables.exists(_.parts > 1)) ++
        Vector(Batches).filter(_ => c.batches.nonEmpty)
      if (features.nonEmpty) {
        texts(node.putArray(StrictFields.RequiredFeatures), features)
        node.put(StrictFields.Writer, Versions.lakestep)
      }
      node.put("rules", c.rules)
      node.set[JsonNode]("transaction", requested(c.transaction))
      list(node.putArray("tables"), c.tables.map(table))
      list(node.putArray("reads"), c.reads.map(read))
      // Earlier versions ask for these.
      node.putArray("catalogActions")
      node.putArray("batchKeys")
      if (c.names.nonEmpty) list(node.putArray(Names), c.names.map(NameCodec.encode))
      if (c.purges.nonEmpty) list(node.putArray(Purges), c.purges.map(NameCodec.encode))
      if (c.batches.nonEmpty) list(node.putArray(Batches), c.batches.map(SnapshotCodec.batch))
      if (c.assertions.nonEmpty) list(node.putArray(Assertions), c.assertions.map(assertion))
      if (c.undoes.nonEmpty) list(node.putArray(Undoes), c.undoes.map(undone))
      node
    case a: AbortEntry =>
      val node = head("abort", a)
      texts(node.putArray("transactions"), a.transactions)
      node.put("reason", a.reason)
  })

  def decodeEntry(file: String, content: Array[Byte]): TimelineEntry = {
    val f = StrictFields.parse(file, content)
    f.checkFeatures(f.optStrings(StrictFields.RequiredFeatures).getOrElse(Vector.empty), Features)
    f.string("kind") match {
      case "commit" =>
        CommitEntry(
          number = f.long("number"),
          previousHash = f.string("previous"),
          timeMs = f.long("timeMs"),
          rules = f.int("rules"),
          transaction = requested(f.child("transaction")),
          tables = f.children("tables").map(table),
          reads = f.children("reads").map(read),
          names = f.optChildren(Names).fold(Vector.empty[NameChange])(_.map(NameCodec.decode)),
          purges = f.optChildren(Purges).fold(Vector.empty[Purge])(_.map(NameCodec.purge)),
          batches = f.optChildren(Batches).fold(Vector.empty[BatchKey])(_.map(SnapshotCodec.batch)),
          assertions =
            f.optChildren(Assertions).fold(Vector.empty[AssertionOutcome])(_.map(assertion)),
          undoes = f.optChildren(Undoes).fold(Vector.empty[Undone])(_.map(undone))
        )
      case "abort" =>
        AbortEntry(
          f.long("number"),
          f.string("previous"),
          f.long("timeMs"),
          f.strings("transactions"),
          f.string("reason")
        )
      case other => throw StrictFields.corrupt(file, s"its kind is $other")
    }
  }

  def encode(outcome: Outcome): Array[Byte] = bytes(outcome match {
    case c: Completed =>
      val node = outcomeHead("completed", c.number, c.entryHash, c.timeMs)
      val tables = node.putArray("slots")
      c.slots.foreach { versions =>
        val slots = tables.addArray()
        versions.foreach(v => slots.add(v))
      }
      if (c.commitHashes.exists(_.nonEmpty)) texts(node.putArray("commitHashes"), c.commitHashes)
      node
    case a: Aborting =>
      val node = outcomeHead("aborting", a.number, a.entryHash, a.timeMs)
      node.set[ObjectNode]("conflict", conflict(a.evidence))
  })

  def decodeOutcome(file: String, content: Array[Byte]): Outcome = {
    val f = StrictFields.parse(file, content)
    val (number, hash, time) = (f.long("number"), f.string("entryHash"), f.long("timeMs"))
    f.string("outcome") match {
      case "completed" =>
        val hashes = f.optStrings("commitHashes").getOrElse(Vector.empty)
        Completed(number, hash, time, f.longLists("slots"), hashes)
      case "aborting" => Aborting(number, hash, time, conflict(f.child("conflict")))
      case other => throw StrictFields.corrupt(file, s"its outcome is $other")
    }
  }

  def encode(rolledBack: RolledBack): Array[Byte] = {
    val node =
      outcomeHead("rolled_back", rolledBack.number, rolledBack.entryHash, rolledBack.timeMs)
    list(
      node.putArray("tables"),
      rolledBack.tables.map { t =>
        val settled = Json.obj().put("how", t.how)
        t.version.foreach(v => settled.put("version", v))
        texts(settled.putArray("residue"), t.residue)
        settled
      }
    )
    bytes(node)
  }

  def decodeRolledBack(file: String, content: Array[Byte]): RolledBack = {
    val f = StrictFields.parse(file, content)
    if (f.string("outcome") != "rolled_back")
      throw StrictFields.corrupt(file, "it is no rolled_back file")
    RolledBack(
      f.long("number"),
      f.string("entryHash"),
      f.long("timeMs"),
      f.children("tables")
        .map(t => RolledBackTable(t.string("how"), t.optLong("version"), t.strings("residue")))
    )
  }

  /** That what an entry has made of names is in the metastores. */
  def encodeApplied(number: Long, entryHash: String, timeMs: Long): Array[Byte] =
    bytes(outcomeHead("applied", number, entryHash, timeMs))

  /** That a client makes names of an entry. */
  def encodeMaking(number: Long, entryHash: String, timeMs: Long): Array[Byte] =
    bytes(outcomeHead("making", number, entryHash, timeMs))

  private def assertion(a: AssertionOutcome): ObjectNode =
    Json.obj().put("name", a.name).put("passed", a.passed)

  private def assertion(f: StrictFields): AssertionOutcome =
    AssertionOutcome(f.string("name"), f.flag("passed"))

  private def undone(u: Undone): ObjectNode = {
    val node = Json.obj()
    u.transaction.foreach(node.put("transaction", _))
    u.restored.foreach(node.put("restored", _))
    u.to.foreach(node.put("to", _))
    node
  }

  private def undone(f: StrictFields): Undone =
    Undone(f.optString("transaction"), f.optString("restored"), f.optString("to"))

  def encode(r: Requested): Array[Byte] = bytes(requested(r))

  def decodeRequested(file: String, content: Array[Byte]): Requested =
    requested(StrictFields.parse(file, content))

  private def head(kind: String, entry: TimelineEntry): ObjectNode =
    Json
      .obj()
      .put("kind", kind)
      .put("number", entry.number)
      .put("previous", entry.previousHash)
      .put("timeMs", entry.timeMs)

  private def outcomeHead(outcome: String, number: Long, hash: String, timeMs: Long): ObjectNode =
    Json
      .obj()
      .put("outcome", outcome)
      .put("number", number)
      .put("entryHash", hash)
      .put("timeMs", timeMs)

  private def requested(r: Requested): ObjectNode = {
    val node = Json.obj().put("id", r.id)
    r.name.foreach(n => node.put("name", n))
    node
      .put("user", r.user)
      .put("application", r.application)
      .put("isolation", r.isolation)
      .put("snapshot", r.snapshot)
      .put("requestedAtMs", r.requestedAtMs)
    r.labels.comment.foreach(c => node.put("comment", c))
    if (r.labels.tags.nonEmpty) {
      val tags = node.putObject("tags")
      r.labels.tags.toVector.sorted.foreach { case (key, value) => tags.put(key, value) }
    }
    node
  }

  private def requested(f: StrictFields): Requested = Requested(
    f.string("id"),
    f.optString("name"),
    f.string("user"),
    f.string("application"),
    f.string("isolation"),
    f.long("snapshot"),
    f.long("requestedAtMs"),
    new Labels(f.optString("comment"), f.optChild("tags").fold(Map.empty[String, String])(_.texts))
  )

  private def table(t: EntryTable): ObjectNode = {
    val node = Json
      .obj()
      .put("log", t.log)
      .put("tableId", t.tableId)
      .put("path", t.path.uri)
      .put("name", t.name)
    t.metastore.foreach(m => node.put("metastore", m))
    node.put("pin", t.pin).put("base", t.base)
    t.baseSlot.foreach { s =>
      node.putObject("baseSlot").put("sizeBytes", s.sizeBytes).put("modifiedMs", s.modifiedMs)
    }
    node
      .put("parts", t.parts)
      .put("conflictCapable", t.conflictCapable)
      .put("actionsHash", t.actionsHash)
    if (t.closed) node.put("closed", true)
    t.reserve.foreach(p => node.set[JsonNode](Reserve, p))
    t.reads.foreach(r => node.set[JsonNode]("reads", readSet(r)))
    t.metaDataHash.foreach(h => node.put("metaDataHash", h))
    t.protocolHash.foreach(h => node.put("protocolHash", h))
    node.put("inCommitTimestamps", t.inCommitTimestamps)
    t.inCommitTimestampMs.foreach(ts => node.put("inCommitTimestampMs", ts))
    t.rowIds.foreach { r =>
      val ids = node.putObject("rowIds").put("atPin", r.atPin).put("atBase", r.atBase)
      if (r.asStaged) ids.put("asStaged", true)
    }
    node.set[JsonNode]("added", sums(t.added))
    node.set[JsonNode]("removed", sums(t.removed))
    if (t.operations.nonEmpty) texts(node.putArray("operations"), t.operations)
    node
  }

  private def table(f: StrictFields): EntryTable = EntryTable(
    log = f.string("log"),
    tableId = f.string("tableId"),
    path = TableRef(f.string("path")),
    name = f.string("name"),
    metastore = f.optString("metastore"),
    pin = f.long("pin"),
    base = f.long("base"),
    baseSlot =
      f.optChild("baseSlot").map(s => SlotStamp(s.long("sizeBytes"), s.long("modifiedMs"))),
    parts = f.int("parts"),
    conflictCapable = f.flag("conflictCapable"),
    closed = f.optFlag("closed").contains(true),
    reserve = f.optObject(Reserve),
    reads = f.optChild("reads").map(readSet),
    actionsHash = f.string("actionsHash"),
    metaDataHash = f.optString("metaDataHash"),
    protocolHash = f.optString("protocolHash"),
    inCommitTimestamps = f.flag("inCommitTimestamps"),
    inCommitTimestampMs = f.optLong("inCommitTimestampMs"),
    rowIds = f.optChild("rowIds").map(r =>
      RowIds(r.long("atPin"), r.long("atBase"), r.optFlag("asStaged").getOrElse(false))
    ),
    added = sums(f.child("added")),
    removed = sums(f.child("removed")),
    operations = f.optStrings("operations").getOrElse(Vector.empty)
  )

  private def sums(s: FileSums): ObjectNode =
    Json.obj().put("files", s.files).put("rows", s.rows).put("sizeBytes", s.sizeBytes)

  private def sums(f: StrictFields): FileSums =
    FileSums(f.long("files"), f.long("rows"), f.long("sizeBytes"))

  private def read(r: EntryRead): ObjectNode = {
    val node = Json
      .obj()
      .put("log", r.log)
      .put("path", r.path.uri)
      .put("name", r.name)
      .put("pin", r.pin)
      .put("validatedTo", r.validatedTo)
    node.set[ObjectNode]("reads", readSet(r.reads))
  }

  private def read(f: StrictFields): EntryRead = EntryRead(
    f.string("log"),
    TableRef(f.string("path")),
    f.string("name"),
    f.long("pin"),
    f.long("validatedTo"),
    readSet(f.child("reads"))
  )

  /** Without `scans` it is the whole table. */
  private def readSet(reads: ReadSet): ObjectNode = {
    val node = Json.obj()
    reads.scans.foreach { scans =>
      val array = node.putArray("scans")
      scans.foreach { scan =>
        val one = array.addObject()
        one.set[JsonNode]("filter", RowFilter.encode(scan.filter))
        scan.files.foreach(files => texts(one.putArray("files"), files.toVector.sorted))
      }
    }
    node
  }

  /** A filter of a later version is read as every row. */
  private def readSet(f: StrictFields): ReadSet = ReadSet(
    f.optChildren("scans").map(_.map { scan =>
      ReadScan(
        RowFilter.decode(scan.child("filter").tree).getOrElse(RowFilter.Everything),
        scan.optStrings("files").map(_.toSet)
      )
    })
  )

  private def conflict(c: Conflict): ObjectNode = {
    val node = Json.obj().put("rule", c.rule.name).put("table", c.table).put("path", c.path)
    c.version.foreach(v => node.put("version", v))
    c.operation.foreach(o => node.put("operation", o))
    c.user.foreach(u => node.put("user", u))
    c.timeMs.foreach(t => node.put("timeMs", t))
    texts(node.putArray("files"), c.files)
    c.otherTransaction.foreach(t => node.put("otherTransaction", t))
    node
  }

  private def conflict(f: StrictFields): Conflict = Conflict(
    Rule.named(f.string("rule")),
    f.string("table"),
    f.string("path"),
    f.optLong("version"),
    f.optString("operation"),
    f.optString("user"),
    f.optLong("timeMs"),
    f.strings("files"),
    f.optString("otherTransaction")
  )

  private def list(array: ArrayNode, nodes: Vector[ObjectNode]): Unit =
    nodes.foreach(n => array.add(n))

  private def texts(array: ArrayNode, values: Vector[String]): Unit =
    values.foreach(v => array.add(v))

  private def bytes(node: ObjectNode): Array[Byte] = (Json.text(node) + "\n").getBytes(UTF_8)
}
