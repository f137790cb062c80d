package io.lakestep.simulation

import java.util.SplittableRandom

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json
import io.lakestep.log.{
  Action, AddFile, CommitInfo, FileAction, ForeignWriters, MetaData, Protocol, RemoveFile,
  ReplayedState, RowSets
}

/** A row of a table, known by the file in which it was written. */
final case class Row(file: String, number: Int) {
  override def toString: String = s"$file#$number"
}

/**
 * What the tables of the simulation hold: a few cells, each of them one file that is rewritten as a
 * whole, and appended files. The name of a file says what it is: `<cell>-<token>` or `a-<token>`;
 * a compaction keeps the name and adds `~`. Every file has `RowCount` rows, which deletion vectors
 * take out one by one.
 */
object Cells {
  val Count = 2
  val RowCount = 5

  def cell(number: Int): String = s"c$number"

  /** The cell of a file, nothing for an appended file. */
  def cellOf(path: String): Option[String] =
    Option.when(path.startsWith("c"))(path.takeWhile(_ != '-'))

  /** The file that this one is a compaction of, or itself. */
  def origin(path: String): String = path.takeWhile(_ != '~')

  def add(path: String, deleted: Set[Int] = Set.empty, dataChange: Boolean = true): AddFile = {
    val body = Json.obj().put("path", path).put("size", 10L).put("modificationTime", 0L)
    AddFile(withRows(body.put("dataChange", dataChange), deleted))
  }

  def remove(path: String, deleted: Set[Int], dataChange: Boolean = true): RemoveFile = {
    val body = Json.obj().put("path", path).put("deletionTimestamp", 0L)
    RemoveFile(withRows(body.put("dataChange", dataChange), deleted))
  }

  private def withRows(body: ObjectNode, deleted: Set[Int]): ObjectNode = {
    if (deleted.nonEmpty) {
      val names = deleted.toVector.sorted.mkString(".")
      body.putObject("deletionVector").put("storageType", "u").put("pathOrInlineDv", names)
        .put("cardinality", deleted.size)
    }
    body
  }

  /** The rows that the file's deletion vector takes out. */
  def deleted(file: FileAction): Set[Int] =
    file.deletionVector.fold(Set.empty[Int])(RowSets.of(_).map(_.toInt))

  /** The rows of files with these deletion vectors; a row that is there twice is there twice. */
  def rows(files: Map[String, Set[Int]]): Vector[Row] = files.toVector.flatMap {
    case (path, gone) =>
      (0 until RowCount).filterNot(gone).map(Row(origin(path), _))
  }

  /** Removes and adds that take one or two rows out of one file or two; nothing when none is left. */
  def taking(state: ReplayedState, random: SplittableRandom): Vector[FileAction] = {
    def some[A](all: Vector[A], most: Int): Vector[A] =
      if (all.isEmpty) all
      else all.map(random.nextInt() -> _).sortBy(_._1).map(_._2).take(1 + random.nextInt(most))
    val takeable = state.files.values.map(_.add).toVector.sortBy(_.path)
      .filter(deleted(_).size < RowCount)
    // Mostly the cells: they are there in every history.
    val (cells, others) = takeable.partition(f => cellOf(f.path).isDefined)
    some(if (cells.isEmpty || random.nextInt(4) == 0) others ++ cells else cells, 2).flatMap {
      file =>
        val before = deleted(file)
        val rows = some((0 until RowCount).filterNot(before).toVector, 2)
        Vector(remove(file.path, before), add(file.path, before ++ rows))
    }
  }

  def info(operation: String, blindAppend: Boolean): CommitInfo = CommitInfo(
    Json.obj().put("operation", operation).put("isBlindAppend", blindAppend)
  )

  def tableId(table: String): String = s"id-of-${table.drop(1)}"

  /** The commit of version 0; every table of a number of its own has an id of its own. */
  def first(
      table: String,
      number: Int = 0,
      mode: String = ForeignWriters.Allow): Vector[Action] = {
    val protocol = Protocol(Json.obj().put("minReaderVersion", 1).put("minWriterVersion", 2))
    val open = metaData(if (number == 0) tableId(table) else s"${tableId(table)}-$number")
    val header =
      mode match {
        case ForeignWriters.Allow => Vector(protocol, open)
        case ForeignWriters.Forbid =>
          Vector(
            ForeignWriters.fenced(protocol),
            open.withProperty(ForeignWriters.Property, Some(mode))
              .withProperty("lakestep.protocolBefore", Some("1,2"))
          )
        case _ => Vector(protocol, open.withProperty(ForeignWriters.Property, Some(mode)))
      }
    info("CREATE TABLE", blindAppend = false) +: (header ++
      (0 until Count).map(i => add(s"${cell(i)}-$number")))
  }

  /** The table's metadata with another comment. */
  def altered(now: MetaData, comment: Int): MetaData =
    MetaData(now.body.deepCopy().put("description", comment.toString))

  private def metaData(id: String): MetaData = {
    val body = Json.obj().put("id", id)
    body.putObject("format").put("provider", "parquet")
    body.put("schemaString", "{}")
    body.putArray("partitionColumns")
    body.putObject("configuration")
    MetaData(body)
  }
}
