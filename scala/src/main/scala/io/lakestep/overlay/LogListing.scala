package io.lakestep.overlay

import org.apache.hadoop.fs.{FileStatus, FileSystem, LocalFileSystem, Path}

import io.lakestep.storage.{LocalStore, S3Store, StoreKind}

/**
 * The files of a log from a name on, in the order of names.
 *
 * Hadoop lists a folder whole, and on the local disk looks at each of its files; there and on S3 a
 * listing can begin at the name. A log grows by two files with every commit, of which Delta asks for
 * those after the last checkpoint.
 */
private[overlay] object LogListing {

  /** Whether the listing of this file system begins at the name. */
  def beginsAtName(fs: FileSystem): Boolean = isOnDisk(fs) || isOnS3(fs)

  private def isOnDisk(fs: FileSystem): Boolean = fs.getClass == classOf[LocalFileSystem]

  private def isOnS3(fs: FileSystem): Boolean = StoreKind.S3.schemes(fs.getUri.getScheme)

  /** FileNotFoundException, or nothing, where there is no such folder. */
  def apply(fs: FileSystem, log: Path, from: String): Vector[FileStatus] = {
    val folder = fs.makeQualified(log)
    if (isOnDisk(fs)) onDisk(fs, folder, from)
    else {
      val listed =
        if (isOnS3(fs)) S3Store.listFrom(fs, folder, from)
        else fs.listStatus(folder)
      listed.filter(s => s.isFile && s.getPath.getName >= from).sortBy(_.getPath.getName).toVector
    }
  }

  private def onDisk(fs: FileSystem, folder: Path, from: String): Vector[FileStatus] = {
    val uri = folder.toUri
    val blockSize = fs.getDefaultBlockSize(folder)
    // What Hadoop keeps its own checksums in, it shows nobody.
    disk.list(uri.toString, from).filterNot(f => f.name.startsWith(".") && f.name.endsWith(".crc"))
      .map { file =>
        // By its parts: in a path's text a colon in a name would end a scheme.
        val path = new Path(uri.getScheme, uri.getAuthority, s"${uri.getPath}/${file.name}")
        new FileStatus(file.sizeBytes, false, 1, blockSize, file.modifiedMs, path)
      }
  }

  private val disk = new LocalStore(durable = false)
}
