package io.lakestep.transaction

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.catalyst.TableIdentifier

import io.lakestep.LakestepException
import io.lakestep.commit.{BegunTransaction, Database, Pin}
import io.lakestep.log.TableRef
import io.lakestep.overlay.{Chain, LogView, OverlayPath, Staging, StagingFolder}
import io.lakestep.storage.{CanonicalPath, HadoopStores, TemporaryFiles}

/**
 * The tables that a transaction has met, in the order of their first touch: each is pinned then, and gets
 * an overlay. Thread-safe.
 *
 * @param seen as in `Transaction`, and `firstTouch`, too
 */
abstract class MetTables private[transaction] (
    val id: String,
    val database: Database,
    seen: Map[TableRef, Long],
    firstTouch: TransactionTable => Unit) {

  /** By their folders; guarded by this object. */
  protected val tables: mutable.LinkedHashMap[String, TransactionTable] = mutable.LinkedHashMap()

  protected val staging: Staging = Staging.begin(id, database.together)

  def begun: BegunTransaction

  /**
   * The overlay of the Delta table at `base`, or None if there is no Delta log. The first call for
   * a table pins it.
   *
   * @param name what a catalog calls it
   *
   * Condition: LAKESTEP_CONFLICT, when the table was deleted since the transaction wrote it. Another
   * one in its place must not be read, or written, as if it were the first.
   */
  def overlayOf(
      base: Path,
      conf: Configuration,
      name: Option[TableIdentifier] = None): Option[Path] =
    synchronized {
      val canonical = CanonicalPath(base, conf)
      val known = tables.get(canonical.toString)
      known.foreach(meetAgain(_, canonical.getFileSystem(conf)))
      val table = known.orElse(touch(canonical, conf))
      for (t <- table; n <- name) t.call(n)
      table.map(_.overlay)
    }

  /** Looks whether what was staged is there; where each request takes time, lists the log beside it. */
  private def meetAgain(table: TransactionTable, fs: FileSystem): Unit = {
    def checkStaged(): Unit = table.lastStaged.foreach { version =>
      if (!HadoopStores.hasFile(fs, StagingFolder.commit(table.base, id, version)))
        throw ConflictErrors.tableGone(id, table)
    }
    staging.forgetBelow(table.base.toString).filterNot(_ => HadoopStores.hasFolders(fs)) match {
      case Some(name) =>
        database.together.both(checkStaged(), LogView.listAhead(table.overlay, fs, name))
        ()
      case None => checkStaged()
    }
  }

  /**
   * To be called when a statement has loaded the table, and before it reads any data.
   *
   * Condition: LAKESTEP_CONFLICT, when others have made the table anew since it was pinned: what was
   * loaded may be theirs.
   */
  def checkPinned(overlay: Path): Unit = table(overlay).foreach { touched =>
    val name = touched.base.toString
    if (!isRunningStatement || !staging.isConfirmed(name)) {
      val asked = staging.epoch
      if (!database.isThere(touched.ref, touched.pinned))
        throw ConflictErrors.tableGone(id, touched)
      if (isRunningStatement) staging.confirm(asked, name)
    }
  }

  /** Why a command failed: a table that it looked at once may have been made anew, and its files be gone. */
  protected def explained(failure: Throwable): Throwable = {
    def isGone(table: TransactionTable) = staging.isConfirmed(table.base.toString) &&
      Try(!database.isThere(table.ref, table.pinned)).getOrElse(false)
    failure match {
      case e @ NonFatal(_) if !e.isInstanceOf[LakestepException] =>
        touched.find(isGone).fold(e) { table =>
          val gone = ConflictErrors.tableGone(id, table)
          gone.addSuppressed(e)
          gone
        }
      case other => other
    }
  }

  /** Whether this thread runs a command of the transaction. */
  def isRunningStatement: Boolean

  /** The overlay of a table that a statement may make: as `overlayOf`, also where there is no log. */
  def overlayOfNew(base: Path, conf: Configuration): Path = synchronized {
    def none = meet(CanonicalPath(base, conf), Pin.None)
    try overlayOf(base, conf).getOrElse(none.overlay)
    catch {
      // What others have staged there, or left.
      case e: LakestepException if e.getCondition == "LAKESTEP_NOT_A_TABLE" => none.overlay
    }
  }

  private def touch(canonical: Path, conf: Configuration): Option[TransactionTable] =
    pinned(canonical, conf).map(meet(canonical, _))

  private def meet(canonical: Path, pin: Pin): TransactionTable = {
    val overlay = OverlayPath(Chain(pin.version, Vector(id), pin.kept), canonical).toPath
    val table = new TransactionTable(canonical, pin, overlay)
    if (tables.values.exists(_.pinned.mayBeOfOneLog(pin))) staging.stopRemembering()
    tables.put(canonical.toString, table)
    if (!table.isNew) firstTouch(table)
    table
  }

  /** None where there is no log at all, which is looked at only when nothing could be pinned. */
  private def pinned(canonical: Path, conf: Configuration): Option[Pin] = {
    val ref = BasePath.ref(canonical)
    val log = new Path(canonical, TemporaryFiles.LogFolder)
    Databases.awaitChecksum(ref)
    try Some(database.pinned(begun, ref, notBelow = seen.getOrElse(ref, -1L)))
    catch {
      case e: LakestepException
          if e.getCondition == "LAKESTEP_NOT_A_TABLE" &&
            !HadoopStores.hasFolder(canonical.getFileSystem(conf), log) =>
        None
    }
  }

  /** Whether `path` belongs to an overlay of this very transaction. */
  def owns(path: Path): Boolean =
    OverlayPath.isOverlay(path) && OverlayPath.parse(path).chain.segments.lastOption.contains(id)

  /** The table that an overlay path lies in: the innermost, as tables may lie in one another. */
  def table(overlay: Path): Option[TransactionTable] = synchronized {
    Iterator
      .iterate(OverlayPath.parse(overlay).base)(_.getParent)
      .takeWhile(_ != null)
      .flatMap(folder => tables.get(folder.toString))
      .nextOption()
  }

  def touched: Seq[TransactionTable] = synchronized(tables.values.toSeq)

  def touchedPaths: Seq[TableRef] = touched.map(_.ref)
}
