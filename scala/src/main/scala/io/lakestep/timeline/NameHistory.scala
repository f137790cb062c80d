package io.lakestep.timeline

import io.lakestep.log.TableRef
import io.lakestep.storage.CanonicalPath

/**
 * A table from which an entry has taken its last name.
 *
 * @param table what the name stood for
 */
final case class DroppedTable(
    entry: Long,
    timeMs: Long,
    user: String,
    transaction: String,
    key: NameKey,
    table: NamedObject)

/**
 * What finished entries have made of names, as far as who resolves one must know it.
 *
 * @param last the newest entry that has changed one, or purged a table, 0 for none
 * @param unapplied by entry, changes that the metastores may not show yet; none for an entry that purges, of
 *   which files may be left
 * @param dropped tables that have lost their name and not been given one since, oldest first
 */
final case class NameHistory(
    last: Long,
    unapplied: Map[Long, Vector[NameChange]],
    dropped: Vector[DroppedTable]) {

  /** With the next completed entry. */
  def and(entry: CommitEntry): NameHistory =
    if (!entry.isOverNames) this
    else {
      // Another metastore, or a user, may spell it otherwise.
      def place(path: Option[TableRef]) = path.map(p => CanonicalPath.spelling(p.uri))
      val named = entry.names.flatMap(_.after).flatMap(named => place(named.path)).toSet
      val gone = for {
        change <- entry.names
        table <- change.before
        if table.kind == NamedObject.Table && !place(table.path).exists(named)
      } yield DroppedTable(
        entry.number,
        entry.timeMs,
        entry.transaction.user,
        entry.transaction.id,
        change.key,
        table
      )
      val since = gone.map(d => place(d.table.path)).toSet
      val purged = entry.purges.flatMap(p => place(Some(p.path))).toSet
      NameHistory(
        entry.number,
        unapplied.updated(entry.number, entry.names),
        dropped.filterNot { d =>
          val path = place(d.table.path)
          path.exists(p => named(p) || purged(p)) || since(path)
        } ++ gone
      )
    }

  /** Once an entry is made; so are, then, all earlier ones over its names. */
  def applied(entry: Long): NameHistory = {
    val changes = unapplied.getOrElse(entry, Vector.empty)
    val before = unapplied.keys.filter { number =>
      number < entry && unapplied(number).exists(c => changes.exists(_.key.meets(c.key)))
    }
    before.foldLeft(copy(unapplied = unapplied - entry))(_.applied(_))
  }

  /** What the last of the entries that are not applied has made of each name. */
  def pending: Map[NameKey, Option[NamedObject]] =
    unapplied.toVector.sortBy(_._1).flatMap(_._2).map(c => c.key -> c.after).toMap
}

object NameHistory {
  val none: NameHistory = NameHistory(0L, Map.empty, Vector.empty)
}
