package io.lakestep.commit

import java.util.concurrent.atomic.AtomicInteger

import io.lakestep.storage.{ObjectStore, PutOutcome, StoredFile}

/** A store whose client stops for ever at one of its requests, before its effect or after it. */
private[lakestep] final class HaltingStore(inner: ObjectStore, at: Int, after: Boolean)
    extends ObjectStore {

  private val requests = new AtomicInteger

  def hasHalted: Boolean = requests.get >= at

  private def request[A](effect: => A): A = {
    val number = requests.incrementAndGet()
    if (number > at || (number == at && !after)) throw new Crash
    val answer = effect
    if (number == at) throw new Crash
    answer
  }

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome =
    request(inner.putIfAbsent(path, bytes))
  override def get(path: String): Option[Array[Byte]] = request(inner.get(path))
  override def list(dir: String, from: String): Vector[StoredFile] = request(inner.list(dir, from))
  override def folders(dir: String): Vector[String] = request(inner.folders(dir))
  override def exists(path: String): Boolean = request(inner.exists(path))
  override def delete(path: String): Unit = request(inner.delete(path))
  override def deleteFolder(dir: String): Unit = request(inner.deleteFolder(dir))
  override def sync(path: String): Boolean = request(inner.sync(path))
  override def force(path: String): Unit = request(inner.force(path))
}
