package io.lakestep.storage

import java.io.IOException
import java.nio.file.AccessDeniedException
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, FSDataOutputStream, Path}

import io.lakestep.Errors

/**
 * S3 by Hadoop's s3a: S3 itself creates an object only if there is none (`If-None-Match: *`).
 *
 * `create(path, false)` of s3a would not do: it looks, and then puts without a condition. S3 answers
 * a second put with 412, and so it does when the client's own repetition meets its first try: who is
 * refused reads the object back, and equal bytes count as created by this call.
 *
 * There are stores that accept the condition and ignore it. Each bucket is probed once in a process,
 * before the first put; one that replaces the probe is refused.
 */
final class S3Store(configuration: Configuration) extends HadoopStore(configuration) {

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome = {
    val target = parse(path)
    val fs = explained(path)(target.getFileSystem(configuration))
    val bucket = s"${fs.getUri} ${configuration.get("fs.s3a.endpoint", "")}"
    if (!S3Store.probed.contains(bucket)) {
      probe(fs, target, path)
      S3Store.probed.add(bucket)
    }
    put(fs, target, bytes)
  }

  private def probe(fs: FileSystem, target: Path, path: String): Unit = {
    val file = temporaryFor(target)
    def refused(reason: String) =
      Errors("LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT", "path" -> path, "reason" -> reason)
    try
      Seq("first", "second").map(text => put(fs, file, text.getBytes)) match {
        case Seq(PutOutcome.Created, PutOutcome.AlreadyExists) => ()
        case Seq(PutOutcome.Created, PutOutcome.Created) =>
          throw refused("the store accepts the condition of a put and ignores it")
        case answers =>
          val cause = answers.collectFirst { case PutOutcome.Unknown(e) => e }
          throw refused(s"a probe was answered with $answers${cause.fold("")(e => s": $e")}")
      }
    finally
      try fs.delete(file, false)
      catch { case NonFatal(_) => () }
  }

  private def put(fs: FileSystem, target: Path, bytes: Array[Byte]): PutOutcome = {
    val out = explained(target.toString)(open(fs, target))
    explained(target.toString) {
      // Closing would put what has been written so far.
      try out.write(bytes)
      catch {
        case NonFatal(e) =>
          out.abort()
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

  private def isAbsent(path: String): Boolean =
    try !exists(path)
    catch { case NonFatal(_) => false }

  private def open(fs: FileSystem, target: Path): FSDataOutputStream =
    try
      fs.createFile(target).overwrite(true).recursive()
        .must("fs.option.create.conditional.overwrite", true).build()
    catch {
      case e: IllegalArgumentException =>
        throw Errors.caused(
          "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT",
          e,
          "path" -> target.toString,
          "reason" -> "this version of s3a has no conditional create; Hadoop 3.4.2 or later has"
        )
    }
}

private object S3Store {

  /** Buckets, with the endpoint, that have kept the condition. */
  val probed: java.util.Set[String] = ConcurrentHashMap.newKeySet[String]
}
