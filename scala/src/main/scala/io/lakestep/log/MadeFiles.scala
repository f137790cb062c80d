package io.lakestep.log

/** The files that a staged commit has brought into being, as far as that is beyond doubt. */
private[lakestep] object MadeFiles {

  /** Statements that write files of their own. Others may name files that were there before. */
  private val Writes =
    Set(
      "WRITE",
      "MERGE",
      "UPDATE",
      "DELETE",
      "CREATE TABLE AS SELECT",
      "REPLACE TABLE AS SELECT",
      "CREATE OR REPLACE TABLE AS SELECT"
    )

  /** Those that rearrange rows, into new files. */
  private val Rearranges = Set("OPTIMIZE", "REORG")

  def of(table: TableRef, commit: LogCommit): Vector[String] = {
    val operation = commit.info.flatMap(_.operation)
    val rearranges = operation.exists(Rearranges)
    val removed = commit.files.filter(_.isRemoved)
    val older = removed.map(_.path).toSet
    val olderVectors = removed.flatMap(_.deletionVector).flatMap(table.deletionVectorFile(_)).toSet
    val actions = if (rearranges || operation.exists(Writes)) commit.actions else Vector.empty
    actions.flatMap {
      case a: AddFile if a.dataChange != rearranges =>
        Option.when(!older(a.path) && isInside(a.path))(table.dataFile(a.path)).toVector ++
          a.deletionVector.flatMap(table.deletionVectorFile(_)).filterNot(olderVectors)
      case c: ChangeFile if isInside(c.path) => Vector(table.dataFile(c.path))
      case _ => Vector.empty
    }.distinct.filter(_.startsWith(s"${table.uri}/"))
  }

  /** Files elsewhere are those of another table. */
  private def isInside(path: String): Boolean =
    !path.startsWith("/") && !path.contains(":/") && !path.split('/').contains("..")
}
