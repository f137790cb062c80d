package io.lakestep.storage

import java.io.{FileNotFoundException, IOException}
import java.util.UUID

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.hadoop.security.AccessControlException

import io.lakestep.Errors

/**
 * HDFS: a file appears under its name by a rename, which the name node refuses when the name is
 * taken. `create` alone would not do: its file is visible, empty, before it is written.
 *
 * The content is forced to the data nodes before the rename. A rename whose answer is lost is
 * `Unknown`.
 */
final class HdfsStore(configuration: Configuration) extends ObjectStore {

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome = {
    val target = parse(path)
    val fs = target.getFileSystem(configuration)
    if (explained(path)(fs.exists(target))) PutOutcome.AlreadyExists
    else {
      val temporary = temporaryFor(target)
      try {
        explained(path) {
          fs.mkdirs(target.getParent)
          Using.resource(fs.create(temporary, false)) { out =>
            out.write(bytes)
            out.hsync()
          }
        }
        rename(fs, temporary, target, path)
      } finally
        try fs.delete(temporary, false)
        catch { case NonFatal(_) => () }
    }
  }

  private def rename(fs: FileSystem, from: Path, to: Path, path: String): PutOutcome =
    try
      if (fs.rename(from, to)) PutOutcome.Created
      else if (fs.exists(to)) PutOutcome.AlreadyExists
      else
        throw Errors(
          "LAKESTEP_STORE_WRITE_FAILED",
          "path" -> path,
          "reason" -> "the name node refused the rename"
        )
    catch { case e: IOException => PutOutcome.Unknown(e) }

  override def get(path: String): Option[Array[Byte]] = {
    val file = parse(path)
    try Some(Using.resource(file.getFileSystem(configuration).open(file))(_.readAllBytes()))
    catch {
      case _: FileNotFoundException => None
      case e: IOException => throw readFailed(path, e)
    }
  }

  override def list(dir: String, from: String): Vector[StoredFile] =
    statuses(dir)
      .filter(s => s.isFile && s.getPath.getName >= from)
      .map(s => StoredFile(s.getPath.getName, s.getLen, s.getModificationTime))
      .sortBy(_.name)

  override def folders(dir: String): Vector[String] =
    statuses(dir).filter(_.isDirectory).map(_.getPath.getName).sorted

  private def statuses(dir: String): Vector[FileStatus] = {
    val folder = parse(dir)
    try folder.getFileSystem(configuration).listStatus(folder).toVector
    catch {
      case _: FileNotFoundException => Vector.empty
      case e: IOException => throw readFailed(dir, e)
    }
  }

  override def exists(path: String): Boolean = explained(path) {
    val file = parse(path)
    try file.getFileSystem(configuration).getFileStatus(file).isFile
    catch { case _: FileNotFoundException => false }
  }

  override def delete(path: String): Unit = explained(path) {
    val file = parse(path)
    file.getFileSystem(configuration).delete(file, false)
    ()
  }

  override def deleteFolder(dir: String): Unit = explained(dir) {
    val folder = parse(dir)
    folder.getFileSystem(configuration).delete(folder, true)
    ()
  }

  /** A file that its writer closed is kept by the data nodes; there is nothing to force. */
  override def sync(path: String): Unit = ()

  private def temporaryFor(target: Path): Path = {
    val folder = Iterator
      .iterate(target.getParent)(_.getParent)
      .takeWhile(_ != null)
      .find(_.getName == "_delta_log")
      .map(log => new Path(new Path(log, "_lakestep"), "tmp"))
      .getOrElse(new Path(target.getParent, "tmp"))
    new Path(folder, s"${UUID.randomUUID()}.tmp")
  }

  private def parse(path: String): Path =
    if (ObjectStores.schemeOf(path).isEmpty) new Path(path)
    else
      try new Path(new java.net.URI(path))
      catch {
        case e: java.net.URISyntaxException =>
          throw Errors.caused(
            "LAKESTEP_STORE_PATH_INVALID",
            e,
            "path" -> path,
            "reason" -> e.getReason
          )
      }

  private def readFailed(path: String, e: Throwable) =
    Errors.caused("LAKESTEP_STORE_READ_FAILED", e, "path" -> path, "reason" -> String.valueOf(e))

  private def explained[A](path: String)(body: => A): A =
    try body
    catch {
      case e: IOException =>
        val condition = e match {
          case _: AccessControlException => "LAKESTEP_STORE_ACCESS_DENIED"
          case _ if String.valueOf(e.getMessage).contains("quota") => "LAKESTEP_STORE_FULL"
          case _ => "LAKESTEP_STORE_WRITE_FAILED"
        }
        throw Errors.caused(condition, e, "path" -> path, "reason" -> String.valueOf(e.getMessage))
    }
}
