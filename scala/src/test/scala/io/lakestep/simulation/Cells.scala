package io.lakestep.simulation

import io.lakestep.Json
import io.lakestep.delta.{Action, AddFile, CommitInfo, MetaData, Protocol, RemoveFile}

/**
 * What the tables of the simulation hold: a few cells, each of them one file that is rewritten as a
 * whole, and appended files. The name of a file says what it is: `<cell>-<token>` or `a-<token>`;
 * a compaction keeps the name and adds `~`.
 */
object Cells {
  val Count = 2

  def cell(number: Int): String = s"c$number"

  /** The cell of a file, nothing for an appended file. */
  def cellOf(path: String): Option[String] =
    Option.when(path.startsWith("c"))(path.takeWhile(_ != '-'))

  /** The file that this one is a compaction of, or itself. */
  def origin(path: String): String = path.takeWhile(_ != '~')

  def add(path: String, dataChange: Boolean = true): AddFile = AddFile(
    Json.obj().put(
      "path",
      path
    ).put("size", 10L).put("modificationTime", 0L).put("dataChange", dataChange)
  )

  def remove(path: String, dataChange: Boolean = true): RemoveFile = RemoveFile(
    Json.obj().put("path", path).put("deletionTimestamp", 0L).put("dataChange", dataChange)
  )

  def info(operation: String, blindAppend: Boolean): CommitInfo = CommitInfo(
    Json.obj().put("operation", operation).put("isBlindAppend", blindAppend)
  )

  def tableId(table: String): String = s"id-of-${table.drop(1)}"

  /** The commit of version 0; every table of a number of its own has an id of its own. */
  def first(table: String, number: Int = 0): Vector[Action] = Vector(
    info("CREATE TABLE", blindAppend = false),
    Protocol(Json.obj().put("minReaderVersion", 1).put("minWriterVersion", 2)),
    metaData(if (number == 0) tableId(table) else s"${tableId(table)}-$number")
  ) ++ (0 until Count).map(i => add(s"${cell(i)}-$number"))

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
