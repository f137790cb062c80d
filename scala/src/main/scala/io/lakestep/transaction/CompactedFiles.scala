package io.lakestep.transaction

import io.lakestep.log.{AddFile, TableRef}

/** What compaction has written for a transaction so far, by what it was made of. Thread-safe. */
private[transaction] final class CompactedFiles {
  private type Group = (TableRef, Set[(String, Option[String])])

  private var known = Map.empty[Group, AddFile]
  private var written = Set.empty[String]
  private var used = Set.empty[String]

  private def key(table: TableRef, group: Vector[AddFile]): Group =
    table -> group.map(add => add.path -> add.dvId).toSet

  /** COMMIT begins to publish, perhaps once more. */
  def begin(): Unit = synchronized { used = Set.empty }

  /** The file that an earlier attempt has made of these. */
  def find(table: TableRef, group: Vector[AddFile]): Option[AddFile] = synchronized {
    val found = known.get(key(table, group))
    used = used ++ found.map(add => table.dataFile(add.path))
    found
  }

  def add(table: TableRef, groups: Vector[Vector[AddFile]], made: Vector[AddFile]): Unit =
    synchronized {
      val files = made.map(add => table.dataFile(add.path))
      written = written ++ files
      used = used ++ files
      val byPartition = made.groupBy(_.partitionValues)
      for (group <- groups; one <- byPartition.getOrElse(group.head.partitionValues, Vector.empty))
        known = known.updated(key(table, group), one)
    }

  /** All that it has written. */
  def all: Vector[String] = synchronized(written.toVector)

  /** What no commit names once the last attempt has succeeded. */
  def unnamed: Vector[String] = synchronized((written -- used).toVector)
}
