package io.lakestep.commit

import io.lakestep.{Errors, Json, LakestepException}
import io.lakestep.log.TableRef
import io.lakestep.storage.{ObjectStores, PutOutcome, StoredFile}
import io.lakestep.timeline.SnapshotTable

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

  /**
   * Makes a copy count whose files are there, if it is the first one; else it goes.
   *
   * @param files their paths
   * @return whether none of it was deleted meanwhile
   */
  def finish(
      stores: ObjectStores,
      snapshot: String,
      table: SnapshotTable,
      copy: String,
      files: Seq[String]): Boolean = {
    val store = stores.forPath(table.path.uri)
    // What was copied may be of a table that was made anew at the path.
    checkIsThere(stores, table)
    files.forall(store.sync) && {
      val isFirst = put(stores, table.path, KeptLog(snapshot, table.version, copy))
      val isWhole = !isFirst || isStarted(stores, table.path, copy)
      if (!isFirst) store.deleteFolder(table.path.keptCopy(copy))
      if (!isWhole) delete(stores, table.path, snapshot)
      isWhole
    }
  }

  /** When another table is at the path now, or none. */
  private def checkIsThere(stores: ObjectStores, table: SnapshotTable): Unit =
    if (!Bindings.read(stores, table.path).exists(_.log == table.log))
      throw notThere(table, "another table is at its path now, or none")

  def notThere(table: SnapshotTable, reason: String): LakestepException = Errors(
    "LAKESTEP_NOT_THERE_AS_OF",
    "table" -> table.path.uri,
    "version" -> table.version.toString,
    "reason" -> reason
  )

  private def put(stores: ObjectStores, table: TableRef, kept: KeptLog): Boolean = {
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
  def start(stores: ObjectStores, table: SnapshotTable, copy: String): Unit = {
    checkIsThere(stores, table)
    val file = started(table.path, copy)
    stores.forPath(file).putIfAbsent(file, s"$copy\n".getBytes("UTF-8")) match {
      case PutOutcome.Unknown(cause) => throw cause
      case _ =>
    }
  }

  /** Not any more, once somebody may be about to delete its folder. */
  private def isStarted(stores: ObjectStores, table: TableRef, copy: String): Boolean =
    stores.forPath(table.uri).get(started(table, copy)).isDefined

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
      val snapshots = named(files)
      val (used, unused) = snapshots.partition(live)
      unused.foreach(delete(stores, table, _))
      def copies(of: Vector[String]) = of.flatMap(find(stores, table, _)).map(_.copy)
      val counting = copies(used)
      val left = folders.filterNot(c => counting.contains(c) || making.contains(c + Started))
      left.foreach(end(stores, table, _))
      // Who makes one count after this look sees that its note is gone.
      def now = copies(named(store.list(table.keptFolder, "")))
      if (left.nonEmpty) left.diff(now).foreach(copy => store.deleteFolder(table.keptCopy(copy)))
    }
  }

  /** The snapshots for which a copy counts. */
  private def named(files: Vector[StoredFile]): Vector[String] =
    files.map(_.name).filter(_.endsWith(".json")).map(_.stripSuffix(".json"))

  /** Of a snapshot that is dropped: first what names the copy. */
  def delete(stores: ObjectStores, table: TableRef, snapshot: String): Unit =
    find(stores, table, snapshot).foreach { kept =>
      val store = stores.forPath(table.uri)
      store.delete(table.kept(snapshot))
      store.deleteFolder(table.keptCopy(kept.copy))
    }
}
