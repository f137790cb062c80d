package io.lakestep.timeline

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import io.lakestep.Json
import io.lakestep.log.TableRef
import io.lakestep.storage.ObjectStore

/**
 * What finished entries left behind, as a checkpoint, which holds the hash of its own content; see
 * `TimelineCodec`.
 */
private[timeline] object SnapshotCodec {

  val Names = "names"
  val Batches = "batches"

  def encode(snapshot: TimelineSnapshot): Array[Byte] = {
    val node = Json.obj().put("number", snapshot.number).put("hash", snapshot.hash)
    snapshot.timeMs.foreach(t => node.put("timeMs", t))
    val hasNames = snapshot.names != NameHistory.none
    val batches = snapshot.batches.byQuery.toVector.sortBy(_._1)
    val features = node.putArray(StrictFields.RequiredFeatures)
    if (hasNames) features.add(Names)
    if (batches.nonEmpty) features.add(Batches)
    if (hasNames) node.set[JsonNode](Names, NameCodec.encode(snapshot.names))
    if (batches.nonEmpty) {
      val array = node.putArray(Batches)
      batches.foreach { case (query, applied) =>
        val one = batch(BatchKey(query, Some(applied.batch), applied.stream))
        array.add(one.put("entry", applied.entry))
      }
    }
    val logs = node.putArray("logs")
    snapshot.logs.toVector.sortBy(_._1).foreach { case (log, state) =>
      val written = logs.addObject().put("log", log).put("path", state.path.uri)
        .put("tableId", state.tableId).put("lastEntry", state.lastEntry)
      state.mark.foreach(m => written.put("markEntry", m.entry).put("markSlot", m.slot))
      state.irregular.foreach(written.withArray[ArrayNode]("irregular").add(_))
    }
    val aborted = node.putArray("aborted")
    snapshot.aborted.toVector.sorted.foreach { case (id, entry) =>
      aborted.addObject().put("transaction", id).put("entry", entry)
    }
    StrictFields.summed(node)
  }

  /** The one of this number, where there is one that can be understood. */
  def find(store: ObjectStore, file: String, number: Long): Option[TimelineSnapshot] =
    try store.get(file).map(decode(file, _)).filter(_.number == number)
    catch { case NonFatal(_) => None }

  def decode(file: String, content: Array[Byte]): TimelineSnapshot = {
    val f = StrictFields.parseSummed(file, content)
    f.checkFeatures(f.strings(StrictFields.RequiredFeatures), Set(Names, Batches))
    TimelineSnapshot(
      f.long("number"),
      f.string("hash"),
      f.children("logs").map(log => log.string("log") -> logState(log)).toMap,
      f.children("aborted").map(a => a.string("transaction") -> a.long("entry")).toMap,
      f.optChild(Names).fold(NameHistory.none)(NameCodec.history),
      AppliedBatches(f.optChildren(Batches).toVector.flatten.map { b =>
        b.string("query") -> AppliedBatch(b.long("batch"), b.optString("stream"), b.long("entry"))
      }.toMap),
      f.optLong("timeMs")
    )
  }

  private def logState(f: StrictFields): LogState = LogState(
    path = TableRef(f.string("path")),
    tableId = f.string("tableId"),
    lastEntry = f.long("lastEntry"),
    mark = f.optLong("markEntry").map(LastMark(_, f.long("markSlot"))),
    irregular = f.optLongs("irregular")
  )

  /** As entries have one, too. */
  def batch(b: BatchKey): ObjectNode = {
    val node = Json.obj().put("query", b.query)
    b.batch.foreach(n => node.put("batch", n))
    b.stream.foreach(s => node.put("stream", s))
    node
  }

  def batch(f: StrictFields): BatchKey =
    BatchKey(f.string("query"), f.optLong("batch"), f.optString("stream"))
}
