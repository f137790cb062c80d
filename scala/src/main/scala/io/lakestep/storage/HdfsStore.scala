package io.lakestep.storage

import java.io.IOException

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import io.lakestep.Errors

/**
 * HDFS: a file appears under its name by a rename, which the name node refuses when the name is
 * taken. `create` alone would not do: its file is visible, empty, before it is written.
 *
 * The content is forced to the data nodes before the rename. A rename whose answer is lost is
 * `Unknown`.
 */
final class HdfsStore(configuration: Configuration) extends HadoopStore(configuration) {

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
}
