package io.lakestep.commit

import io.lakestep.log.AddFile

/** Writes the small files that a transaction has added to a table as fewer, before they are published. */
trait Compaction {

  /** Whether any table is asked about. */
  def isOn: Boolean

  /**
   * One new file with the rows of each group, in any order; nothing where they stay as they are. What it
   * says is checked. What it throws fails the COMMIT.
   *
   * @param groups the files of one partition each
   */
  def apply(table: WrittenTable, groups: Vector[Vector[AddFile]]): Vector[AddFile]
}

object Compaction {

  object Off extends Compaction {
    override def isOn: Boolean = false
    override def apply(table: WrittenTable, groups: Vector[Vector[AddFile]]): Vector[AddFile] =
      Vector.empty
  }
}
