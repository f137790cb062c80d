package io.lakestep.storage

import java.io.IOException
import java.nio.file.AccessDeniedException

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileAlreadyExistsException, FileSystem, Path}

/**
 * A store that creates an object when its stream is closed, whole, and only if there is none.
 *
 * The store answers a second put with 412, and so it does when the client's own repetition meets its
 * first try: who is refused reads the object back, and equal bytes count as created by this call.
 *
 * There are stores that accept the condition and ignore it. Each bucket is probed once in a process,
 * before the first put; one that replaces the probe is refused.
 */
private[storage] abstract class ConditionalStore(configuration: Configuration)
    extends HadoopStore(configuration) {

  /** A stream whose close creates the object if there is none. */
  protected def open(fs: FileSystem, target: Path): FSDataOutputStream

  /** What tells one bucket from others. */
  protected def bucket(fs: FileSystem): String = fs.getUri.toString

  /** Leaves a stream without creating its object. */
  protected def abandon(out: FSDataOutputStream): Unit

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome = {
    val target = parse(path)
    val fs = explained(path)(target.getFileSystem(configuration))
    probedOnce(bucket(fs))(probe(fs, target, path))
    put(fs, target, bytes)
  }

  /** Both are open before one is closed: what a client looks up at opening cannot help. */
  private def probe(fs: FileSystem, target: Path, path: String): Unit = {
    val file = temporaryFor(target)
    try {
      val puts = Seq("first", "second").map { text =>
        explained(path)(open(fs, file)) -> text.getBytes
      }
      checkProbe(path, puts.map { case (out, bytes) => finish(out, file, bytes) })
    } finally
      discard(fs, file)
  }

  private def put(fs: FileSystem, target: Path, bytes: Array[Byte]): PutOutcome =
    try finish(explained(target.toString)(open(fs, target)), target, bytes)
    catch { case ConditionalStore.Exists() => PutOutcome.AlreadyExists }

  private def finish(out: FSDataOutputStream, target: Path, bytes: Array[Byte]): PutOutcome = {
    explained(target.toString) {
      // Closing would put what has been written so far.
      try out.write(bytes)
      catch {
        case NonFatal(e) =>
          abandon(out)
          throw e
      }
    }
    try {
      out.close()
      PutOutcome.Created
    } catch {
      case e: IOException =>
        val file = target.toUri.toString
        readBack(file, bytes, e) match {
          case PutOutcome.Unknown(denied: AccessDeniedException) if isAbsent(file) =>
            explained(target.toString)(throw denied)
          case outcome => outcome
        }
    }
  }
}

private object ConditionalStore {

  /** A client may look before it opens. */
  object Exists {
    def unapply(e: Throwable): Boolean = e match {
      case _: FileAlreadyExistsException | _: java.nio.file.FileAlreadyExistsException => true
      case _ => e.getCause != null && (e.getCause ne e) && unapply(e.getCause)
    }
  }
}
