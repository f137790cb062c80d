package io.lakestep.storage

import java.io.{FileNotFoundException, IOException}
import java.nio.file.AccessDeniedException
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, ParentNotDirectoryException, Path}
import org.apache.hadoop.hdfs.protocol.QuotaExceededException
import org.apache.hadoop.ipc.RemoteException
import org.apache.hadoop.security.AccessControlException

import io.lakestep.{Errors, LakestepException}

/** A store behind a file system of Hadoop: all but how a file is created. */
private[storage] abstract class HadoopStore(configuration: Configuration) extends ObjectStore {
  import HadoopStore.{isBelowFile, isNothing}

  override def get(path: String): Option[Array[Byte]] = {
    val file = parse(path)
    try Some(content(file.getFileSystem(configuration), file))
    catch {
      case e: IOException if isNothing(e) => None
      case e: IOException => throw readFailed(path, e)
    }
  }

  /** What the file holds now; FileNotFoundException if there is no such file. */
  protected def content(fs: FileSystem, file: Path): Array[Byte] =
    Using.resource(fs.open(file))(_.readAllBytes())

  override def list(dir: String, from: String): Vector[StoredFile] =
    statuses(dir, from)
      .filter(_.isFile)
      .map(s => StoredFile(s.getPath.getName, s.getLen, s.getModificationTime))
      .sortBy(_.name)

  override def folders(dir: String): Vector[String] =
    statuses(dir, "").filter(_.isDirectory).map(_.getPath.getName).sorted

  /** What stands in a folder from a name on; FileNotFoundException if there is no such folder. */
  protected def listed(fs: FileSystem, folder: Path, from: String): Array[FileStatus] =
    HadoopStore.listFrom(fs, folder, from)

  private def statuses(dir: String, from: String): Vector[FileStatus] = {
    val folder = parse(dir)
    try {
      val fs = folder.getFileSystem(configuration)
      // The listing of a file is that file.
      listed(fs, folder, from).toVector.filter(_.getPath != fs.makeQualified(folder))
    } catch {
      case e: IOException if isNothing(e) => Vector.empty
      case e: IOException => throw readFailed(dir, e)
    }
  }

  override def exists(path: String): Boolean = {
    val file = parse(path)
    try isFile(file.getFileSystem(configuration), file)
    catch {
      case e: IOException if isNothing(e) => false
      case e: IOException => throw readFailed(path, e)
    }
  }

  /** FileNotFoundException, or false, if there is no such file. */
  protected def isFile(fs: FileSystem, file: Path): Boolean = fs.getFileStatus(file).isFile

  override def delete(path: String): Unit = explained(path) {
    val file = parse(path)
    remove(file.getFileSystem(configuration), file)
  }

  override def deleteFolder(dir: String): Unit = explained(dir) {
    val folder = parse(dir)
    removeFolder(folder.getFileSystem(configuration), folder)
  }

  /** After this no file has this path. */
  protected def remove(fs: FileSystem, file: Path): Unit = {
    val isThere =
      try isFile(fs, file)
      catch { case e: IOException if isNothing(e) => false }
    if (isThere) fs.delete(file, false)
    ()
  }

  /** After this nothing is below the folder. */
  protected def removeFolder(fs: FileSystem, folder: Path): Unit = {
    fs.delete(folder, true)
    ()
  }

  /** A file that its writer closed is durable. */
  override def sync(path: String): Boolean = exists(path)
  override def force(path: String): Unit = ()

  /** A new name near a file, where nobody takes it for a commit or an entry. */
  protected def temporaryFor(target: Path): Path = {
    val parents = Iterator.iterate(target.getParent)(_.getParent).takeWhile(_ != null)
    val folder = TemporaryFiles.folderFor[Path](parents, _.getName)(new Path(_, _))
    new Path(folder, s"${UUID.randomUUID()}.tmp")
  }

  protected def parse(path: String): Path =
    if (StoreKind.schemeOf(path).isEmpty) new Path(path)
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

  protected def isAbsent(path: String): Boolean =
    try !exists(path)
    catch { case NonFatal(_) => false }

  protected def withoutPutIfAbsent(
      path: String,
      reason: String,
      cause: Throwable = null): LakestepException =
    Errors.caused(
      "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
      cause,
      "path" -> path,
      "reason" -> reason
    )

  /** Removes a file that is in nobody's way, if it can. */
  protected def discard(fs: FileSystem, file: Path): Unit =
    try {
      fs.delete(file, false)
      ()
    } catch { case NonFatal(_) => () }

  /** Probes what has not passed yet in this process. */
  protected def probedOnce(what: String)(probe: => Unit): Unit =
    if (!HadoopStore.probed.contains(what)) {
      probe
      HadoopStore.probed.add(what)
    }

  /** Two puts under one name: the second must have been refused. */
  protected def checkProbe(path: String, answers: Seq[PutOutcome]): Unit = answers match {
    case Seq(PutOutcome.Created, PutOutcome.AlreadyExists) => ()
    case Seq(PutOutcome.Created, PutOutcome.Created) =>
      throw withoutPutIfAbsent(path, "the store accepts the condition of a put and ignores it")
    case _ =>
      val cause = answers.collectFirst { case PutOutcome.Unknown(e) => e }
      throw withoutPutIfAbsent(
        path,
        s"a probe was answered with $answers${cause.fold("")(e => s": $e")}",
        cause.orNull
      )
  }

  private def readFailed(path: String, e: IOException) =
    Errors.caused(
      "LAKESTEP_STORE_READ_FAILED",
      e,
      "path" -> path,
      "reason" -> HadoopStore.reasonOf(e)
    )

  protected def explained[A](path: String)(body: => A): A =
    try body
    catch {
      case e: IOException =>
        val condition = HadoopStore.unwrapped(e) match {
          case e if isBelowFile(e) => "LAKESTEP_STORE_WRITE_FAILED"
          case _: AccessControlException | _: AccessDeniedException =>
            "LAKESTEP_STORE_ACCESS_DENIED"
          case _: QuotaExceededException => "LAKESTEP_STORE_FULL"
          case _ => "LAKESTEP_STORE_WRITE_FAILED"
        }
        throw Errors.caused(condition, e, "path" -> path, "reason" -> HadoopStore.reasonOf(e))
    }
}

private[storage] object HadoopStore {

  /** What has kept the condition of a put. */
  private val probed: java.util.Set[String] = ConcurrentHashMap.newKeySet[String]

  def listFrom(fs: FileSystem, folder: Path, from: String): Array[FileStatus] =
    fs.listStatus(folder, (path: Path) => path.getName >= from)

  /** What a server said, as the exception that it meant. */
  def unwrapped(e: IOException): IOException = e match {
    case remote: RemoteException => remote.unwrapRemoteException()
    case other => other
  }

  /** A server's message brings its stack along. */
  private def reasonOf(e: IOException): String =
    s"${e.getClass.getSimpleName}: ${String.valueOf(e.getMessage).linesIterator.nextOption().getOrElse("")}"

  /** HDFS calls it a missing permission to go through a file as if it were a folder. */
  private def isBelowFile(e: IOException): Boolean =
    e.isInstanceOf[ParentNotDirectoryException] ||
      (e.isInstanceOf[AccessControlException] && reasonOf(e).contains("(is not a directory)"))

  private def isNothing(e: IOException): Boolean =
    e.isInstanceOf[FileNotFoundException] || isBelowFile(unwrapped(e))
}
