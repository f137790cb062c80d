package io.lakestep.simulation

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.log.ForeignWriters

/** How an entry is to be published: from what a transaction planned, and from its tables' logs. */
final class HowToPublish(logs: Map[String, TrueLog], planned: Vector[PlannedWrite]) {
  private val writes = planned.map(w => w.table -> w).toMap

  private def pinned(table: String): Option[Header] =
    pin(table).flatMap(version => logs(table).headers.lift(version.toInt))

  def pin(table: String): Option[Long] = writes.get(table).map(_.pin)

  def isClosed(table: String): Boolean = pinned(table).exists(_.isClosed)

  def parts(table: String): Int = writes.get(table).fold(0)(_.parts.size)

  /** Whether a foreign commit can conflict with it, but for a change of metadata. */
  def isCapable(table: String): Boolean =
    writes.get(table).exists(w => w.removes.nonEmpty || w.changesHeader || w.readsAll) ||
      parts(table) > 1

  private def contested = writes.keys.count(t => isCapable(t) && !isClosed(t))

  /** The protocol that is there again when the fence of a table of mode `reserve` is taken away. */
  def reserve(table: String): Option[ObjectNode] = pinned(table)
    .filter(_.metaData.exists(ForeignWriters.mode(_) == ForeignWriters.Reserve))
    .filter(_ => contested > 1 && isCapable(table) && parts(table) == 1)
    .flatMap(_.protocol).map(_.body)

  def opens(table: String): Boolean = isClosed(table) && writes(table).opens
}
