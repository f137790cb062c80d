package io.lakestep.commit

import java.net.{URI, URISyntaxException}

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json
import io.lakestep.log.{
  Action, AddFile, CommitMark, DomainMetadata, FileAction, Flatten, ForeignWriters, LogCommit,
  MetaData, NetChanges, NetPart, PinnedHeader, Protocol, RemoveFile, ReplayedState, SetTransaction,
  TableState
}

/** The actions that take a published change back, and what they cannot take back. */
private[commit] final case class UndoPlan(actions: Vector[Action], residue: Vector[String])

/**
 * Plans an undo from what the log says after the publish.
 *
 * Our files that are still live are removed, files that we removed and nobody touched since are
 * added back, and foreign commits that only rearranged our files (`dataChange` = false) are
 * reversed. When somebody built upon our files and we had removed others, adding those back could
 * show rows twice, so the change of that table is kept whole and listed as residue.
 */
private[commit] object UndoPlan {

  /**
   * What surrounds the change.
   *
   * @param originals those of these files that the table had before, with their statistics
   * @param before the state before the change, if it can still be read
   * @param isNew whether the change has made the table, which stays, without rows
   * @param exists whether a data file, and its deletion vector, is still there
   * @param fits whether files of the table as it was before can stand under this metadata
   * @param restores whether a later commit may bring back rows of before the change in other files
   */
  final case class Surroundings(
      originals: Set[String] => Map[String, AddFile],
      before: Option[TableState],
      header: Option[PinnedHeader],
      isNew: Boolean,
      exists: FileAction => Boolean,
      fits: MetaData => Boolean,
      nowMs: Long,
      restores: LogCommit => Boolean = Returned.isRestore) {

    /** See `Returned`. */
    def returned(own: Vector[LogCommit], after: Vector[LogCommit]): Set[String] =
      Returned.files(own, after, restores)(originals(_).keySet)
  }

  /**
   * @param published our commits of the table
   * @param after the commits of others after our first one, in order
   */
  def apply(
      published: Vector[LogCommit],
      after: Vector[LogCommit],
      around: Surroundings): UndoPlan = {
    val own = inPlaceOf(published, around)
    val since = respelt(own, after)
    val files = Flatten.net(own)
    val adds = files.collect { case a: AddFile => a.path -> a }.toMap
    val removes = files.collect { case r: RemoveFile => r.path -> r }.toMap
    val restore = new Restore(removes.values ++ since.flatMap(_.files), around)
    val history = History(adds.keySet, own, since, around, restore)
    val touched = since.flatMap(_.files).map(_.path).toSet
    val restored = removes.values.toVector.sortBy(_.path).map(r => r -> restore(r))
    val header =
      if (around.isNew) UndoPlan(Vector.empty, Vector.empty) else undoHeader(own, since, around)
    val stays = if (header.residue.contains(MetadataName)) own ++ since else since
    val fits =
      stays.flatMap(_.actions).collect { case m: MetaData => m }.lastOption.forall(around.fits)
    val unrestorable = restored.collect {
      case (r, add) if !fits || touched(r.path) || !add.exists(around.exists) => r.path
    }
    val builtUpon = adds.keySet.intersect(history.stuck)
    val returned = if (removes.isEmpty) Set.empty[String] else around.returned(own, since)
    val keeps = removes.nonEmpty &&
      (builtUpon.nonEmpty || returned.nonEmpty || (unrestorable.nonEmpty && adds.nonEmpty))
    if (keeps) {
      val kept = adds.keySet ++ removes.keySet ++ history.derived ++ returned
      UndoPlan(Vector.empty, kept.toVector.sorted ++ headerNames(own))
    } else {
      val ours = adds.values.toVector.flatMap(a => history.live.get(a.path))
      val gone = (ours ++ history.reversedLive).map(remove(_, around.nowMs))
      val back = restored.collect { case (r, Some(a)) if !unrestorable.contains(r.path) => a } ++
        history.restored
      UndoPlan(
        header.actions ++ gone.sortBy(_.path) ++ back.sortBy(_.path),
        (unrestorable ++ history.derived).distinct.sorted ++ header.residue
      )
    }
  }

  /**
   * Row ids are given to a file by adding it once more. Nothing of that is taken back, and a later commit
   * of ours that removes the file removes one that was there before: so each such add replaces the file.
   */
  private def inPlaceOf(own: Vector[LogCommit], around: Surroundings): Vector[LogCommit] = {
    def again(c: LogCommit) = {
      val removed = c.files.filter(_.isRemoved).map(_.path).toSet
      c.files.collect { case a: AddFile if !a.dataChange && !removed(a.path) => a }
    }
    lazy val there = around.originals(own.flatMap(again).map(_.path).toSet)
    own.map { c =>
      val adds = again(c)
      // What was there cannot be read any more: a statement that writes files removes some.
      def isIdsAlone = around.before.isEmpty && !c.files.exists(_.isRemoved)
      val before = adds.flatMap { a =>
        there.get(a.path).orElse(Option.when(isIdsAlone && a.baseRowId.isDefined)(a))
      }
      if (before.isEmpty) c
      else c.copy(actions = before.map(remove(_, around.nowMs)) ++ c.actions)
    }
  }

  /** Clients escape paths differently: each file is called as the first commit that names it does. */
  private def respelt(own: Vector[LogCommit], after: Vector[LogCommit]): Vector[LogCommit] = {
    val spelt =
      (own ++ after).flatMap(_.files).reverseIterator.map(f => plain(f.path) -> f.path).toMap
    def called[A <: FileAction](file: A): ObjectNode =
      file.body.deepCopy().put("path", spelt(plain(file.path)))
    after.map(c =>
      c.copy(actions = c.actions.map {
        case a: AddFile => AddFile(called(a))
        case r: RemoveFile => RemoveFile(called(r))
        case other => other
      })
    )
  }

  /** All that a path says, without its escapes; those of two stores are two. */
  private def plain(path: String): Seq[Option[String]] =
    try {
      val uri = new URI(path)
      Seq(
        uri.getScheme,
        uri.getAuthority,
        uri.getPath,
        uri.getQuery,
        uri.getFragment
      ).map(Option(_))
    } catch { case _: URISyntaxException => Seq(None, None, Some(path), None, None) }

  /**
   * The same from states alone, where commits after the publish are gone.
   *
   * @param isWhole whether all parts were published; else as many as the state shows, if it does
   */
  def fromState(
      all: NetChanges,
      isWhole: Boolean,
      now: TableState,
      around: Surroundings): UndoPlan = {
    val own = inPlaceOf(
      all.parts.zipWithIndex.map { case (p, i) => LogCommit(i.toLong, p.actions) },
      around
    )
    val told = all.copy(parts = all.parts.zip(own).map { case (p, c) =>
      p.copy(actions = c.actions)
    })
    val shown = if (isWhole) Some(all.parts.size) else held(told, now)
    val changes = shown.fold(told)(some => told.copy(parts = told.parts.take(some)))
    val files = net(changes.parts)
    // Of which parts there are nothing is known: none of the files that they made may stay.
    val made = if (shown.isDefined) Vector.empty
    else changes.adds.filterNot(a => changes.removedOfOthers.contains(a.path))
    val adds = (made ++ files.collect { case a: AddFile => a }).groupBy(
      _.path
    ).values.map(_.last).toVector.sortBy(_.path)
    val removes = files.collect { case r: RemoveFile => r }
    val live = now.liveFiles((adds.map(_.path) ++ removes.map(_.path)).toSet)
    val missing = adds.filterNot(a => live.get(a.path).exists(_.dvId == a.dvId)).map(_.path)
    val restore = new Restore(removes, around)
    val restored = removes.map(r => r -> restore(r))
    val fits = around.fits(now.metaData)
    val unrestorable = restored.collect {
      case (r, add)
          if !fits || !add.exists(around.exists) ||
            (live.contains(r.path) && !adds.exists(_.path == r.path)) => r.path
    }
    if (removes.nonEmpty && (missing.nonEmpty || (unrestorable.nonEmpty && adds.nonEmpty)))
      UndoPlan(Vector.empty, (adds.map(_.path) ++ removes.map(_.path)).distinct.sorted)
    else
      UndoPlan(
        adds.flatMap(a => live.get(a.path)).map(f => remove(f.add, around.nowMs)) ++
          restored.collect { case (r, Some(add)) if !unrestorable.contains(r.path) => add },
        (missing.filterNot(live.contains) ++ unrestorable).distinct.sorted ++
          (if (changes.changesHeader && !around.isNew) Vector(MetadataName) else Vector.empty)
      )
  }

  private def net(parts: Vector[NetPart]): Vector[FileAction] =
    Flatten.net(parts.zipWithIndex.map { case (p, i) => LogCommit(i.toLong, p.actions) })

  /**
   * How many parts, one at least and not all, a state holds, if it agrees with so many in all files that
   * any of them names: then nobody else has changed these.
   */
  private def held(changes: NetChanges, now: TableState): Option[Int] = {
    val before = changes.removedOfOthers
    val named = changes.parts.flatMap(_.adds).map(_.path).toSet ++ before.keySet
    val live = now.liveFiles(named).map { case (path, file) => path -> file.dvId }
    def agrees(parts: Int): Boolean = {
      val files = net(changes.parts.take(parts))
      val adds = files.collect { case a: AddFile => a.path -> a.dvId }.toMap
      val kept = before -- files.collect { case r: RemoveFile => r.path }
      named.forall(path => live.get(path) == adds.get(path).orElse(kept.get(path)))
    }
    (changes.parts.size - 1).to(1, -1).find(agrees)
  }

  /**
   * What became of our files.
   *
   * @param live our files that are live, as they are now
   * @param stuck our files, and rearranged ones, that a data-changing commit built upon
   * @param derived files that those commits added
   * @param reversedLive live outputs of commits that only rearranged our files
   * @param restored inputs of those commits that were not ours
   */
  private final case class History(
      live: Map[String, AddFile],
      stuck: Set[String],
      derived: Vector[String],
      reversedLive: Vector[AddFile],
      restored: Vector[AddFile])

  private object History {
    def apply(
        ours: Set[String],
        own: Vector[LogCommit],
        since: Vector[LogCommit],
        around: Surroundings,
        restore: Restore): History = {
      val (tainted, rearranging, building) = consumers(ours, since)
      val reversible = rearranging.filter { c =>
        c.actions.collect { case r: RemoveFile if !tainted(r.path) => r }
          .forall(restore(_).exists(around.exists))
      }
      val consumed =
        (building ++ rearranging.diff(reversible)).flatMap(removedPaths).toSet & tainted
      val (stuck, reversed) = reversible.reverse.foldLeft((consumed, Vector.empty[LogCommit])) {
        case ((all, done), c) =>
          if (c.files.collect { case a: AddFile => a.path }.exists(all))
            (all ++ (removedPaths(c) & tainted), done)
          else (all, c +: done)
      }
      val outputs = reversed.flatMap(_.files).collect { case a: AddFile => a.path }.toSet
      val end = liveAfter(own ++ since, tainted)
      History(
        live = end.filter { case (path, _) => ours(path) && !outputs(path) },
        stuck = stuck,
        derived = (building ++ rearranging.diff(reversed)).flatMap { c =>
          val gone = removedPaths(c)
          c.files.collect { case a: AddFile if !gone(a.path) => a.path }
        }.distinct,
        reversedLive =
          end.collect { case (path, add) if outputs(path) && !ours(path) => add }.toVector,
        restored = reversed.flatMap(_.actions).collect {
          case r: RemoveFile if !tainted(r.path) => restore(r)
        }.flatten
      )
    }

    private def removedPaths(commit: LogCommit): Set[String] =
      commit.files.collect { case r: RemoveFile => r.path }.toSet

    private def consumers(ours: Set[String], since: Vector[LogCommit]) =
      since.foldLeft((ours, Vector.empty[LogCommit], Vector.empty[LogCommit])) {
        case ((tainted, rearranging, building), c) =>
          if (!removedPaths(c).exists(tainted)) (tainted, rearranging, building)
          else if (c.changesData) (tainted, rearranging, building :+ c)
          else
            (tainted ++ c.files.collect { case a: AddFile => a.path }, rearranging :+ c, building)
      }

    private def liveAfter(since: Vector[LogCommit], tracked: Set[String]): Map[String, AddFile] =
      ReplayedState.of(since).liveFiles(tracked).map { case (path, f) => path -> f.add }
  }

  /**
   * Adds removed files back: as a commit since has added them, as the table had them before, or as the
   * remove describes them. A remove need not tell size and partition; a file that nothing describes
   * is not added back, as its rows would not be read.
   */
  private final class Restore(files: Iterable[FileAction], around: Surroundings) {
    private lazy val before =
      around.originals(files.collect { case r: RemoveFile => r.path }.toSet)
    private val added = files.collect { case a: AddFile => a.path -> a }.toMap

    def apply(removed: RemoveFile): Option[AddFile] =
      added.get(removed.path).filter(_.dvId == removed.dvId)
        .orElse(before.get(removed.path).filter(_.dvId == removed.dvId))
        .orElse(described(removed))
        .map(add => AddFile(add.body.deepCopy().put("dataChange", true)))

    private def described(removed: RemoveFile): Option[AddFile] =
      Option.when(Seq("partitionValues", "size").forall(removed.body.hasNonNull)) {
        val body = Json.obj().put("path", removed.path).put("modificationTime", around.nowMs)
        copy(removed, body, "partitionValues", "size", "stats", "tags", "deletionVector")
        copy(removed, body, "baseRowId", "defaultRowCommitVersion")
        AddFile(body)
      }
  }

  private def copy(from: FileAction, to: ObjectNode, fields: String*): Unit =
    fields.foreach(f => Option(from.body.get(f)).foreach(to.set[JsonNode](f, _)))

  private def remove(add: AddFile, nowMs: Long): RemoveFile = {
    val body = Json
      .obj()
      .put("path", add.path)
      .put("deletionTimestamp", nowMs)
      .put("dataChange", true)
      .put("extendedFileMetadata", true)
    copy(add, body, "partitionValues", "size", "tags", "deletionVector")
    copy(add, body, "baseRowId", "defaultRowCommitVersion", "stats")
    RemoveFile(body)
  }

  private def headerNames(own: Vector[LogCommit]): Vector[String] =
    own.flatMap(_.actions).collect { case _: MetaData => MetadataName }.distinct ++
      Option.when(changesProtocol(own))(ProtocolName)

  /** As the residue calls what is not of files. */
  val MetadataName = "metadata"
  val ProtocolName = "protocol"
  def ofApplication(id: String): String = s"application transaction $id"

  /** A fence that a publish takes away again has changed nothing. */
  private def changesProtocol(own: Vector[LogCommit]): Boolean =
    own.filterNot(_.mark.exists(_.onlyFences)).exists(_.actions.exists(_.isInstanceOf[Protocol]))

  private def undoHeader(
      own: Vector[LogCommit],
      since: Vector[LogCommit],
      around: Surroundings): UndoPlan = {
    val ours = own.flatMap(_.actions)
    val theirs = since.flatMap(_.actions)
    val metaData = ours.collect { case m: MetaData => m }.lastOption.map { changed =>
      // What others have written under ours must be readable under what was before, too.
      def keepsTheirs(before: MetaData) =
        changed.isFitFor(before) || !theirs.exists(_.isInstanceOf[AddFile])
      around.header.map(_.metaData).orElse(around.before.map(_.metaData))
        .filter(keepsTheirs(_) && !theirs.exists(_.isInstanceOf[MetaData])).toRight(MetadataName)
    }
    val protocol = Option.when(changesProtocol(own)) {
      around.header.map(_.protocol).orElse(around.before.map(_.protocol))
        .filter(_ => theirs.isEmpty).toRight(ProtocolName)
    }
    // Where the protocol stays as it is, the fence goes with the property that states it.
    val fence = for {
      Left(_) <- protocol
      Right(restored) <- metaData
      closes = ForeignWriters.mode(restored) == ForeignWriters.Forbid
      now <- (ours ++ theirs).collect { case p: Protocol => p }.lastOption
      if ForeignWriters.isFenced(now) != closes
    } yield if (closes) ForeignWriters.fenced(now) else ForeignWriters.unfenced(now)
    val domains = ours.collect {
      case d: DomainMetadata if d.domain != DomainMetadata.RowTracking => d.domain
    }.distinct.map { name =>
      around.before.filterNot(_ =>
        theirs.exists { case d: DomainMetadata => d.domain == name; case _ => false }
      )
        .map(_.domain(name).getOrElse(
          DomainMetadata(Json.obj().put(
            "domain",
            name
          ).put("configuration", "").put("removed", true))
        ))
        .toRight(s"metadata domain $name")
    }
    val txns = ours.collect {
      case t: SetTransaction if !CommitMark.isOwnAppId(t.appId) => t.appId
    }.distinct.map { app =>
      around.before.filterNot(_ =>
        theirs.exists { case t: SetTransaction => t.appId == app; case _ => false }
      )
        .map(s => SetTransaction(app, s.txnVersion(app).getOrElse(-1L), around.nowMs))
        .toRight(ofApplication(app))
    }
    val all: Vector[Either[String, Action]] = protocol.toVector ++ metaData ++ domains ++ txns
    UndoPlan(
      fence.toVector ++ all.collect { case Right(a) => a },
      all.collect { case Left(r) => r }
    )
  }
}
