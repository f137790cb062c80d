package io.lakestep.storage

import java.io.IOException
import java.nio.file.AccessDeniedException

import scala.util.Using
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.hdfs.protocol.QuotaExceededException
import org.apache.hadoop.ipc.RemoteException
import org.apache.hadoop.security.AccessControlException

/**
 * A store whose server renames a file in one step, and refuses to when the name is taken.
 *
 * `create` alone would not do: its file is visible, empty, before it is written, and stays so when
 * its writer dies. The content goes to a temporary file first, whose lease is in nobody's way.
 */
private[storage] abstract class RenameStore(configuration: Configuration)
    extends HadoopStore(configuration) {

  /** Throws to refuse the store; before anything is put. */
  protected def admit(fs: FileSystem, target: Path, path: String): Unit

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome = {
    val target = parse(path)
    val fs = explained(path)(target.getFileSystem(configuration))
    admit(fs, target, path)
    if (isTaken(fs, target, path)) PutOutcome.AlreadyExists else put(fs, target, bytes)
  }

  private def isTaken(fs: FileSystem, target: Path, path: String): Boolean =
    explained(path)(fs.exists(target))

  protected def put(fs: FileSystem, target: Path, bytes: Array[Byte]): PutOutcome = {
    val path = target.toUri.toString
    val temporary = temporaryFor(target)
    var isRenamed = false
    try {
      explained(path) {
        fs.mkdirs(target.getParent)
        Using.resource(fs.create(temporary, false)) { out =>
          out.write(bytes)
          out.hsync()
        }
      }
      val outcome = rename(fs, temporary, target, path, bytes)
      isRenamed = outcome == PutOutcome.Created
      outcome
    } finally
      if (!isRenamed)
        discard(fs, temporary)
  }

  /**
   * A refusal may be that of a client's own repetition, whose first try succeeded: what is there
   * now decides. A server that says no has renamed nothing, when nothing is there.
   */
  private def rename(
      fs: FileSystem,
      from: Path,
      to: Path,
      path: String,
      bytes: Array[Byte]): PutOutcome =
    try
      if (fs.rename(from, to)) PutOutcome.Created
      else readBack(path, bytes, new IOException("the store refused the rename"))
    catch {
      case e: IOException =>
        readBack(path, bytes, e) match {
          case PutOutcome.Unknown(cause: IOException) if isRefusal(cause) && isAbsent(path) =>
            explained(path)(throw cause)
          case outcome => outcome
        }
    }

  private def isRefusal(e: IOException): Boolean = e match {
    case _: RemoteException | _: AccessControlException | _: AccessDeniedException => true
    case _: QuotaExceededException => true
    case _ => false
  }
}
