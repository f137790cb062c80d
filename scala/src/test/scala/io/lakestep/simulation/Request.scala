package io.lakestep.simulation

import java.nio.charset.StandardCharsets.ISO_8859_1

/** What a client asks of its store. */
sealed abstract class Verb(val changes: Boolean)

object Verb {
  case object Put extends Verb(true)
  case object Get extends Verb(false)
  case object List extends Verb(false)
  case object Exists extends Verb(false)
  case object Delete extends Verb(true)
  case object DeleteFolder extends Verb(true)
  case object Sync extends Verb(false)

  /** Of a metastore. */
  case object Ask extends Verb(false)
  case object Change extends Verb(true)
}

/**
 * The kinds of request that a client makes: a verb, and what the file is for the protocol. For a
 * listing it is the folder. `all` holds every kind that a client makes at all.
 */
sealed abstract class Request(val verb: Verb, val file: String) {
  final def index: Int = Request.indexes(this)
  final def changes: Boolean = verb.changes
  override def toString: String = s"$verb $file"
}

object Request {
  import Verb._

  case object PutFormat extends Request(Put, "format")
  case object PutEntry extends Request(Put, "entry")
  case object PutAbortEntry extends Request(Put, "ABORT entry")
  case object PutOutcome extends Request(Put, "outcome")
  case object PutRolledBack extends Request(Put, "rolled_back")
  case object PutRequested extends Request(Put, "requested")
  case object PutBinding extends Request(Put, "binding")
  case object PutStaged extends Request(Put, "staged")
  case object PutNetActions extends Request(Put, "net actions")
  case object PutPublish extends Request(Put, "publish")
  case object PutReserve extends Request(Put, "reserve")
  case object PutClose extends Request(Put, "close")
  case object PutUndo extends Request(Put, "undo")
  case object PutForeign extends Request(Put, "foreign commit")
  case object PutCheckpoint extends Request(Put, "checkpoint")
  case object PutTimelineCheckpoint extends Request(Put, "timeline checkpoint")
  case object GetTimelineCheckpoint extends Request(Get, "timeline checkpoint")
  case object ListTimelineCheckpoints extends Request(List, "timeline checkpoint")
  case object ExistsTimelineCheckpoint extends Request(Exists, "timeline checkpoint")
  case object DeleteTimelineCheckpoint extends Request(Delete, "timeline checkpoint")
  case object GetFormat extends Request(Get, "format")
  case object GetEntry extends Request(Get, "entry")
  case object GetOutcome extends Request(Get, "outcome")
  case object GetRolledBack extends Request(Get, "rolled_back")
  case object GetRequested extends Request(Get, "requested")
  case object GetBinding extends Request(Get, "binding")
  case object GetStaged extends Request(Get, "staged")
  case object GetNetActions extends Request(Get, "net actions")
  case object GetSlot extends Request(Get, "slot")
  case object GetCheckpoint extends Request(Get, "checkpoint")
  case object ListTimeline extends Request(List, "timeline")
  case object ListRequested extends Request(List, "requested")
  case object ListLog extends Request(List, "log")
  case object ListStaged extends Request(List, "staged")
  case object ExistsRequested extends Request(Exists, "requested")
  case object ExistsStaged extends Request(Exists, "staged")
  case object ExistsDataFile extends Request(Exists, "data file")
  case object DeleteRequested extends Request(Delete, "requested")
  case object DeleteStaged extends Request(Delete, "staged")
  case object DeleteNetActions extends Request(Delete, "net actions")
  case object DeleteSlot extends Request(Delete, "slot")
  case object DeleteDataFile extends Request(Delete, "data file")
  case object DeleteFolderStaged extends Request(DeleteFolder, "staged")
  case object SyncEntry extends Request(Sync, "entry")
  case object SyncOutcome extends Request(Sync, "outcome")
  case object SyncBinding extends Request(Sync, "binding")
  case object SyncNetActions extends Request(Sync, "net actions")
  case object SyncSlot extends Request(Sync, "slot")
  case object SyncDataFile extends Request(Sync, "data file")

  case object PutApplied extends Request(Put, "applied")
  case object ExistsApplied extends Request(Exists, "applied")
  case object PutMaking extends Request(Put, "making")
  case object ListMakings extends Request(List, "making")
  case object DeleteMaking extends Request(Delete, "making")
  case object AskName extends Request(Ask, "name")
  case object AskSchema extends Request(Ask, "schema")
  case object ListNames extends Request(Ask, "names of schema")
  case object ChangeName extends Request(Change, "name")
  case object ChangeSchema extends Request(Change, "schema")
  case object ListSnapshots extends Request(List, "snapshot")
  case object DeleteFolderTable extends Request(DeleteFolder, "table")

  /** What a client that drops a table deletes besides; nothing goes wrong for it. */
  case object DeleteAnything extends Request(Delete, "anything")

  val all: Vector[Request] = Vector(
    PutFormat,
    PutEntry,
    PutAbortEntry,
    PutOutcome,
    PutRolledBack,
    PutRequested,
    PutBinding,
    PutStaged,
    PutNetActions,
    PutReserve,
    PutPublish,
    PutClose,
    PutUndo,
    PutForeign,
    PutCheckpoint,
    PutTimelineCheckpoint,
    GetTimelineCheckpoint,
    ListTimelineCheckpoints,
    ExistsTimelineCheckpoint,
    DeleteTimelineCheckpoint,
    GetFormat,
    GetEntry,
    GetOutcome,
    GetRolledBack,
    GetRequested,
    GetBinding,
    GetStaged,
    GetNetActions,
    GetSlot,
    GetCheckpoint,
    ListTimeline,
    ListRequested,
    ListLog,
    ListStaged,
    ExistsRequested,
    ExistsStaged,
    ExistsDataFile,
    DeleteRequested,
    DeleteStaged,
    DeleteNetActions,
    DeleteSlot,
    DeleteDataFile,
    DeleteFolderStaged,
    SyncEntry,
    SyncOutcome,
    SyncBinding,
    SyncNetActions,
    SyncSlot,
    SyncDataFile,
    PutApplied,
    ExistsApplied,
    PutMaking,
    ListMakings,
    DeleteMaking,
    AskName,
    AskSchema,
    ListNames,
    ChangeName,
    ChangeSchema,
    ListSnapshots,
    DeleteFolderTable
  )

  private lazy val indexes: Map[Request, Int] = (all :+ DeleteAnything).zipWithIndex.toMap

  private lazy val byName: Map[(Verb, String), Request] =
    all.map(r => (r.verb, r.file) -> r).toMap

  /** @param bytes what a put would put */
  def of(verb: Verb, path: String, bytes: Array[Byte] = Array.emptyByteArray): Request = {
    val file = verb match {
      case DeleteFolder if !path.contains("/_delta_log") => "table"
      case List | DeleteFolder => folder(path)
      case Put => content(kind(path), bytes)
      case _ => kind(path)
    }
    byName.getOrElse((verb, file), unknown(verb, path))
  }

  private def unknown(verb: Verb, path: String): Request =
    if (verb == Delete) DeleteAnything
    else throw new IllegalArgumentException(s"$verb $path is no request that is counted")

  private def folder(path: String): String =
    if (path.endsWith("/timeline")) "timeline"
    else if (path.endsWith("/checkpoints")) "timeline checkpoint"
    else if (path.endsWith("/transactions")) "requested"
    else if (path.endsWith("/makings")) "making"
    else if (path.endsWith("/snapshots")) "snapshot"
    else if (path.endsWith("/_delta_log")) "log"
    else "staged"

  private def kind(path: String): String =
    if (path.endsWith("/format.json")) "format"
    else if (path.endsWith("/_lakestep/timeline.json")) "binding"
    else if (path.contains("/_delta_log/_lakestep/"))
      if (path.contains("/commit-")) "net actions" else "staged"
    else if (path.contains("/_delta_log/")) if (path.endsWith(".json")) "slot" else "checkpoint"
    else if (path.contains("/transactions/")) "requested"
    else if (path.contains("/makings/")) "making"
    else if (path.contains("/checkpoints/")) "timeline checkpoint"
    else if (path.contains("/timeline/"))
      if (path.endsWith(".outcome.json")) "outcome"
      else if (path.endsWith(".rolled_back.json")) "rolled_back"
      else if (path.endsWith(".applied.json")) "applied"
      else "entry"
    else "data file"

  private def content(kind: String, bytes: Array[Byte]): String = kind match {
    case "entry" if !holds(bytes, "\"kind\":\"commit\"") => "ABORT entry"
    case "slot" if !holds(bytes, "\"lakestep\":{") => "foreign commit"
    case "slot" if holds(bytes, "\"kind\":\"reserve\"") => "reserve"
    case "slot" if holds(bytes, "\"kind\":\"close\"") => "close"
    case "slot" if holds(bytes, "\"kind\":\"undo\"") => "undo"
    case "slot" => "publish"
    case other => other
  }

  /** Whether the first line says this. */
  private def holds(bytes: Array[Byte], text: String): Boolean =
    new String(bytes, 0, bytes.length.min(600), ISO_8859_1).linesIterator.nextOption()
      .exists(_.contains(text))
}
