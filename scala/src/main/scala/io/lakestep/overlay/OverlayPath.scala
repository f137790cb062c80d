package io.lakestep.overlay

import scala.util.matching.Regex

import org.apache.hadoop.fs.Path

import io.lakestep.Errors
import io.lakestep.storage.TemporaryFiles
import io.lakestep.log.TableRef

/**
 * Which log segments make up a table's log, in order: the base log up to and including version
 * `pin` (-1: nothing of it), then the staged commits of each segment.
 *
 * A chain without segments is a fixed, read-only state of the table.
 *
 * @param kept the copy of the base log that is read in its place
 */
final case class Chain(pin: Long, segments: Vector[String], kept: Option[String] = None) {
  require(pin >= -1, s"A pin is a version or -1, not $pin")
  (segments ++ kept).foreach(s => require(Chain.isSegment(s), s"Not a name for a log segment: $s"))

  /** The chain as the authority of an overlay URI: `<pin>` or `<pin>.<segment>…`; -1 is `new`. */
  def text: String = {
    val base = if (pin == -1) Chain.NoBase else pin.toString
    (base +: (kept.map(Chain.Kept + _).toVector ++ segments)).mkString(".")
  }

  def isReadOnly: Boolean = segments.isEmpty

  /** The folder with the log up to the pin. */
  private[overlay] def below(log: Path): Path = kept.fold(log)(StagingFolder.kept(log, _))

  /** A file of a folder in the log, or in its copy. */
  private[overlay] def deep(log: Path, file: Path): Path =
    if (kept.isEmpty) file
    else new Path(below(log), file.toUri.getPath.drop(log.toUri.getPath.length + 1))
}

object Chain {

  private val NoBase = "new"

  /** Before the name of a copy; no segment's name begins so. */
  private val Kept = "kept-"

  /** Lower case only: Hadoop compares the authorities of URIs without regard to case. */
  private def isSegment(text: String): Boolean = text.matches("[a-z0-9_-]+")

  /** The chain that `text` names, or nothing where it names none. `parse(c.text)` is `c`. */
  def parse(text: String): Option[Chain] = {
    val parts = text.split("\\.", -1).toVector
    val pin = parts.head match {
      case NoBase => Some(-1L)
      case digits if digits.matches("0|[1-9][0-9]*") => digits.toLongOption
      case _ => None
    }
    val (kept, segments) = parts.tail.span(_.startsWith(Kept))
    pin.filter(_ => parts.tail.forall(isSegment) && kept.size <= 1)
      .map(Chain(_, segments, kept.headOption.map(_.stripPrefix(Kept))))
  }
}

/**
 * A path seen through a chain: `lakestep://<chain>/<scheme>/<authority or _>/<path>`.
 *
 * `OverlayPath.parse(p.toPath) == p` and `OverlayPath.parse(q).toPath == q`, whatever characters
 * the path holds: parts are taken and joined decoded, Hadoop's own quoting is the only one.
 *
 * @param base an absolute path with a scheme, of the table or of anything below it
 */
final case class OverlayPath(chain: Chain, base: Path) {
  require(
    base.isAbsolute && base.toUri.getScheme != null && !OverlayPath.isOverlay(base),
    s"An overlay needs an absolute path with a scheme of its own: $base"
  )

  def toPath: Path = {
    val uri = base.toUri
    val authority = Option(uri.getAuthority).filter(_.nonEmpty).getOrElse(OverlayPath.NoAuthority)
    new Path(OverlayPath.Scheme, chain.text, s"/${uri.getScheme}/$authority${uri.getPath}")
  }
}

object OverlayPath {

  val Scheme: String = TableRef.OverlayScheme

  private val NoAuthority = "_"

  private val Shape = "/([A-Za-z][A-Za-z0-9+.-]*)/([^/]+)(/.*)?".r

  /** Whether the path has our scheme, well formed or not. */
  def isOverlay(path: Path): Boolean = Scheme.equalsIgnoreCase(path.toUri.getScheme)

  /** The same for a text as a user types it, which may be no path at all. */
  def isOverlay(path: String): Boolean =
    path.regionMatches(true, 0, s"$Scheme:", 0, Scheme.length + 1)

  /** The base path of an overlay path; any other path is its own. */
  def baseOf(path: Path): Path = if (isOverlay(path)) parse(path).base else path

  /** Whether it is a state of a table that nobody changes, which belongs to no transaction. */
  def isFixed(path: Path): Boolean = find(path).exists(_.chain.isReadOnly)

  /**
   * The overlay path that `path` writes out.
   *
   * Condition: LAKESTEP_OVERLAY_PATH_INVALID.
   */
  def parse(path: Path): OverlayPath =
    find(path).getOrElse(throw Errors("LAKESTEP_OVERLAY_PATH_INVALID", "path" -> path.toString))

  private val InText = s"(?i)\\b$Scheme://([a-z0-9._-]+)/([a-z][a-z0-9+.-]*)/([^/\\s]+)(?=/)".r

  /** A text, with the base paths in place of the overlay paths in it. */
  def replacedIn(text: String): String =
    if (!text.contains(s"$Scheme://")) text
    else
      InText.replaceAllIn(
        text,
        found => {
          val base = found.group(3) match {
            case NoAuthority => s"${found.group(2)}:"
            case authority => s"${found.group(2)}://$authority"
          }
          val shown = if (Chain.parse(found.group(1)).isEmpty) found.matched else base
          Regex.quoteReplacement(shown)
        }
      )

  /**
   * As `parse`; nothing where the path stops above a base path, or is none of ours. Delta looks
   * for a `_delta_log` in every folder upwards, which must not be taken for an authority.
   */
  private[overlay] def find(path: Path): Option[OverlayPath] = {
    val uri = path.toUri
    if (!isOverlay(path)) None
    else
      for {
        chain <- Option(uri.getAuthority).flatMap(Chain.parse)
        base <- uri.getPath match {
          case Shape(scheme, authority, rest)
              if !Scheme.equalsIgnoreCase(scheme) && authority != TemporaryFiles.LogFolder =>
            val owner = if (authority == NoAuthority) null else authority
            Some(new Path(scheme, owner, Option(rest).getOrElse("/")))
          case _ => None
        }
      } yield OverlayPath(chain, base)
  }
}
