package io.lakestep.storage

import java.net.URI
import java.nio.file.{Files, Path => LocalFile, Paths}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** One spelling for one folder, so that two paths to one log cannot become two tables. */
private[lakestep] object CanonicalPath {

  /** The qualified path; on a local disk with its symbolic links followed, elsewhere by its alias. */
  def apply(path: Path, conf: Configuration): Path = {
    val qualified = path.getFileSystem(conf).makeQualified(path)
    if (qualified.toUri.getScheme != "file") StoreKind.withoutAlias(qualified, conf)
    else {
      val path = new Path(real(Paths.get(qualified.toUri.getPath)).toString)
      path.getFileSystem(conf).makeQualified(path)
    }
  }

  /** With symbolic links followed; of a table that is yet to be made the folders above it count. */
  private def real(local: LocalFile): LocalFile =
    Iterator.iterate(local)(_.getParent).takeWhile(_ != null).find(Files.exists(_)) match {
      case Some(there) => there.toRealPath().resolve(there.relativize(local))
      case None => local
    }

  /** Equal for two spellings of one place, as far as they tell, and for some that are two. */
  def spelling(uri: String): String = StoreKind.schemeOf(uri) match {
    case Some("s3" | "s3n") => "s3a" + uri.drop(uri.indexOf(':'))
    case Some("abfs") => "abfss" + uri.drop(uri.indexOf(':'))
    case Some("hdfs") => uri.replaceFirst(s"^([^/]*//[^/]*):${StoreKind.HdfsPort}(/|$$)", "$1$2")
    case _ => uri
  }

  /** The same, with symbolic links of a local disk followed. */
  def place(uri: String): String =
    if (!StoreKind.schemeOf(uri).contains("file")) spelling(uri)
    else
      try new Path(real(Paths.get(new URI(uri).getPath)).toString).toUri.toString
      catch { case NonFatal(_) => uri }

  /** Whether a place is the outer one, or lies inside it. */
  def isInside(place: String, outer: String): Boolean = s"$place/".startsWith(s"$outer/")

  def areNested(one: String, other: String): Boolean = isInside(one, other) || isInside(other, one)
}
