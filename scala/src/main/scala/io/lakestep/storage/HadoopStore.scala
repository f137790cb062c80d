package io.lakestep.storage

import java.io.{FileNotFoundException, IOException}
import java.nio.file.AccessDeniedException
import java.util.UUID

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.security.AccessControlException

import io.lakestep.Errors

/** A store behind a file system of Hadoop: all but how a file is created. */
private[storage] abstract class HadoopStore(configuration: Configuration) extends ObjectStore {

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

  /** A file that its writer closed is durable: only whether it is still there is looked up. */
  override def sync(path: String): Unit =
    if (!exists(path)) throw readFailed(path, new FileNotFoundException(path))

  /** A new name near a file, where nobody takes it for a commit or an entry. */
  protected def temporaryFor(target: Path): Path = {
    val folder = Iterator
      .iterate(target.getParent)(_.getParent)
      .takeWhile(_ != null)
      .find(_.getName == "_delta_log")
      .map(log => new Path(new Path(log, "_lakestep"), "tmp"))
      .getOrElse(new Path(target.getParent, "tmp"))
    new Path(folder, s"${UUID.randomUUID()}.tmp")
  }

  protected def parse(path: String): Path =
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

  protected def explained[A](path: String)(body: => A): A =
    try body
    catch {
      case e: IOException =>
        val condition = e match {
          case _: AccessControlException | _: AccessDeniedException =>
            "LAKESTEP_STORE_ACCESS_DENIED"
          case _ if String.valueOf(e.getMessage).contains("quota") => "LAKESTEP_STORE_FULL"
          case _ => "LAKESTEP_STORE_WRITE_FAILED"
        }
        throw Errors.caused(condition, e, "path" -> path, "reason" -> String.valueOf(e.getMessage))
    }
}
