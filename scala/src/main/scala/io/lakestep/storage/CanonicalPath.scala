package io.lakestep.storage

import java.nio.file.{Files, Paths}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** One spelling for one folder, so that two paths to one log cannot become two tables. */
private[lakestep] object CanonicalPath {

  /** The qualified path; on a local disk with its symbolic links followed, elsewhere by its alias. */
  def apply(path: Path, conf: Configuration): Path = {
    val qualified = path.getFileSystem(conf).makeQualified(path)
    if (qualified.toUri.getScheme != "file") StoreKind.withoutAlias(qualified, conf)
    else {
      // Of a table that is yet to be made the folders above it count.
      val local = Paths.get(qualified.toUri.getPath)
      Iterator.iterate(local)(_.getParent).takeWhile(_ != null).find(Files.exists(_)) match {
        case Some(there) =>
          val real = there.toRealPath().resolve(there.relativize(local))
          val path = new Path(real.toString)
          path.getFileSystem(conf).makeQualified(path)
        case None => qualified
      }
    }
  }
}
