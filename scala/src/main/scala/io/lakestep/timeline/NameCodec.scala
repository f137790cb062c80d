package io.lakestep.timeline

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json
import io.lakestep.log.TableRef

/** Changes of names in timeline files; see `TimelineCodec`. */
private[timeline] object NameCodec {

  def encode(change: NameChange): ObjectNode = {
    val node = Json.obj().put("metastore", change.key.metastore).put("schema", change.key.schema)
    change.key.name.foreach(node.put("name", _))
    change.before.foreach(o => node.set[JsonNode]("before", encode(o)))
    change.after.foreach(o => node.set[JsonNode]("after", encode(o)))
    node
  }

  def decode(f: StrictFields): NameChange = NameChange(
    NameKey(f.string("metastore"), f.string("schema"), f.optString("name")),
    f.optChild("before").map(named),
    f.optChild("after").map(named)
  )

  def encode(purge: Purge): ObjectNode =
    encode(NameChange(purge.key, None, None)).put("path", purge.path.uri)
      .put("head", purge.head)

  def purge(f: StrictFields): Purge =
    Purge(decode(f).key, TableRef(f.string("path")), f.long("head"))

  private def encode(named: NamedObject): ObjectNode = {
    val node = Json.obj().put("kind", named.kind)
    named.path.foreach(p => node.put("path", p.uri))
    node.set[ObjectNode]("definition", named.definition)
  }

  private def named(f: StrictFields): NamedObject = NamedObject(
    f.string("kind"),
    f.optString("path").map(TableRef(_)),
    f.child("definition").tree
  )

  def encode(history: NameHistory): ObjectNode = {
    val node = Json.obj().put("last", history.last)
    val entries = node.putArray("unapplied")
    history.unapplied.toVector.sortBy(_._1).foreach { case (entry, changes) =>
      val one = entries.addObject().put("entry", entry)
      val list = one.putArray("names")
      changes.foreach(c => list.add(encode(c)))
    }
    val dropped = node.putArray("dropped")
    history.dropped.foreach { d =>
      val one = encode(NameChange(d.key, Some(d.table), None)).put("entry", d.entry)
      dropped.add(
        one.put("timeMs", d.timeMs).put("user", d.user).put("transaction", d.transaction)
      )
    }
    node
  }

  def history(f: StrictFields): NameHistory = NameHistory(
    f.long("last"),
    f.children("unapplied").map(u => u.long("entry") -> u.children("names").map(decode)).toMap,
    f.children("dropped").map { d =>
      DroppedTable(
        d.long("entry"),
        d.long("timeMs"),
        d.string("user"),
        d.string("transaction"),
        decode(d).key,
        named(d.child("before"))
      )
    }
  )
}
