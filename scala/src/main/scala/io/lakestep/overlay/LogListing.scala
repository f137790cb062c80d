package io.lakestep.overlay

import org.apache.hadoop.fs.{FileStatus, FileSystem, LocalFileSystem, Path}

import io.lakestep.storage.{HadoopObjectStores, ObjectStores}

/**
 * The files of a log from a name on, in the order of names.
 *
 * Hadoop lists a folder whole, and on the local disk looks at each of its files; there and on S3 our
 * stores begin at the name. A log grows by two files with every commit, of which Delta asks for
 * those after the last checkpoint.
 */
private[overlay] object LogListing {

  /** Whether a listing of this file system begins at the name. */
  def beginsAtName(fs: FileSystem): Boolean =
    fs.getClass == classOf[LocalFileSystem] || ObjectStores.S3Schemes(fs.getScheme)

  /** FileNotFoundException, or nothing, where there is no such folder. */
  def apply(fs: FileSystem, log: Path, from: String): Vector[FileStatus] = {
    val folder = fs.makeQualified(log)
    val uri = folder.toUri
    val stores = new HadoopObjectStores(fs.getConf)
    if (!beginsAtName(fs) || !stores.serves(uri.toString))
      fs.listStatus(folder).filter(s => s.isFile && s.getPath.getName >= from)
        .sortBy(_.getPath.getName).toVector
    else {
      val blockSize = fs.getDefaultBlockSize(folder)
      stores.forPath(uri.toString).list(uri.toString, from).map { file =>
        // By its parts: in a path's text a colon in a name would end a scheme.
        val path = new Path(uri.getScheme, uri.getAuthority, s"${uri.getPath}/${file.name}")
        new FileStatus(file.sizeBytes, false, 1, blockSize, file.modifiedMs, path)
      }
    }
  }
}
