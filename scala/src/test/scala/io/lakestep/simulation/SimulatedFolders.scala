package io.lakestep.simulation

import java.net.URI
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, FileStatus, FileSystem, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** The folders of a history for those who look at them through Hadoop; nothing can be changed. */
final class SimulatedFolders extends FileSystem {
  private var uri: URI = _

  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    uri = name
  }

  private def below(path: Path): Vector[String] =
    Option(SimulatedFolders.worlds.get(uri.getAuthority)).toVector
      .flatMap(_.store.below(path.toUri.getPath))

  override def getUri: URI = uri
  override def exists(path: Path): Boolean = below(path).nonEmpty
  override def listStatus(path: Path): Array[FileStatus] =
    below(path).map(file => new FileStatus(1, false, 1, 1, 0, new Path(file))).toArray
  override def getFileStatus(path: Path): FileStatus = new FileStatus(0, true, 1, 1, 0, path)
  override def getWorkingDirectory: Path = new Path("/")

  private def never = throw new UnsupportedOperationException
  override def setWorkingDirectory(path: Path): Unit = never
  override def open(path: Path, size: Int): FSDataInputStream = never
  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      size: Int,
      replication: Short,
      block: Long,
      progress: Progressable): FSDataOutputStream = never
  override def append(path: Path, size: Int, progress: Progressable): FSDataOutputStream = never
  override def rename(from: Path, to: Path): Boolean = never
  override def delete(path: Path, recursive: Boolean): Boolean = never
  override def mkdirs(path: Path, permission: FsPermission): Boolean = never
}

object SimulatedFolders {
  private val worlds = new ConcurrentHashMap[String, World]

  /** Paths without a scheme are those of the history's store, as long as `work` goes on. */
  def of[A](world: World)(work: Configuration => A): A = {
    val name = s"w${System.identityHashCode(world)}-${Thread.currentThread.getId}"
    val conf = new Configuration(false)
    conf.set("fs.defaultFS", s"simulated://$name/")
    conf.set("fs.simulated.impl", classOf[SimulatedFolders].getName)
    conf.setBoolean("fs.simulated.impl.disable.cache", true)
    worlds.put(name, world)
    try work(conf)
    finally {
      worlds.remove(name)
      ()
    }
  }
}
