package io.lakestep.simulation

import io.lakestep.Json
import io.lakestep.log.MarkKind
import io.lakestep.timeline.{CommitEntry, Conflict, NameChange, NameKey, NamedObject}

/**
 * What names stood for, held against what entries say: each transaction and query has read them at
 * one point of the entries, no two entries have changed one at once, and in the end the metastores
 * show what the completed entries have made.
 *
 * A name that somebody without Lakestep has changed, or a client that was late, is left out from then
 * on, but in the end what was late is right again; a schema goes with what is in it.
 */
final class NamesJudge(world: World, timeline: TrueTimeline, logs: Map[String, TrueLog]) {
  import NamesJudge._

  private val entries: Vector[(CommitEntry, TrueEntry)] =
    timeline.entries.flatMap(e => Some(e.entry).collect { case c: CommitEntry => c -> e })
  private val changing = entries.filter(e => e._1.isOverNames && e._2.isCompleted).map(_._1)
  private val named = entries.filter(_._1.names.nonEmpty)
  private val completed = named.filter(_._2.isCompleted)
  private val initial: State = world.metastores.flatMap(_.initial).toMap

  private def violated(message: String): Unit = world.violated(s"NAMES $message")

  private def state(of: Iterable[CommitEntry]): State = of.foldLeft(initial) { (s, e) =>
    e.names.foldLeft(s)((all, c) => c.after.fold(all - c.key)(o => all.updated(c.key, o)))
  }

  def judge(): Unit = {
    completed.foreach { case (c, _) =>
      world.counts.event("committed entry with names")
      if (c.tables.nonEmpty) world.counts.event("committed entry with names and tables")
      exclusive(c)
      follows(c)
    }
    entries.filter(_._2.isCompleted).map(_._1).foreach(keepsTables)
    world.attempts.foreach(readNames)
    world.seenNames.foreach(s => if (s.isLast) last(s) else seen(s))
    world.metastores.foreach(made)
    dropped()
  }

  /** Of those that have changed one name at once, or a table of which one has taken the name, one is committed. */
  private def exclusive(later: CommitEntry): Unit =
    between(later).foreach { c =>
      for (ours <- later.names; theirs <- c.names if ours.key.meets(theirs.key))
        violated(
          s"entries ${c.number} and ${later.number} both changed ${ours.key} and ${theirs.key}"
        )
    }

  private def keepsTables(c: CommitEntry): Unit = {
    val written = c.tables.map(_.path.uri) ++ c.reads.map(_.path.uri)
    for (other <- between(c); theirs <- other.names; p <- taken(theirs) if written.contains(p))
      violated(s"entry ${c.number} wrote $p, from which entry ${other.number} took ${theirs.key}")
  }

  private def between(later: CommitEntry): Vector[CommitEntry] = completed.map(_._1)
    .filter(c => c.number > later.transaction.snapshot && c.number < later.number)

  /** The table from which a name is taken. */
  private def taken(c: NameChange): Option[String] =
    c.before.filter(b => b.kind == NamedObject.Table && b.path != c.after.flatMap(_.path))
      .flatMap(_.path).map(p => Alias.real(p.uri))

  /** What an entry found is what the ones before it have left. */
  private def follows(c: CommitEntry): Unit = {
    val before = state(completed.map(_._1).filter(_.number < c.number))
    for (change <- c.names if isSound(change.key, Int.MaxValue))
      if (!NamedObject.areSame(before.get(change.key), change.before))
        violated(
          s"entry ${c.number} found ${shown(change.before)} as ${change.key}, which was " +
            s"${shown(before.get(change.key))}"
        )
  }

  private def isSound(key: NameKey, step: Int): Boolean =
    metastore(key).forall(_.disturbedAt(key).forall(_ > step))

  private def metastore(key: NameKey) = world.metastores.find(_.id == key.metastore)

  /** SERIALIZABLE: nobody before it in the order has changed what it met after it did. */
  private def readNames(a: Attempt): Unit =
    for ((c, e) <- entries if c.transaction.id == a.transaction && e.isCompleted && !a.isRunAgain)
      for (other <- between(c); theirs <- other.names if a.readNames(theirs.key))
        violated(s"entry ${c.number} read ${theirs.key}, which entry ${other.number} changed")

  /** Whether something excludes a transaction that was told so. */
  def isExcluded(a: Attempt): Boolean = {
    def meets(theirs: NameChange) = a.names.exists(_.key.meets(theirs.key)) ||
      a.readNames(theirs.key) ||
      taken(theirs).exists(p => a.writes.exists(_.table == p) || a.reads.contains(p))
    val ours = a.names.flatMap(Purges.placeOf(_)) ++ a.writes.map(_.table) ++ a.reads.keys
    def purges(c: CommitEntry) =
      c.purges.exists(p => ours.exists(Purges.areNested(_, Purges.folder(p.path)))) ||
        a.purges.map(p => Purges.folder(p.path)).exists { folder =>
          Purges.concerns(c, folder) ||
          c.purges.exists(p => Purges.areNested(Purges.folder(p.path), folder))
        }
    named.exists { case (c, _) => c.number > a.snapshot && c.names.exists(meets) } ||
    entries.exists { case (c, _) => c.number > a.snapshot && purges(c) } ||
    a.names.exists { c =>
      !isSound(c.key, a.answeredAt) ||
      // A name is given in a schema.
      c.after.isDefined && !isSound(c.key.copy(name = None), a.answeredAt)
    }
  }

  /** When nobody changes anything any more, whoever has changed it. */
  private def last(s: SeenNames): Unit = {
    world.counts.event("last query of names")
    val now = s.metastore.now
    for ((k, o) <- s.names if !NamedObject.areSame(now.get(k), o))
      violated(s"${s.client} reads ${shown(o)} as $k for ever, which is ${shown(now.get(k))}")
  }

  private def seen(s: SeenNames): Unit = {
    world.counts.event(if (s.snapshot.isEmpty) "query of names" else "transaction that reads names")
    val names = s.names.filter(n => isSound(n._1, s.until))
    def isMet(state: State) = names.forall { case (k, o) => NamedObject.areSame(state.get(k), o) }
    def isListed(state: State) = s.listed.forall { case (schema, listed) =>
      val there = state.keySet.filter(k => k.metastore == s.metastore.id && k.schema == schema)
      NamesOfSession.all.filter(_.schema == schema).forall { n =>
        val key = s.metastore.key(n)
        !isSound(key, s.until) || there(key) == listed(n.name)
      }
    }
    def candidates = s.snapshot match {
      case Some(n) => Iterator(completed.map(_._1).filter(_.number <= n))
      case None => points(s)
    }
    def told =
      s"${s.client} at ${s.snapshot} read ${names.map { case (k, o) => s"$k: ${shown(o)}" }}"
    if (!candidates.map(state(_)).exists(state => isMet(state) && isListed(state)))
      violated(s"$told ${s.listed.getOrElse("")}, which never was so at once")
    // A listing is no part of the query that reads rows.
    // Rows of before a change of names are read as far as all of them are left.
    val isCut = s.rows.keys.exists(world.cleaned.get(_).exists(_ < s.until))
    if (!isCut && !candidates.filter(hasRows(s, _)).map(state(_)).exists(isMet))
      violated(s"$told of other rows, ${s.rows}")
  }

  /** Whether a query has read the rows of these entries, and of no other one that has changed a name. */
  private def hasRows(s: SeenNames, point: Vector[CommitEntry]): Boolean = {
    val numbers = point.map(_.number).toSet
    completed.forall { case (c, _) =>
      c.tables.zipWithIndex.forall { case (t, i) =>
        val uri = t.path.uri
        def marks = logs(uri).marksOf(timeline.id, c.number, i)
          .filter(_.mark.kind == MarkKind.Publish)
        world.dropped(uri) || s.rows.get(uri).forall { version =>
          marks.forall(m => (m.slot <= version) == numbers(c.number))
        }
      }
    }
  }

  /** What a query may have read: all that were finished before it, and any more, but those that were open. */
  private def points(s: SeenNames): Iterator[Vector[CommitEntry]] = {
    val first = named.filter(_._2.finishedAt < s.from).map(_._1.number).maxOption.getOrElse(0L)
    val ends = (first +: completed.map(_._1.number).filter(_ > first)).iterator
    ends.flatMap { end =>
      val (open, closed) = completed.filter(_._1.number <= end).partition(_._2.finishedAt >= s.from)
      open.toSet.subsets().map(left => (closed ++ open.filterNot(left)).map(_._1).sortBy(_.number))
    }
  }

  /** When all is quiet. */
  private def made(metastore: SimulatedMetastore): Unit = {
    val (wanted, now) = (state(completed.map(_._1)), metastore.now)
    val keys = (wanted.keySet ++ now.keySet).filter(_.metastore == metastore.id)
    // Of two foreign tables one may be left under the name that one was given to drop it.
    def isAside(k: NameKey) = NamesOfSession.all.exists { n =>
      k.name.exists(_.endsWith(Json.blake3(n.name).take(16))) &&
      metastore.isForeign(metastore.key(n))
    }
    keys.filterNot(k => metastore.isForeign(k) || isAside(k)).foreach { k =>
      // Of two that are the same a client that may drop a name keeps one from being managed.
      def text(o: Option[NamedObject]) =
        o.map(_.asExternal).map(n => (n.kind, Json.canonical(n.definition)))
      if (wanted.get(k).exists(_.isManaged) && now.get(k).exists(!_.isManaged))
        world.counts.event("managed table that became external")
      if (text(wanted.get(k)) != text(now.get(k)))
        violated(
          s"${metastore.id} shows ${shown(now.get(k))} as $k, and not ${shown(wanted.get(k))}"
        )
    }
    for ((c, _) <- completed if c.names.exists(_.key.metastore == metastore.id))
      if (!world.isApplied(c.number)) violated(s"entry ${c.number} was never made")
    if (metastore.schema("default").forall(!_.properties.values.toSeq.contains(metastore.id)))
      violated(s"${metastore.id} has another id")
  }

  /** Tables that have lost their name are known until they get one. */
  private def dropped(): Unit = {
    def tables(c: CommitEntry)(of: NameChange => Option[NamedObject]) =
      c.names.flatMap(of(_)).filter(_.kind == NamedObject.Table).flatMap(_.path).map(_.uri).toSet
    val last = changing.foldLeft(Map.empty[String, Boolean]) { (gone, c) =>
      val after = tables(c)(_.after)
      gone ++ (tables(c)(_.before) -- after).map(_ -> true) ++
        (after ++ c.purges.map(_.path.uri)).map(_ -> false)
    }
    val wanted = last.collect { case (path, true) => path }.toSet
    world.droppedTables.foreach { said =>
      if (said != wanted) violated(s"$said are said to be dropped, and not $wanted")
      if (wanted.nonEmpty) world.counts.event("history with dropped tables")
    }
  }

  /** For the report. */
  def needless(a: Attempt, conflict: Conflict): Unit =
    if (!isExcluded(a))
      world.violated(
        s"NEEDLESS ${a.transaction} was told $conflict, and nobody changed such a name"
      )
}

object NamesJudge {
  private type State = Map[NameKey, NamedObject]

  private def shown(o: Option[NamedObject]): String =
    o.fold("nothing")(n => n.path.fold(n.definition.toString)(_.uri))
}
