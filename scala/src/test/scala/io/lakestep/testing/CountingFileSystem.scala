package io.lakestep.testing

import java.net.URI
import java.util.{EnumSet, Map => JMap}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.LongAdder

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  BlockLocation,
  CreateFlag,
  DelegateToFileSystem,
  FSDataInputStream,
  FSDataOutputStream,
  FileStatus,
  FileSystem,
  FileAlreadyExistsException,
  Options,
  Path,
  RawLocalFileSystem
}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * The local disk under the scheme `hdfs`, counting each request that HDFS would get.
 *
 * `spark.hadoop.fs.hdfs.impl` names this class, `spark.hadoop.fs.AbstractFileSystem.hdfs.impl`
 * [[CountingFileContext]]. Opening a file counts once, however much of it is read. As with HDFS a
 * rename onto a file that exists is refused.
 */
final class CountingFileSystem extends FileSystem {
  import CountingFileSystem._

  private val disk = new RawLocalFileSystem
  private var folder = new Path("hdfs://counted/")

  override def initialize(name: URI, configuration: Configuration): Unit = {
    super.initialize(name, configuration)
    setConf(configuration)
    disk.initialize(URI.create("file:///"), configuration)
  }

  override def getScheme: String = "hdfs"
  override def getUri: URI = Uri
  override protected def getDefaultPort: Int = 8020
  override def getWorkingDirectory: Path = folder
  override def setWorkingDirectory(path: Path): Unit = folder = makeQualified(path)

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    counted("open", path)(disk.open(_, bufferSize))

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    counted("create", path)(
      disk.create(_, permission, overwrite, bufferSize, replication, blockSize, progress)
    )

  override protected[testing] def primitiveCreate(
      path: Path,
      permission: FsPermission,
      flags: EnumSet[CreateFlag],
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable,
      checksum: Options.ChecksumOpt): FSDataOutputStream = {
    val overwrite = flags.contains(CreateFlag.OVERWRITE)
    create(path, permission, overwrite, bufferSize, replication, blockSize, progress)
  }

  override def append(path: Path, bufferSize: Int, progress: Progressable): FSDataOutputStream =
    counted("append", path)(disk.append(_, bufferSize, progress))

  override def rename(from: Path, to: Path): Boolean =
    counted("rename", to)(target => renamed(from, target, overwrite = false))

  def rename(from: Path, to: Path, overwrite: Boolean): Unit =
    counted("rename", to) { target =>
      if (!renamed(from, target, overwrite)) throw new FileAlreadyExistsException(to.toString)
    }

  private def renamed(from: Path, target: Path, overwrite: Boolean): Boolean =
    (overwrite || !disk.exists(target)) && disk.rename(onDisk(from), target)

  override def delete(path: Path, recursive: Boolean): Boolean =
    counted("delete", path)(disk.delete(_, recursive))

  override def listStatus(path: Path): Array[FileStatus] =
    counted("list", path)(disk.listStatus(_).map(shown))

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    counted("mkdirs", path)(disk.mkdirs(_, permission))

  override def getFileStatus(path: Path): FileStatus =
    counted("status", path)(file => shown(disk.getFileStatus(file)))

  override def getFileBlockLocations(
      file: FileStatus,
      start: Long,
      length: Long): Array[BlockLocation] = Array(new BlockLocation(null, null, start, length))

  private def shown(status: FileStatus): FileStatus = new FileStatus(
    status.getLen,
    status.isDirectory,
    status.getReplication.toInt,
    status.getBlockSize,
    status.getModificationTime,
    makeQualified(new Path(status.getPath.toUri.getPath))
  )
}

object CountingFileSystem {

  private val Uri = URI.create("hdfs://counted")

  private val counts = new ConcurrentHashMap[String, LongAdder]

  /** Requests since the start of this JVM, by `area request`: the area is timeline, log or data. */
  def requests: JMap[String, Long] = counts.asScala.view.mapValues(_.sum).toMap.asJava

  private def onDisk(path: Path): Path = new Path("file", null, path.toUri.getPath)

  private def counted[A](request: String, path: Path)(body: Path => A): A = {
    counts.computeIfAbsent(s"${area(path)} $request", _ => new LongAdder).increment()
    body(onDisk(path))
  }

  private def area(path: Path): String = {
    val names = path.toUri.getPath.split('/')
    if (names.contains("_delta_log")) "log"
    else if (names.contains("timeline")) "timeline"
    else "data"
  }
}

/** [[CountingFileSystem]] for `FileContext`, with which Delta writes its logs. */
final class CountingFileContext(uri: URI, configuration: Configuration)
    extends DelegateToFileSystem(
      uri,
      CountingFileContext.started(configuration),
      configuration,
      "hdfs",
      true
    ) {

  override def renameInternal(from: Path, to: Path, overwrite: Boolean): Unit =
    fsImpl.asInstanceOf[CountingFileSystem].rename(from, to, overwrite)
}

private object CountingFileContext {
  def started(configuration: Configuration): CountingFileSystem = {
    val files = new CountingFileSystem
    files.initialize(URI.create("hdfs://counted"), configuration)
    files
  }
}
