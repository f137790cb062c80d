package io.lakestep.transaction

import java.io.FileNotFoundException
import java.net.URI

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{FileSize, VersionFiles}
import io.lakestep.commit.{AsOf, DatabaseState, VerificationFinding, Severity}
import io.lakestep.overlay.{Chain, OverlayPath}
import io.lakestep.timeline.SnapshotTable

/** Whether the files of all tables are there, each with its size. */
private[lakestep] final class LiveFiles(session: SparkSession) {
  import LiveFiles._

  private val snapshots = Databases.of(session).snapshots
  private val conf = session.sessionState.newHadoopConf()
  private var (files, tables) = (0L, 0)

  /**
   * Looks for the files of a state of the database, or of that of now.
   *
   * Conditions: LAKESTEP_AS_OF_NOT_FOUND, LAKESTEP_NO_SUCH_SNAPSHOT.
   */
  def of(asOf: Option[AsOf]): Vector[VerificationFinding] = {
    val state = snapshots.state(asOf)
    val found = wrong(state)
    // Somebody may have taken a file out of a table, and deleted it, meanwhile.
    val sure =
      if (found.exists(_.severity == Severity.Problem) && asOf.isEmpty)
        wrong(snapshots.state(None))
      else found
    val promised = state.at.named.toVector.flatMap(_.tables)
      .filterNot(t => state.tables.exists(s => s.log == t.log && s.path == t.path)).map(_.path)
    val gone = state.missing.map { path =>
      val text = "The table is gone, or cannot be read any more as it was."
      // Where only a clean-up took what nobody was told to keep, nothing is wrong.
      if (promised.contains(path))
        VerificationFinding(Severity.Problem, path.uri, text, Step)
      else VerificationFinding(Severity.Note, path.uri, text)
    }
    val whole = VerificationFinding(
      Severity.Ok,
      s"data of ${asOf.fold("now")(_.toString)}",
      s"$files files of $tables tables are there with their sizes."
    )
    val isWhole = (gone ++ sure).forall(_.severity != Severity.Problem)
    gone ++ sure ++ Option.when(isWhole)(whole)
  }

  private def wrong(state: DatabaseState): Vector[VerificationFinding] = {
    files = 0L
    tables = state.tables.size
    state.tables.flatMap { table =>
      try look(table, state.at.named.map(_.id))
      catch {
        case NonFatal(e) =>
          Vector(VerificationFinding(Severity.Problem, table.path.uri, text(e), Step))
      }
    }
  }

  private def look(table: SnapshotTable, snapshot: Option[String]): Vector[VerificationFinding] = {
    val folder = new Path(new URI(table.path.uri))
    val kept = snapshot.flatMap(snapshots.kept(table.path, _)).map(_.copy)
    val version = OverlayPath(Chain(table.version, Vector.empty, kept), folder).toPath
    val needed = VersionFiles.sizes(session, version, table.version, folder.toString)
    lazy val there = sizes(folder)
    val named = s"version ${table.version} of ${table.path.uri}"
    needed.fold(
      Vector(VerificationFinding(
        Severity.Problem,
        table.path.uri,
        s"${capital(named)} cannot be read.",
        Step
      ))
    ) { all =>
      val missing = all.map { file => files += 1; file }
        .filterNot(file => there.get(file.path).exists(file.fits)).flatMap { file =>
          // Written since, or in another folder.
          val size = sizeOf(new Path(file.path))
          Option.when(!size.exists(file.fits))(file -> size)
        }.toVector.distinct
      val some = missing.take(Most).map { case (file, size) =>
        VerificationFinding(Severity.Problem, file.path, told(file, size, named), Step)
      }
      if (missing.size <= Most) some
      else
        some :+ VerificationFinding(
          Severity.Problem,
          table.path.uri,
          s"${missing.size} files of $named are missing or cut; $Most of them are named.",
          Step
        )
    }
  }

  private def told(file: FileSize, size: Option[Long], named: String) = size match {
    case None => s"It is missing, and $named has it."
    case Some(bytes) =>
      val least = if (file.isLeast) "at least " else ""
      s"It has $bytes bytes, and in $named it has $least${file.bytes}."
  }

  private def sizes(folder: Path): mutable.Map[String, Long] = {
    val found = mutable.HashMap.empty[String, Long]
    val all = fileSystem(folder).listFiles(folder, true)
    while (all.hasNext) {
      val status = all.next()
      found(status.getPath.toString) = status.getLen
    }
    found
  }

  private def sizeOf(file: Path): Option[Long] =
    try Some(fileSystem(file).getFileStatus(file).getLen)
    catch { case _: FileNotFoundException => None }

  private def fileSystem(path: Path): FileSystem = path.getFileSystem(conf)
}

private object LiveFiles {

  /** How many files of a table are named. */
  private val Most = 10

  private val Step =
    "A VACUUM by somebody without Lakestep may have deleted it. Restore it from a " +
      "backup, or take the table back by RESTORE TABLES, to a version that has all its files."

  private def capital(text: String) = text.take(1).toUpperCase + text.drop(1)
  private def text(cause: Throwable) =
    String.valueOf(cause.getMessage).linesIterator.nextOption().getOrElse("")
}
