package io.lakestep.timeline

import io.lakestep.Json
import io.lakestep.log.TableRef

/**
 * A state of the database that has a name.
 *
 * @param name in lower case
 * @param id names this one, also when another one has the same name later
 * @param entry the version of the database
 * @param timeMs commits of others up to then belong to it
 * @param retainUntilMs nothing is kept for it after that
 * @param tables those that the timeline has, each with its version
 * @param missing those of which nothing could be read any more
 */
final case class NamedSnapshot(
    name: String,
    id: String,
    entry: Long,
    timeMs: Long,
    createdMs: Long,
    user: String,
    application: String,
    comment: Option[String],
    retainUntilMs: Option[Long],
    tables: Vector[SnapshotTable],
    missing: Vector[TableRef]) {

  def table(path: TableRef): Option[SnapshotTable] = tables.find(_.path == path)

  /** Whether it is no user's: a transaction holds what it brings back, or a snapshot is being created. */
  def isHold: Boolean = name.startsWith(NamedSnapshot.Hold)

  def isExpired(nowMs: Long): Boolean = retainUntilMs.exists(_ <= nowMs)
}

object NamedSnapshot {

  /** With a capital, which no name that a user gives has. */
  private[lakestep] val Hold = "UNDO-"
}

/** @param log the log's id, which a table that is made anew at the path does not have */
final case class SnapshotTable(log: String, path: TableRef, version: Long)

/**
 * What VACUUM of a table is about to delete, or has deleted: files that were removed before a time, and
 * that version `head` does not have.
 *
 * @param id names this one, also beside an equal one of another VACUUM
 */
final case class Cut(
    id: String,
    log: String,
    path: TableRef,
    head: Long,
    beforeMs: Long,
    timeMs: Long) {

  /** Whether another one has cut all that this one cuts. */
  def isWithin(other: Cut): Boolean =
    log == other.log && head <= other.head && beforeMs <= other.beforeMs
}

private[timeline] object NamedSnapshotCodec {

  def encode(s: NamedSnapshot): Array[Byte] = {
    val node = Json.obj().put("name", s.name).put("id", s.id).put("entry", s.entry)
      .put("timeMs", s.timeMs).put("createdMs", s.createdMs).put("user", s.user)
      .put("application", s.application)
    s.comment.foreach(node.put("comment", _))
    s.retainUntilMs.foreach(t => node.put("retainUntilMs", t))
    val tables = node.putArray("tables")
    s.tables.foreach { t =>
      tables.addObject().put("log", t.log).put("path", t.path.uri).put("version", t.version)
    }
    val missing = node.putArray("missing")
    s.missing.foreach(path => missing.add(path.uri))
    StrictFields.summed(node)
  }

  def decode(file: String, content: Array[Byte]): NamedSnapshot = {
    val f = StrictFields.parseSummed(file, content)
    NamedSnapshot(
      name = f.string("name"),
      id = f.string("id"),
      entry = f.long("entry"),
      timeMs = f.long("timeMs"),
      createdMs = f.long("createdMs"),
      user = f.string("user"),
      application = f.string("application"),
      comment = f.optString("comment"),
      retainUntilMs = f.optLong("retainUntilMs"),
      tables = f.children("tables").map { t =>
        SnapshotTable(t.string("log"), TableRef(t.string("path")), t.long("version"))
      },
      missing = f.strings("missing").map(TableRef(_))
    )
  }

  def encode(cut: Cut): Array[Byte] = StrictFields.summed(
    Json.obj().put("log", cut.log).put("path", cut.path.uri).put("head", cut.head)
      .put("beforeMs", cut.beforeMs).put("timeMs", cut.timeMs)
  )

  def decodeCut(id: String, file: String, content: Array[Byte]): Cut = {
    val f = StrictFields.parseSummed(file, content)
    Cut(
      id,
      f.string("log"),
      TableRef(f.string("path")),
      f.long("head"),
      f.long("beforeMs"),
      f.long("timeMs")
    )
  }
}
