package io.lakestep.storage

import java.util.concurrent.atomic.LongAdder

/**
 * An object store: each request takes the same time, and has its effect in the middle of it.
 *
 * A finished write is durable, so `force` asks nothing. Deleting a folder is one request.
 *
 * @param pause lets the calling thread wait, in milliseconds
 * @param asked is told of each request when it begins: the verb, and the path
 */
final class SlowStore(
    inner: ObjectStore,
    latencyMs: Long,
    pause: Long => Unit,
    asked: (String, String) => Unit)
    extends ObjectStore {

  private val requests, nanos = new LongAdder

  /** What a request has taken beyond the pauses, on average, in milliseconds of this machine. */
  def innerMs: Double = nanos.sum / 1e6 / requests.sum

  private def request[A](verb: String, path: String)(effect: => A): A = {
    asked(verb, path)
    pause(latencyMs / 2)
    val began = System.nanoTime
    val answer = effect
    requests.increment()
    nanos.add(System.nanoTime - began)
    pause(latencyMs - latencyMs / 2)
    answer
  }

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome =
    request("put", path)(inner.putIfAbsent(path, bytes))
  override def get(path: String): Option[Array[Byte]] = request("get", path)(inner.get(path))
  override def list(dir: String, from: String): Vector[StoredFile] =
    request("list", dir)(inner.list(dir, from))
  override def folders(dir: String): Vector[String] = request("folders", dir)(inner.folders(dir))
  override def exists(path: String): Boolean = request("exists", path)(inner.exists(path))
  override def delete(path: String): Unit = request("delete", path)(inner.delete(path))
  override def deleteFolder(dir: String): Unit = request("delete", dir)(inner.deleteFolder(dir))
  override def sync(path: String): Boolean = request("sync", path)(inner.sync(path))
  override def force(path: String): Unit = ()
}
