package io.lakestep.storage

import scala.collection.immutable.TreeMap

import io.lakestep.Clock

/** A linearizable store in memory; every call is one atomic step. */
final class MemoryStore(clock: Clock) extends ObjectStore {
  private case class Content(bytes: Array[Byte], modifiedMs: Long)
  private var files = TreeMap.empty[String, Content]

  /** Stands before every put; may answer instead of it, after doing it or not. */
  @volatile var interceptPut: (String, () => PutOutcome) => PutOutcome = (_, put) => put()

  /** Stands before every get; may throw, or answer that there is no such file. */
  @volatile var interceptGet: (String, () => Option[Array[Byte]]) => Option[Array[Byte]] =
    (_, get) => get()

  /** Is told of a folder that has just been listed. */
  @volatile var listed: String => Unit = _ => ()

  @volatile var requests: Vector[String] = Vector.empty

  private def count(request: String): Unit = synchronized { requests = requests :+ request }

  override def putIfAbsent(path: String, bytes: Array[Byte]): PutOutcome = {
    count(s"put $path")
    interceptPut(path, () => create(path, bytes))
  }

  private def create(path: String, bytes: Array[Byte]): PutOutcome = synchronized {
    if (files.contains(path)) PutOutcome.AlreadyExists
    else {
      files += path -> Content(bytes.clone(), clock.nowMs())
      PutOutcome.Created
    }
  }

  /** What a writer without put-if-absent does. */
  def overwrite(path: String, bytes: Array[Byte]): Unit = synchronized {
    files += path -> Content(bytes.clone(), clock.nowMs())
  }

  override def get(path: String): Option[Array[Byte]] = {
    count(s"get $path")
    interceptGet(path, () => synchronized(files.get(path).map(_.bytes.clone())))
  }

  override def list(dir: String, from: String): Vector[StoredFile] = {
    count(s"list $dir")
    val found = synchronized {
      files.iteratorFrom(s"$dir/$from").takeWhile(_._1.startsWith(s"$dir/")).collect {
        case (path, c) if path.indexOf('/', dir.length + 1) < 0 =>
          StoredFile(path.drop(dir.length + 1), c.bytes.length.toLong, c.modifiedMs)
      }.toVector
    }
    listed(dir)
    found
  }

  override def folders(dir: String): Vector[String] = synchronized {
    files.keysIterator.filter(_.startsWith(s"$dir/")).map(_.drop(dir.length + 1))
      .collect { case below if below.contains('/') => below.takeWhile(_ != '/') }.toVector.distinct
  }

  override def exists(path: String): Boolean = {
    count(s"exists $path")
    synchronized(files.contains(path))
  }

  /** Stands before every delete of a file; may throw. */
  @volatile var failDelete: String => Unit = _ => ()

  override def delete(path: String): Unit = {
    count(s"delete $path")
    failDelete(path)
    synchronized { files -= path }
  }

  override def deleteFolder(dir: String): Unit = {
    count(s"delete $dir")
    synchronized { files = files.filterNot(_._1.startsWith(s"$dir/")) }
  }

  /** Stands before every sync; may throw. */
  @volatile var failSync: String => Unit = _ => ()

  override def sync(path: String): Boolean = {
    count(s"sync $path")
    failSync(path)
    synchronized(files.contains(path))
  }

  override def force(path: String): Unit = {
    sync(path)
    ()
  }

  def paths: Vector[String] = synchronized(files.keys.toVector)
}
