package io.lakestep.commit

import io.lakestep.{Errors, Json}
import io.lakestep.log.TableRef
import io.lakestep.storage.{ObjectStores, PutOutcome}

/**
 * A copy of what one version of a table needs of its log, made for a named snapshot: plain writers clean
 * logs up, without any VACUUM.
 *
 * @param copy the name of its folder
 */
final case class KeptLog(snapshot: String, version: Long, copy: String)

private[commit] object KeptLogs {

  /** The copy that counts. It is whole: the file that names it is put when all others are there. */
  def find(stores: ObjectStores, table: TableRef, snapshot: String): Option[KeptLog] = {
    val file = table.kept(snapshot)
    stores.forPath(table.uri).get(file).map { bytes =>
      val node = Json.parse(bytes)
      val (version, copy) = (node.path("version"), node.path("copy").asText)
      if (!version.isIntegralNumber || !copy.matches("[0-9a-f]{32}")) throw Errors(
        "LAKESTEP_LOG_CORRUPT",
        "file" -> file,
        "reason" -> "it names no copy"
      )
      KeptLog(snapshot, version.asLong, copy)
    }
  }

  /** Says that a copy is whole; the first one counts. */
  def put(stores: ObjectStores, table: TableRef, kept: KeptLog): Boolean = {
    val node = Json.obj().put("snapshot", kept.snapshot).put("version", kept.version)
      .put("copy", kept.copy)
    val file = table.kept(kept.snapshot)
    stores.forPath(table.uri).putIfAbsent(file, (Json.text(node) + "\n").getBytes("UTF-8")) match {
      case PutOutcome.Created => true
      case PutOutcome.AlreadyExists => false
      case PutOutcome.Unknown(cause) => throw cause
    }
  }

  /** Notes that a copy is being made, whose files have the times of others. */
  def start(stores: ObjectStores, table: TableRef, copy: String): Unit = {
    stores.forPath(table.uri).putIfAbsent(started(table, copy), s"$copy\n".getBytes("UTF-8"))
    ()
  }

  /** The copy is whole, or will never be. */
  def end(stores: ObjectStores, table: TableRef, copy: String): Unit =
    stores.forPath(table.uri).delete(started(table, copy))

  private def started(table: TableRef, copy: String) = s"${table.keptCopy(copy)}$Started"

  private val Started = ".started"

  /**
   * Deletes copies of snapshots that are dropped, and those that nobody has finished.
   *
   * @param live ids of snapshots; asked for once it is known which copies there are
   * @param before younger ones may be in the making
   */
  def tidy(stores: ObjectStores, table: TableRef, before: Long)(live: => Set[String]): Unit = {
    val store = stores.forPath(table.uri)
    val files = store.list(table.keptFolder, "")
    val folders = store.folders(table.keptFolder)
    if (files.nonEmpty || folders.nonEmpty) {
      val making =
        files.filter(f => f.name.endsWith(Started) && f.modifiedMs >= before).map(_.name)
      val snapshots = files.map(_.name).filter(_.endsWith(".json")).map(_.stripSuffix(".json"))
      val (used, unused) = snapshots.partition(live)
      unused.foreach(delete(stores, table, _))
      val copies = used.flatMap(find(stores, table, _)).map(_.copy)
      for (copy <- folders if !copies.contains(copy) && !making.contains(copy + Started)) {
        store.deleteFolder(table.keptCopy(copy))
        end(stores, table, copy)
      }
    }
  }

  /** Of a snapshot that is dropped: first what names the copy. */
  def delete(stores: ObjectStores, table: TableRef, snapshot: String): Unit =
    find(stores, table, snapshot).foreach { kept =>
      val store = stores.forPath(table.uri)
      store.delete(table.kept(snapshot))
      store.deleteFolder(table.keptCopy(kept.copy))
    }
}
