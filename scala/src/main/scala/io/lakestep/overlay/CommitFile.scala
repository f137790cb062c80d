package io.lakestep.overlay

import java.io.{ByteArrayOutputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Iterator => JIterator}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.lakestep.LakestepConf
import io.lakestep.storage.{HadoopStores, PutOutcome}

/** Creates commit files by put-if-absent, as a Delta log store promises to. */
private[overlay] object CommitFile {

  /**
   * Creates `physical` with one action per line, whole and durable, or throws.
   *
   * A file that is there already, under the name `asked`, is Delta's own
   * `FileAlreadyExistsException`. Where the store gave no answer the file is read back: the same
   * bytes are ours, because every commit holds an identifier of its own.
   */
  def create(
      physical: Path,
      asked: Path,
      bytes: Array[Byte],
      configuration: Configuration): Unit = {
    val path = physical.toUri.toString
    val durable = LakestepConf.SyncFiles.from(key => Option(configuration.get(key)))
    val store = new HadoopStores(configuration, durable).forPath(path)
    val outcome = store.putIfAbsent(path, bytes) match {
      case PutOutcome.Unknown(cause) =>
        val found = store.readBack(path, bytes, cause)
        if (found == PutOutcome.Created) store.force(path)
        found
      case clear => clear
    }
    outcome match {
      case PutOutcome.Created => ()
      case PutOutcome.AlreadyExists => throw new FileAlreadyExistsException(asked.toString)
      case PutOutcome.Unknown(cause) => throw new Unclear(path, cause)
    }
  }

  /** Nobody can tell whether the file was created, or will be. */
  final class Unclear(path: String, cause: Throwable)
      extends IOException(s"It is not known whether $path was created", cause)

  def bytesOf(actions: JIterator[String]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    actions.forEachRemaining { action =>
      out.write(action.getBytes(UTF_8))
      out.write('\n'.toInt)
    }
    out.toByteArray
  }
}
