package io.lakestep.storage

import java.util.concurrent.atomic.LongAdder

/** How often stores are asked for something: puts, gets, listings and deletions, by whom they are done for. */
object Requests {

  private val account = new ThreadLocal[LongAdder]

  /** Gives the work a count of its own requests, those of threads included that work for it. */
  def counting[A](work: (() => Long) => A): A = {
    val before = account.get
    val own = new LongAdder
    account.set(own)
    try work(() => own.sum)
    finally account.set(before)
  }

  /** Work of this thread's account, for another thread. */
  def carried(task: Runnable): Runnable = {
    val ofCaller = account.get
    () => {
      val before = account.get
      account.set(ofCaller)
      try task.run()
      finally account.set(before)
    }
  }

  /** Stores whose requests are counted. */
  def counted(stores: ObjectStores): ObjectStores =
    (path: String) => new CountedStore(stores.forPath(path))

  private final class CountedStore(store: ObjectStore) extends ObjectStore {
    private def one[A](request: => A): A = {
      Option(account.get).foreach(_.increment())
      request
    }
    override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome =
      one(store.putIfAbsent(path, bytes))
    override def putUnannounced(path: String, bytes: Array[Byte]): PutOutcome =
      one(store.putUnannounced(path, bytes))
    override def get(path: String): Option[Array[Byte]] = one(store.get(path))
    override def list(dir: String, from: String): Vector[StoredFile] = one(store.list(dir, from))
    override def folders(dir: String): Vector[String] = one(store.folders(dir))
    override def exists(path: String): Boolean = one(store.exists(path))
    override def delete(path: String): Unit = one(store.delete(path))
    override def deleteFolder(dir: String): Unit = one(store.deleteFolder(dir))
    override def sync(path: String): Boolean = one(store.sync(path))
    // Nothing is asked where writes are durable.
    override def force(path: String): Unit = store.force(path)
  }
}
