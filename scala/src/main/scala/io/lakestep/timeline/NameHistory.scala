package io.lakestep.timeline

/**
 * What finished entries have made of names, as far as who resolves one must know it.
 *
 * @param last the newest entry that has changed one, 0 for none
 * @param unapplied by entry, changes that the metastores may not show yet
 */
final case class NameHistory(last: Long, unapplied: Map[Long, Vector[NameChange]]) {

  /** With the next completed entry. */
  def and(entry: Long, changes: Vector[NameChange]): NameHistory =
    if (changes.isEmpty) this else NameHistory(entry, unapplied.updated(entry, changes))

  def applied(entry: Long): NameHistory = copy(unapplied = unapplied - entry)

  /** What the last of the entries that are not applied has made of each name. */
  def pending: Map[NameKey, Option[NamedObject]] =
    unapplied.toVector.sortBy(_._1).flatMap(_._2).map(c => c.key -> c.after).toMap
}

object NameHistory {
  val none: NameHistory = NameHistory(0L, Map.empty)
}
