package io.lakestep.storage

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, FileSystem, Path}

/**
 * Google Cloud Storage by its Hadoop connector: `create(path, false)` uploads with generation-match
 * 0, and the object appears whole when the upload ends.
 *
 * An interrupt makes the connector upload what it has got so far, so a put runs on a thread of its
 * own, as in Delta's GCSLogStore. The connector's composite streams show an object before it is
 * whole: refused.
 *
 * Source: gcs-connector 2.2.21, `GoogleCloudStorageImpl.create`, `GoogleHadoopOutputStream`. Not
 * tested against the service.
 */
final class GcsStore(configuration: Configuration) extends ConditionalStore(configuration) {

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome = {
    val kind = configuration.get(GcsStore.StreamKey, "BASIC")
    if (kind != "BASIC")
      throw withoutPutIfAbsent(path, s"${GcsStore.StreamKey} is $kind, not BASIC")
    OwnThread.run("lakestep-gcs-put")(super.putIfAbsent(path, bytes))
  }

  override protected def open(fs: FileSystem, target: Path): FSDataOutputStream =
    fs.create(target, false)

  /** It is never closed, and its upload never ends. */
  override protected def abandon(out: FSDataOutputStream): Unit = ()
}

private object GcsStore {
  val StreamKey = "fs.gs.outputstream.type"
}

/** Runs something on a thread that nobody interrupts. */
private object OwnThread {

  /** Returns or throws what `body` does; an interrupt of the caller is given back afterwards. */
  def run[A](name: String)(body: => A): A = {
    @volatile var result: scala.util.Try[A] = scala.util.Failure(new IllegalStateException(name))
    val thread = new Thread(
      () => result = scala.util.Try(body),
      name
    )
    thread.setDaemon(true)
    thread.start()
    var interrupted = false
    while (thread.isAlive)
      try thread.join()
      catch { case _: InterruptedException => interrupted = true }
    if (interrupted) Thread.currentThread.interrupt()
    result.get
  }
}
