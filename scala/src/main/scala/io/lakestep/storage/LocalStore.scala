package io.lakestep.storage

import java.io.{FileInputStream, FileOutputStream, IOException, UncheckedIOException}
import java.nio.channels.{ClosedByInterruptException, FileChannel}
import java.nio.file.{
  AccessDeniedException, DirectoryIteratorException, FileAlreadyExistsException,
  FileSystemException, Files, NoSuchFileException, NotDirectoryException, Path, StandardOpenOption
}
import java.nio.file.attribute.BasicFileAttributes
import java.util.UUID

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import io.lakestep.{Errors, LakestepException}

/**
 * The local disk: a file appears under its name by a hard link, whole and at most once.
 *
 * The content goes to a temporary file first, then a link gives it its name: `link` fails when the
 * name is taken, in this process and in any other. With `durable` the content is forced to the
 * device before the link and the folder after it; a machine that loses power then keeps what was
 * answered with `Created`. Without it a crash of the process loses nothing, one of the machine may.
 *
 * Paths: absolute paths, taken as they stand, and `file:` URIs, whose escapes are decoded.
 *
 * @param durable whether content and folders are forced to the device
 */
final class LocalStore(durable: Boolean = true) extends ObjectStore {

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome = {
    val target = LocalPath(path)
    if (Files.exists(target)) PutOutcome.AlreadyExists
    else
      explained(path) {
        makeFolders(target.getParent)
        val temporary = temporaryFor(target)
        try {
          write(temporary, bytes)
          link(target, temporary, path)
        } finally
          try Files.deleteIfExists(temporary)
          catch { case NonFatal(_) => () }
      }
  }

  override def putUnannounced(path: String, bytes: Array[Byte]): PutOutcome = {
    val target = LocalPath(path)
    explained(path) {
      makeFolders(target.getParent)
      if (!target.toFile.createNewFile()) PutOutcome.AlreadyExists
      else
        try {
          write(target, bytes)
          syncFolder(target.getParent)
          PutOutcome.Created
        } catch {
          case failure: Throwable =>
            try Files.deleteIfExists(target)
            catch { case NonFatal(left) => failure.addSuppressed(left) }
            throw failure
        }
    }
  }

  private def link(target: Path, temporary: Path, path: String): PutOutcome =
    try {
      Files.createLink(target, temporary)
      try {
        syncFolder(target.getParent)
        PutOutcome.Created
      } catch { case e: IOException => PutOutcome.Unknown(e) }
    } catch {
      case _: FileAlreadyExistsException => PutOutcome.AlreadyExists
      case e: UnsupportedOperationException =>
        throw Errors.caused(
          "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
          e,
          "path" -> path,
          "reason" -> "this file system has no hard links"
        )
    }

  override def get(path: String): Option[Array[Byte]] = {
    val file = LocalPath(path)
    // Not by a channel, which an interrupt closes.
    def read() = Using.resource(new FileInputStream(file.toFile))(_.readAllBytes())
    try
      try Some(read())
      catch {
        // It may have come between the two looks.
        case _: IOException => Option.when(isFile(file))(read())
      }
    catch { case e: IOException => throw readFailed(path, e) }
  }

  /** Throws where nobody may look, or the disk does not answer: that is not to be taken for absent. */
  private def isFile(file: Path): Boolean =
    try Files.readAttributes(file, classOf[BasicFileAttributes]).isRegularFile
    catch {
      case _: NoSuchFileException => false
      // Java has no name for what lies below a file.
      case _: IOException if parents(file).exists(Files.isRegularFile(_)) => false
    }

  private def parents(file: Path): Iterator[Path] =
    Iterator.iterate(file.getParent)(_.getParent).takeWhile(_ != null)

  override def list(dir: String, from: String): Vector[StoredFile] =
    // All names first, so that they are of one moment as far as can be.
    within(dir)(_.filter(nameOf(_) >= from).toVector.flatMap(stored).sortBy(_.name))

  override def folders(dir: String): Vector[String] =
    within(dir)(_.filter(Files.isDirectory(_)).map(nameOf).toVector.sorted)

  /** What is in a folder; nothing when there is none. */
  private def within[A](dir: String)(read: Iterator[Path] => Vector[A]): Vector[A] =
    try
      Using.resource(Files.newDirectoryStream(LocalPath(dir)))(stream =>
        read(stream.iterator.asScala)
      )
    catch {
      case _: NoSuchFileException | _: NotDirectoryException => Vector.empty
      case e: DirectoryIteratorException => throw readFailed(dir, e)
      case e: IOException => throw readFailed(dir, e)
    }

  private def stored(file: Path): Option[StoredFile] =
    try {
      val attributes = Files.readAttributes(file, classOf[BasicFileAttributes])
      Option.when(attributes.isRegularFile)(
        StoredFile(nameOf(file), attributes.size, attributes.lastModifiedTime.toMillis)
      )
    } catch { case _: NoSuchFileException => None }

  override def exists(path: String): Boolean =
    try isFile(LocalPath(path))
    catch { case e: IOException => throw readFailed(path, e) }

  override def delete(path: String): Unit = {
    val file = LocalPath(path)
    if (Files.isRegularFile(file)) explained(path)(Files.deleteIfExists(file))
  }

  override def deleteFolder(dir: String): Unit = {
    val folder = LocalPath(dir)
    if (Files.isDirectory(folder)) explained(dir)(deleteBelow(folder))
  }

  /** Others may delete, or still write, the same files meanwhile. */
  @tailrec
  private def deleteBelow(folder: Path, attempts: Int = 10): Unit = {
    val failure =
      try {
        Using.resource(Files.walk(folder)) { walked =>
          walked.iterator.asScala.toVector.reverseIterator.foreach(Files.deleteIfExists)
        }
        None
      } catch {
        case e: UncheckedIOException => Some(e.getCause)
        case e: IOException => Some(e)
      }
    failure match {
      case Some(e) if attempts == 0 => throw e
      case Some(_) if Files.exists(folder) => deleteBelow(folder, attempts - 1)
      case _ => ()
    }
  }

  override def sync(path: String): Boolean = {
    val file = LocalPath(path)
    if (!durable) Files.exists(file)
    else
      explained(path) {
        try {
          force(file)
          syncFolder(file.getParent)
          true
        } catch { case _: NoSuchFileException => false }
      }
  }

  override def force(path: String): Unit = if (durable) {
    sync(path)
    ()
  }

  /** A new name in a folder that is in no listing of log files: `_delta_log/_lakestep/tmp`. */
  private def temporaryFor(target: Path): Path = {
    val parents = Iterator.iterate(target.getParent)(_.getParent).takeWhile(_ != null)
    def named(folder: Path) = if (folder.getFileName == null) "" else nameOf(folder)
    val folder = TemporaryFiles.folderFor[Path](parents, named)(_.resolve(_))
    Files.createDirectories(folder)
    folder.resolve(s"${UUID.randomUUID()}.tmp")
  }

  private def write(file: Path, bytes: Array[Byte]): Unit =
    Using.resource(new FileOutputStream(file.toFile)) { out =>
      out.write(bytes)
      if (durable) out.getFD.sync()
    }

  private def makeFolders(folder: Path): Unit =
    if (!Files.isDirectory(folder)) {
      Option(folder.getParent).foreach(makeFolders)
      try {
        Files.createDirectory(folder)
        Option(folder.getParent).foreach(syncFolder)
      } catch { case _: FileAlreadyExistsException if Files.isDirectory(folder) => () }
    }

  private def syncFolder(folder: Path): Unit = if (durable) force(folder)

  /** An interrupt closes a channel under its owner; it is put aside and given back afterwards. */
  private def force(path: Path): Unit = {
    def once(): Unit =
      Using.resource(FileChannel.open(path, StandardOpenOption.READ))(_.force(true))
    val interrupted = Thread.interrupted()
    try once()
    catch {
      case _: ClosedByInterruptException =>
        Thread.interrupted()
        try once()
        finally Thread.currentThread.interrupt()
    } finally if (interrupted) Thread.currentThread.interrupt()
  }

  private def nameOf(path: Path): String = path.getFileName.toString

  private def readFailed(path: String, e: Throwable) =
    Errors.caused("LAKESTEP_STORE_READ_FAILED", e, "path" -> path, "reason" -> String.valueOf(e))

  private def explained[A](path: String)(body: => A): A =
    try body
    catch { case e: IOException => throw LocalStore.explain(path, e) }
}

object LocalStore {

  private[storage] def explain(path: String, e: IOException): LakestepException = {
    val reason = e match {
      case f: FileSystemException => Option(f.getReason).getOrElse(f.toString)
      case other => String.valueOf(other.getMessage)
    }
    val condition =
      if (reason.contains("No space left") || reason.contains("quota")) "LAKESTEP_STORE_FULL"
      else if (e.isInstanceOf[AccessDeniedException] || reason.contains("Permission denied") ||
        reason.contains("Read-only file system")) "LAKESTEP_STORE_ACCESS_DENIED"
      else "LAKESTEP_STORE_WRITE_FAILED"
    Errors.caused(condition, e, "path" -> path, "reason" -> reason)
  }
}
