package io.lakestep.log

import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * The deletion vectors that two changes gave one file, as descriptors of the log.
 *
 * @param path the file, as it stands in the log
 * @param base what it had before both; nothing for none
 */
final case class VectorChange(
    path: String,
    base: Option[ObjectNode],
    ours: ObjectNode,
    theirs: ObjectNode)

/** Reads and writes deletion vectors. */
trait DeletionVectors {

  /**
   * Deletion vectors that hold the rows of both changes of each file.
   *
   * @param table the table, below which a file may be put
   * @return descriptors in the order given; else the changes that took the same rows, or that
   *         brought rows back
   */
  def merge(
      table: TableRef,
      changes: Vector[VectorChange]): Either[Vector[VectorChange], Vector[ObjectNode]]
}
