package io.lakestep.overlay

import java.io.{BufferedReader, FileNotFoundException, InputStreamReader}
import java.lang.{Boolean => JBoolean}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Iterator => JIterator}

import scala.jdk.CollectionConverters._

import io.delta.storage.{CloseableIterator, LineCloseableIterator, LogStore}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.SparkEnv

import org.apache.spark.sql.delta.lakestep.Callers
import io.lakestep.{Errors, LakestepConf, RuntimeContract}
import io.lakestep.log.{Action, ForeignWriters, LogFileName, StagedEffect}
import io.lakestep.storage.{HadoopStores, StoreKind}

/**
 * Delta's log store for `lakestep://`: reads and lists what `OverlayFileSystem` shows, and stages
 * commits.
 *
 *  1. A commit is created in the folder of the chain's last segment, put-if-absent and durable. A
 *     version that the view holds already is a `java.nio.file.FileAlreadyExistsException`.
 *  1. Any other file (`_last_checkpoint`, a checkpoint, …) is taken and forgotten.
 *  1. A file is seen whole or not at all: `isPartialWriteVisible` is false.
 *
 * Conditions: LAKESTEP_OVERLAY_READ_ONLY where the chain has no segment,
 * LAKESTEP_OVERLAY_CHANGE_REFUSED for a commit that would replace another.
 */
class OverlayLogStore(configuration: Configuration) extends LogStore(configuration) {
  RuntimeContract.check()

  override def read(path: Path, hadoopConf: Configuration): CloseableIterator[String] = {
    val stream = path.getFileSystem(hadoopConf).open(path)
    new LineCloseableIterator(new BufferedReader(new InputStreamReader(stream, UTF_8)))
  }

  override def write(
      path: Path,
      actions: JIterator[String],
      overwrite: JBoolean,
      hadoopConf: Configuration): Unit = {
    val OverlayPath(chain, base) = OverlayPath.parse(path)
    val segment = chain.segments.lastOption.getOrElse {
      throw Errors("LAKESTEP_OVERLAY_READ_ONLY", "path" -> path.toString, "chain" -> chain.text)
    }
    LogPlace.of(base) match {
      case LogPlace.InLog(log, name) =>
        LogFileName(name) match {
          case LogFileName.Commit(_) if overwrite =>
            throw Errors(
              "LAKESTEP_OVERLAY_CHANGE_REFUSED",
              "path" -> path.toString,
              "change" -> "replace a commit"
            )
          case LogFileName.Commit(version) =>
            val lines = checkOtherWriters(segment, log.getParent, actions, hadoopConf)
            val fs = base.getFileSystem(hadoopConf)
            def isGone = new FileNotFoundException(s"No such file or directory: $log")
            if (HadoopStores.hasFolders(fs) && chain.pin >= 0 && !HadoopStores.hasFolder(fs, log))
              throw isGone
            // In the last segment it is seen by who puts.
            def isEarlier = chain.segments.size > 1 &&
              new LogView(chain, log, fs).locate(name).isDefined
            if (version <= chain.pin || isEarlier)
              throw new FileAlreadyExistsException(path.toString)
            val staging = Staging.of(segment)
            val asked = staging.epoch
            val before = staging.last.get(log.getParent.toString)
            staging.record(log.getParent.toString, version)
            val staged = new Path(StagingFolder.ofLog(log, segment), name)
            var effect = StagedEffect.none
            val noted = lines.asScala.map { line =>
              effect = effect.and(Action.parse(line))
              line
            }
            val bytes = CommitFile.bytesOf(noted.asJava)
            def create() = CommitFile.create(staged, path, bytes, hadoopConf)
            try
              // Nothing has to be there before a file on S3; that of a statement that fails is deleted.
              if (HadoopStores.hasFolders(fs) || chain.pin < 0) create()
              else if (!staging.atOnce.both(create(), HadoopStores.hasLog(fs, log))._2) throw isGone
            catch {
              case unclear: CommitFile.Unclear =>
                staging.doubt(unclear)
                throw unclear
              case exists: FileAlreadyExistsException =>
                staging.refused(log.getParent.toString, version, before)
                throw exists
            }
            staging.learn(log.getParent.toString, version, effect)
            // To ask for it is one request more there: Delta does, and COMMIT.
            if (!HadoopStores.hasFolders(fs)) {
              staging.keep(log.getParent.toString, version, bytes)
              val now = System.currentTimeMillis()
              val blockSize = fs.getDefaultBlockSize(staged)
              val status =
                new FileStatus(
                  bytes.length.toLong,
                  false,
                  1,
                  blockSize,
                  now,
                  fs.makeQualified(staged)
                )
              val table = log.getParent.toString
              staging.saw(asked, table, Seq(version -> staging.timed(table, version, status)))
            }
          case _ => ()
        }
      case _: LogPlace.Data =>
        throw Errors(
          "LAKESTEP_OVERLAY_CHANGE_REFUSED",
          "path" -> path.toString,
          "change" -> "write outside a log by the log store"
        )
      case _ => ()
    }
  }

  /**
   * On S3 plain Spark can overwrite what we publish: somebody has to say that it does not write, by
   * the setting or by the table's property.
   *
   * @return the same actions
   */
  private def checkOtherWriters(
      segment: String,
      table: Path,
      actions: JIterator[String],
      hadoopConf: Configuration): JIterator[String] = {
    val scheme = Option(table.toUri.getScheme)
    // This session's own statements outside transactions would be such writers.
    for {
      name <- scheme
      env <- Option(SparkEnv.get)
      store <- BaseLogStore.others(env.conf).get(name)
    } throw Errors(
      "LAKESTEP_LOG_STORE_NOT_OURS",
      "table" -> table.toString,
      "key" -> BaseLogStore.key(name),
      "value" -> store
    )
    def isVouchedFor =
      LakestepConf.ForeignWriters.from(key => Option(hadoopConf.get(key))).isDefined
    if (!StoreKind.of(table).exists(_.mustBeVouchedFor) || isVouchedFor) actions
    else {
      val lines = actions.asScala.toVector
      val staging = Staging.of(segment)
      if (lines.exists(ForeignWriters.isStatedIn)) staging.decide(table.toString, isStated = true)
      if (!staging.isDecided(table.toString))
        throw Errors("LAKESTEP_FOREIGN_WRITERS_UNDECIDED", "table" -> table.toString)
      lines.iterator.asJava
    }
  }

  override def listFrom(path: Path, hadoopConf: Configuration): JIterator[FileStatus] = {
    val (folder, from) = (path.getParent, path.getName)
    checkHistory(folder)
    val listed = path.getFileSystem(hadoopConf) match {
      case overlay: OverlayFileSystem => overlay.listFrom(folder, from)
      case other =>
        other.listStatus(folder).filter(_.getPath.getName >= from).sortBy(_.getPath.getName)
    }
    listed.iterator.asJava
  }

  /** `DeltaTable.history` has no plan that could be redirected to the table as it is now. */
  private def checkHistory(log: Path): Unit = {
    val OverlayPath(chain, base) = OverlayPath.parse(log)
    if (chain.segments.exists(Staging.isEnded) && Callers.isDeltaHistory)
      throw Errors("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION", "table" -> base.getParent.toString)
  }

  /** The physical file where the view holds it, else where a base table would have it. */
  override def resolvePathOnPhysicalStorage(path: Path, hadoopConf: Configuration): Path = {
    val overlay = OverlayPath.parse(path)
    val base = overlay.base
    val fs = base.getFileSystem(hadoopConf)
    val physical = LogPlace.of(base) match {
      case LogPlace.InLog(log, name) =>
        new LogView(overlay.chain, log, fs).locate(name).map(_.getPath).getOrElse(base)
      case _ => base
    }
    fs.makeQualified(physical)
  }

  override def isPartialWriteVisible(path: Path, hadoopConf: Configuration): JBoolean = false
}
