package io.lakestep.overlay

import java.io.{FileNotFoundException, StringReader}
import java.lang.{Boolean => JBoolean}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Iterator => JIterator}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.delta.storage.{
  AzureLogStore, CloseableIterator, GCSLogStore, HDFSLogStore, LineCloseableIterator, LogStore,
  S3SingleDriverLogStore
}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.SparkConf

import io.lakestep.{Errors, LakestepException, RuntimeContract}
import io.lakestep.log.{ForeignWriters, LogFileName, MarkKind, TableLog, TableRef}
import io.lakestep.storage.{HadoopStores, StoreKind, TemporaryFiles}

/**
 * Delta's log store for the schemes of base tables: Delta's own, except that a commit file is
 * created by our put-if-absent where Delta's own store is not atomic, and only if `BaseWriteGuard`
 * lets it.
 *
 * Delta's own looks whether the file exists and then renames over it, so that two processes on one
 * disk can both believe to have made a version.
 */
class BaseLogStore(configuration: Configuration) extends LogStore(configuration) {
  RuntimeContract.check()

  private val onFiles = new HDFSLogStore(configuration)
  private lazy val onS3 = new S3SingleDriverLogStore(configuration)
  private lazy val onAzure = new AzureLogStore(configuration)
  private lazy val onGoogle = new GCSLogStore(configuration)

  /** Delta's own store for a path. */
  private def delta(path: Path): LogStore =
    StoreKind.of(path) match {
      case Some(StoreKind.S3) => onS3
      case Some(StoreKind.Azure) => onAzure
      case Some(StoreKind.Google) => onGoogle
      case _ => onFiles
    }

  /** Small files by one request, where Delta's store opens them, which on S3 asks for their length before. */
  override def read(path: Path, hadoopConf: Configuration): CloseableIterator[String] =
    Option.when(isInLog(path) && LogFileName(path.getName).isSmall)(path.getFileSystem(hadoopConf))
      .flatMap(HadoopStores.inOneRequest(_, path))
      .map(bytes => new LineCloseableIterator(new StringReader(new String(bytes, UTF_8))))
      .getOrElse(delta(path).read(path, hadoopConf))

  override def write(
      path: Path,
      actions: JIterator[String],
      overwrite: JBoolean,
      hadoopConf: Configuration): Unit =
    if (overwrite || !isCommit(path))
      delta(path).write(path, actions, overwrite, hadoopConf)
    else {
      BaseWriteGuard.check(path)
      val fs = path.getFileSystem(hadoopConf)
      if (!HadoopStores.hasFolder(fs, path.getParent))
        throw new FileNotFoundException(s"No such file or directory: ${path.getParent}")
      val lines = notClosing(path, actions)
      try
        if (isLeftToDelta(path, hadoopConf)) delta(path).write(path, lines, overwrite, hadoopConf)
        else {
          val bytes = CommitFile.bytesOf(lines)
          try CommitFile.create(fs.makeQualified(path), path, bytes, hadoopConf)
          catch {
            case e: LakestepException
                if e.getCondition == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT" &&
                  !isBound(fs.makeQualified(path), hadoopConf) =>
              val again = new String(bytes, UTF_8).linesIterator.asJava
              delta(path).write(path, again, overwrite, hadoopConf)
          }
        }
      catch {
        case e: FileAlreadyExistsException if meetsFence(fs.makeQualified(path), hadoopConf) =>
          throw Errors.caused("LAKESTEP_TABLE_RESERVED", e, "table" -> tableOf(path).toString)
      }
    }

  /** Whether a path is that of a commit file, directly below a `_delta_log`. */
  private def isCommit(path: Path): Boolean =
    isInLog(path) && LogFileName(path.getName).isInstanceOf[LogFileName.Commit]

  private def isInLog(path: Path): Boolean =
    path.getParent != null && path.getParent.getName == TemporaryFiles.LogFolder

  private def tableOf(commit: Path): Path = commit.getParent.getParent

  /**
   * Whether a fence has come in the way of a statement that began before it. Delta looks at the
   * commits from this one on, and would find a feature there that it does not know.
   */
  private def meetsFence(commit: Path, hadoopConf: Configuration): Boolean =
    try {
      val table = TableRef(tableOf(commit).toUri.toString)
      val log = new TableLog(new HadoopStores(hadoopConf).forPath(table.uri), table)
      Iterator.iterate(
        LogFileName.version(commit.getName)
      )(_ + 1).map(log.read).takeWhile(_.isDefined)
        .flatten.exists(_.mark.exists(_.kind == MarkKind.Reserve))
    } catch { case NonFatal(_) => false }

  /** Whether a transaction has written the table, of whatever client: then no commit may be replaced. */
  private def isBound(commit: Path, hadoopConf: Configuration): Boolean = {
    val table = TableRef(tableOf(commit).toUri.toString)
    new HadoopStores(hadoopConf).forPath(table.uri).exists(table.binding)
  }

  /** Where Delta's own store is atomic, and where no transaction can be. */
  private def isLeftToDelta(path: Path, hadoopConf: Configuration): Boolean =
    StoreKind.of(path).exists(_.isAtomicWithDelta) ||
      !new HadoopStores(hadoopConf).serves(path.toString)

  /**
   * A table is closed to foreign writers by a transaction, which puts up the fence with the property;
   * and a mode that there is not would leave it open.
   */
  private def notClosing(path: Path, actions: JIterator[String]): JIterator[String] =
    actions.asScala.map { line =>
      if (ForeignWriters.closes(line)) {
        throw Errors(
          "LAKESTEP_FOREIGN_WRITERS_OF_NEW_TABLE",
          "property" -> ForeignWriters.Property,
          "table" -> tableOf(path).toString
        )
      }
      ForeignWriters.checkMode(line)
      line
    }.asJava

  override def listFrom(path: Path, hadoopConf: Configuration): JIterator[FileStatus] = {
    BaseWriteGuard.checkList(path)
    listFromName(path, hadoopConf).getOrElse(delta(path).listFrom(path, hadoopConf))
  }

  /**
   * None for other folders, of which VACUUM and CONVERT want the folders within, too, and where there
   * is nothing to be listed: Delta then says why.
   */
  private def listFromName(path: Path, hadoopConf: Configuration): Option[JIterator[FileStatus]] =
    try {
      val fs = path.getFileSystem(hadoopConf)
      Option.when(
        path.getParent.getName == TemporaryFiles.LogFolder && LogListing.beginsAtName(fs)
      )(
        LogListing(fs, path.getParent, path.getName)
      ).filter(_.nonEmpty).map(_.iterator.asJava)
    } catch { case NonFatal(_) => None }

  override def resolvePathOnPhysicalStorage(path: Path, hadoopConf: Configuration): Path =
    delta(path).resolvePathOnPhysicalStorage(path, hadoopConf)

  override def isPartialWriteVisible(path: Path, hadoopConf: Configuration): JBoolean =
    delta(path).isPartialWriteVisible(path, hadoopConf)
}

object BaseLogStore {

  /** Schemes of base tables whose commits we create. */
  private[overlay] val Schemes: Seq[String] = StoreKind.schemes.toSeq.sorted

  private[overlay] def key(scheme: String) = s"spark.delta.logStore.$scheme.impl"

  /**
   * Base schemes for which the user chose another log store: commits there are not created by our
   * put-if-absent, and `BaseWriteGuard` is not asked, so that a transaction stages nothing there.
   */
  private[overlay] def others(conf: SparkConf): Map[String, String] =
    Schemes.flatMap { scheme =>
      val own = key(scheme)
      conf
        .getOption(own)
        .orElse(conf.getOption(own.stripPrefix("spark.")))
        .filter(_ != classOf[BaseLogStore].getName)
        .map(scheme -> _)
    }.toMap
}
