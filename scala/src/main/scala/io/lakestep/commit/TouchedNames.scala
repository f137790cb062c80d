package io.lakestep.commit

import io.lakestep.storage.CanonicalPath
import io.lakestep.timeline.{CommitEntry, NameChange, NameKey, NamedObject, Purge}

/**
 * What a transaction changes names of, and relies on names for.
 *
 * @param read names that it depends on
 * @param purges dropped tables whose data it deletes
 * @param paths tables that it writes, or has read where that counts
 */
private[commit] final case class TouchedNames(
    changes: Vector[NameChange],
    read: Set[NameKey],
    purges: Vector[Purge],
    paths: Set[String] = Set.empty) {
  import TouchedNames.namedBy

  def isEmpty: Boolean = changes.isEmpty && purges.isEmpty

  /** A metastore may spell a place otherwise than who writes there. */
  private lazy val places = paths.map(CanonicalPath.place)

  def meets(entry: CommitEntry): Boolean =
    entry.names.exists(meets(_)) || purge(entry).isDefined

  /** What one purges and the other one names, writes or purges. */
  def purge(entry: CommitEntry): Option[Purge] =
    if (purges.isEmpty && entry.purges.isEmpty) None
    else {
      def find(all: Vector[Purge], others: Iterable[String]) = all.find { purge =>
        val place = CanonicalPath.place(purge.path.uri)
        others.exists(CanonicalPath.areNested(place, _))
      }
      find(entry.purges, places ++ namedBy(changes))
        .orElse(find(purges, TouchedNames.placesOf(entry)))
    }

  def meets(theirs: NameChange): Boolean =
    changes.exists(_.key.meets(theirs.key)) || read(theirs.key) || moves(theirs)

  /** Their change takes a name from a table that we write, or that what we read depends on. */
  private def moves(theirs: NameChange): Boolean = {
    def path(o: Option[NamedObject]) = o.filter(_.kind == NamedObject.Table).flatMap(_.path)
    path(theirs.before) != path(theirs.after) &&
    path(theirs.before).exists(p => places(CanonicalPath.place(p.uri)))
  }
}

private[commit] object TouchedNames {

  /** Where what an entry names, writes or purges lies. */
  def placesOf(entry: CommitEntry): Vector[String] = namedBy(entry.names) ++
    (entry.tables.map(_.path) ++ entry.purges.map(_.path)).map(p => CanonicalPath.place(p.uri))

  private def namedBy(changes: Vector[NameChange]): Vector[String] =
    changes.flatMap(_.after).filter(_.kind == NamedObject.Table).flatMap(_.path)
      .map(p => CanonicalPath.place(p.uri))
}
