package io.lakestep.overlay

import java.io.{FileNotFoundException, OutputStream}
import java.net.URI
import java.util.EnumSet

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  BlockLocation, CreateFlag, FSDataInputStream, FSDataOutputStream, FSDataOutputStreamBuilder,
  FileChecksum, FileStatus, FileSystem, FsServerDefaults, FsStatus, FutureDataInputStreamBuilder,
  LocatedFileStatus, Path, RemoteIterator
}
import org.apache.hadoop.fs.permission.{FsAction, FsPermission}
import org.apache.hadoop.util.Progressable

import io.lakestep.{Errors, RuntimeContract}
import io.lakestep.log.LogFileName
import io.lakestep.storage.{HadoopStores, TemporaryFiles}

/**
 * Shows tables through a chain: the base log up to the pin, then staged commits; everything
 * outside the log is the base file system's own.
 *
 *  1. Stateless: an answer depends on the path, the Configuration and the store alone, so that
 *     executors see what the driver sees.
 *  1. Nothing in a base `_delta_log` is ever created, replaced, renamed or deleted through it.
 *     Checkpoints, checksums, hints and temporary files written there are taken and forgotten;
 *     a deletion there removes nothing and says so. Staged commits are created by
 *     `OverlayLogStore` alone.
 *  1. A chain without segments refuses every change, of data too (LAKESTEP_OVERLAY_READ_ONLY).
 *  1. The base file system is the one that the Configuration given to `initialize` yields, as
 *     plain Delta would get it. It is closed with this one where Hadoop does not cache it.
 *
 * Instances are cheap and must not be cached by Hadoop, which would keep one for each chain that
 * was ever used: `fs.lakestep.impl.disable.cache`.
 */
class OverlayFileSystem extends FileSystem {
  RuntimeContract.check()

  private var uri: URI = _
  private var chain: Chain = _

  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    chain = Option(name.getAuthority).flatMap(Chain.parse).getOrElse {
      throw Errors("LAKESTEP_OVERLAY_PATH_INVALID", "path" -> name.toString)
    }
    uri = new URI(OverlayPath.Scheme, chain.text, "/", null, null)
    setConf(conf)
  }

  override def getScheme: String = OverlayPath.Scheme
  override def getUri: URI = uri
  override def getCanonicalServiceName: String = null
  override def getWorkingDirectory: Path = new Path(uri)
  override def setWorkingDirectory(dir: Path): Unit = ()

  override def close(): Unit = {
    val mine = synchronized {
      val uncached = bases.collect {
        case ((scheme, _), fs) if getConf.getBoolean(s"fs.$scheme.impl.disable.cache", false) => fs
      }
      bases = Map.empty
      uncached
    }
    mine.foreach(_.close())
    super.close()
  }

  // Reading

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    placeOf(path) match {
      case LogPlace.InLog(log, "_last_checkpoint") =>
        val bytes = view(log).lastCheckpoint().getOrElse(throw notFound(path))
        new FSDataInputStream(new InMemoryFile(bytes))
      case place =>
        val real = realPath(path)
        val fs = baseOf(real)
        val whole = if (isSmall(place)) HadoopStores.inOneRequest(fs, real) else None
        whole.fold(fs.open(real, bufferSize))(bytes =>
          new FSDataInputStream(new InMemoryFile(bytes))
        )
    }

  private def isSmall(place: LogPlace): Boolean = place match {
    case LogPlace.InLog(_, name) => LogFileName(name).isSmall
    case _ => false
  }

  override def openFile(path: Path): FutureDataInputStreamBuilder =
    placeOf(path) match {
      case LogPlace.InLog(_, "_last_checkpoint") => super.openFile(path)
      case place =>
        val real = realPath(path)
        val fs = baseOf(real)
        if (S3Files.isOne(fs, real)) S3Files.opening(fs, real)
        else if (isSmall(place) && !HadoopStores.hasFolders(fs)) super.openFile(path)
        else fs.openFile(real)
    }

  override def getFileStatus(path: Path): FileStatus = find(path).getOrElse(throw notFound(path))

  private def find(path: Path): Option[FileStatus] =
    OverlayPath.find(path).flatMap { overlay =>
      LogPlace.of(overlay.base) match {
        case LogPlace.Data(base) => S3Files.created(base).orElse(status(base))
        case LogPlace.Log(log) =>
          Option.when(view(log).hasLog)(()).map { _ =>
            def real = if (HadoopStores.hasFolders(baseOf(log))) status(log) else None
            real.getOrElse(OverlayStatus.virtual(path, isFolder = true))
          }
        case LogPlace.InLog(log, name) =>
          view(log).locate(name).orElse(takenCheckpoint(path, LogFileName(name)))
        case LogPlace.DeepInLog(log, LogFileName.SidecarFolder, base) =>
          status(chain.deep(log, base)).orElse(takenCheckpoint(
            path,
            LogFileName.Checkpoint(chain.pin + 1)
          ))
        case LogPlace.DeepInLog(log, top, base) if LogFileName(top) != LogFileName.Hidden =>
          status(chain.deep(log, base))
        case _: LogPlace.DeepInLog => None
      }
    }.map(OverlayStatus(_, path))

  /**
   * The writer of a checkpoint asks for its file afterwards. It was taken and forgotten, so it is
   * an empty file to whoever knows its name; no listing shows it and it cannot be opened.
   */
  private def takenCheckpoint(path: Path, entry: LogFileName): Option[FileStatus] = entry match {
    case LogFileName.Checkpoint(version) if version > chain.pin && !chain.isReadOnly =>
      Some(OverlayStatus.virtual(path, isFolder = false))
    case _ => None
  }

  override def listStatus(path: Path): Array[FileStatus] =
    placeOf(path) match {
      case LogPlace.Log(log) => shown(path, view(log).list())
      case _ =>
        val real = realPath(path)
        baseOf(real).listStatus(real).filter(isShown).map(s =>
          OverlayStatus(s, under(path, real, s))
        )
    }

  /** What stands in a folder from a name on, in the order of names; of a log the files alone. */
  private[overlay] def listFrom(path: Path, name: String): Array[FileStatus] =
    placeOf(path) match {
      case LogPlace.Log(log) => shown(path, view(log).listFrom(name))
      case _ => listStatus(path).filter(_.getPath.getName >= name).sortBy(_.getPath.getName)
    }

  private def shown(path: Path, found: Vector[(String, FileStatus)]): Array[FileStatus] =
    found.map { case (name, s) => OverlayStatus(s, child(path, name)) }.toArray

  override def listLocatedStatus(path: Path): RemoteIterator[LocatedFileStatus] =
    placeOf(path) match {
      case LogPlace.Data(real) =>
        val statuses = baseOf(real).listLocatedStatus(real)
        new RemoteIterator[LocatedFileStatus] {
          private var ahead: Option[LocatedFileStatus] = None
          private def advance(): Unit =
            while (ahead.isEmpty && statuses.hasNext) ahead = Some(statuses.next()).filter(isShown)
          override def hasNext: Boolean = { advance(); ahead.isDefined }
          override def next(): LocatedFileStatus = {
            advance()
            val status = ahead.getOrElse(throw new NoSuchElementException(path.toString))
            ahead = None
            new OverlayLocatedStatus(status, under(path, real, status))
          }
        }
      case _ => super.listLocatedStatus(path)
    }

  override def getFileBlockLocations(
      file: FileStatus,
      start: Long,
      length: Long): Array[BlockLocation] =
    file match {
      case null => null
      case located: LocatedFileStatus if located.getBlockLocations != null =>
        super.getFileBlockLocations(located, start, length)
      case _ => getFileBlockLocations(file.getPath, start, length)
    }

  override def getFileBlockLocations(
      path: Path,
      start: Long,
      length: Long): Array[BlockLocation] = {
    val real = realPath(path)
    baseOf(real).getFileBlockLocations(real, start, length)
  }

  override def getFileChecksum(path: Path, length: Long): FileChecksum = {
    val real = realPath(path)
    baseOf(real).getFileChecksum(real, length)
  }

  override def access(path: Path, mode: FsAction): Unit = {
    val real = realPath(path)
    baseOf(real).access(real, mode)
  }

  override def hasPathCapability(path: Path, capability: String): Boolean =
    OverlayPath.find(path).exists(p => baseOf(p.base).hasPathCapability(p.base, capability))

  override def getDefaultBlockSize(path: Path): Long =
    OverlayPath.find(path).fold(super.getDefaultBlockSize(path)) { p =>
      baseOf(p.base).getDefaultBlockSize(p.base)
    }

  override def getDefaultReplication(path: Path): Short =
    OverlayPath.find(path).fold(super.getDefaultReplication(path)) { p =>
      baseOf(p.base).getDefaultReplication(p.base)
    }

  override def getServerDefaults(path: Path): FsServerDefaults =
    OverlayPath.find(path).fold(super.getServerDefaults(path)) { p =>
      baseOf(p.base).getServerDefaults(p.base)
    }

  override def getStatus(path: Path): FsStatus =
    OverlayPath.find(path).fold(super.getStatus(path))(p => baseOf(p.base).getStatus(p.base))

  // Writing

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    writing(path) match {
      case LogPlace.Data(base) =>
        val fs = baseOf(base)
        if (S3Files.isOne(fs, base)) S3Files.create(fs, base, bufferSize, replication, blockSize)
        else fs.create(base, permission, overwrite, bufferSize, replication, blockSize, progress)
      case inLog => forget(path, inLog)
    }

  override def createNonRecursive(
      path: Path,
      permission: FsPermission,
      flags: EnumSet[CreateFlag],
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    writing(path) match {
      case LogPlace.Data(base) =>
        baseOf(base)
          .createNonRecursive(base, permission, flags, bufferSize, replication, blockSize, progress)
      case inLog => forget(path, inLog)
    }

  override def createFile(path: Path): FSDataOutputStreamBuilder[_, _] =
    writing(path) match {
      case LogPlace.Data(base) => baseOf(base).createFile(base)
      case _ => super.createFile(path)
    }

  override def append(path: Path, bufferSize: Int, progress: Progressable): FSDataOutputStream =
    throw refused(path, "append to a file")

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    writing(path) match {
      case LogPlace.Data(base) => baseOf(base).mkdirs(base, permission)
      case _ => true
    }

  override def rename(from: Path, to: Path): Boolean =
    (writing(from), writing(to)) match {
      case (LogPlace.Data(source), LogPlace.Data(target)) =>
        if (holdsLog(source)) throw refused(from, "rename a folder that holds a table")
        baseOf(source).rename(source, target)
      case (_: LogPlace.Data, _) | (_, _: LogPlace.Data) =>
        throw refused(from, "rename a file into or out of a log")
      case _ => true
    }

  override def delete(path: Path, recursive: Boolean): Boolean =
    writing(path) match {
      case LogPlace.Data(base) =>
        if (recursive && holdsLog(base)) throw refused(path, "delete a folder that holds a table")
        S3Files.forget(base)
        baseOf(base).delete(base, recursive)
      case _ => false
    }

  override def setPermission(path: Path, permission: FsPermission): Unit =
    writing(path) match {
      case LogPlace.Data(base) => baseOf(base).setPermission(base, permission)
      case _ => ()
    }

  override def setOwner(path: Path, user: String, group: String): Unit =
    writing(path) match {
      case LogPlace.Data(base) => baseOf(base).setOwner(base, user, group)
      case _ => ()
    }

  override def setTimes(path: Path, modifiedMs: Long, accessedMs: Long): Unit =
    writing(path) match {
      case LogPlace.Data(base) => baseOf(base).setTimes(base, modifiedMs, accessedMs)
      case _ => ()
    }

  private def writing(path: Path): LogPlace = {
    val place = placeOf(path)
    if (chain.isReadOnly)
      throw Errors("LAKESTEP_OVERLAY_READ_ONLY", "path" -> path.toString, "chain" -> chain.text)
    place
  }

  private def forget(path: Path, place: LogPlace): FSDataOutputStream = place match {
    case LogPlace.InLog(_, name) if LogFileName(name).isInstanceOf[LogFileName.Commit] =>
      throw refused(path, "create a commit without the log store")
    case _ => new FSDataOutputStream(OutputStream.nullOutputStream(), statistics)
  }

  /** Whether a `_delta_log` is the folder's, or lies anywhere below it. */
  private def holdsLog(folder: Path): Boolean = {
    val fs = baseOf(folder)
    def below(path: Path): Boolean =
      fs.listStatus(path).exists { s =>
        s.isDirectory && (s.getPath.getName == TemporaryFiles.LogFolder || below(s.getPath))
      }
    status(folder).exists(_.isDirectory) && below(folder)
  }

  // Paths

  /** The physical path of a file, if the view holds it, and of anything outside a log. */
  private[overlay] def realPath(path: Path): Path = placeOf(path) match {
    case LogPlace.Data(base) => base
    case LogPlace.Log(log) => log
    case LogPlace.InLog(log, name) => view(log).whereabouts(name).getOrElse(throw notFound(path))
    case LogPlace.DeepInLog(log, top, base) =>
      if (LogFileName(top) == LogFileName.Hidden || chain.pin < 0) throw notFound(path)
      else chain.deep(log, base)
  }

  private def placeOf(path: Path): LogPlace = {
    checkPath(path)
    LogPlace.of(OverlayPath.parse(path).base)
  }

  private def view(log: Path): LogView = new LogView(chain, log, baseOf(log))

  private def status(base: Path): Option[FileStatus] =
    try Some(baseOf(base).getFileStatus(base))
    catch { case _: FileNotFoundException => None }

  /** A table that is not published has no log, whatever others put there. */
  private def isShown(status: FileStatus): Boolean =
    chain.pin >= 0 || status.getPath.getName != TemporaryFiles.LogFolder ||
      view(status.getPath).hasLog

  /** The overlay path of what a listing of `real`, a folder or a file, found. */
  private def under(path: Path, real: Path, found: FileStatus): Path =
    if (found.getPath.toUri.getPath == real.toUri.getPath) path
    else child(path, found.getPath.getName)

  /** As `new Path(parent, name)`, for names with a colon as well. */
  private def child(parent: Path, name: String): Path = {
    val folder = parent.toUri.getPath.stripSuffix("/")
    new Path(OverlayPath.Scheme, chain.text, s"$folder/$name")
  }

  private def notFound(path: Path) =
    new FileNotFoundException(s"No such file or directory: $path")

  private def refused(path: Path, what: String) =
    Errors("LAKESTEP_OVERLAY_CHANGE_REFUSED", "path" -> path.toString, "change" -> what)

  /** By scheme and authority; tables of several stores may be seen through one chain. */
  private var bases: Map[(String, String), FileSystem] = Map.empty

  private def baseOf(path: Path): FileSystem = synchronized {
    val key = (path.toUri.getScheme, path.toUri.getAuthority)
    bases.getOrElse(
      key, {
        val fs = path.getFileSystem(getConf)
        bases += key -> fs
        fs
      }
    )
  }
}
