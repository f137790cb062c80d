package io.lakestep.log

import io.lakestep.{Errors, LakestepException}

/**
 * What a staged commit does to its table, as far as it decides whether one commit can publish it
 * together with others.
 *
 * @param dataChanges the values of `dataChange` among its files
 * @param hasChangeFiles whether it holds change files, from which alone its change feed is read
 * @param hasFilesWithoutRowIds whether a file that it adds has no row id
 * @param metaData the last metadata that it holds; `protocol` likewise
 * @param hasInfo whether it holds `commitInfo`
 * @param isIdleMerge whether it is a MERGE that rewrote files and changed no row
 * @param mode what that says of `lakestep.foreignWriters`; see `ForeignWriters.named`
 * @param fault why it cannot be published at all, if so
 */
final case class StagedEffect(
    dataChanges: Set[Boolean] = Set.empty,
    hasChangeFiles: Boolean = false,
    hasFilesWithoutRowIds: Boolean = false,
    metaData: Option[MetaData] = None,
    protocol: Option[Protocol] = None,
    hasInfo: Boolean = false,
    isIdleMerge: Boolean = false,
    mode: Option[Option[String]] = None,
    fault: Option[Unpublishable] = None) {

  def hasFiles: Boolean = dataChanges.nonEmpty

  def changesData: Boolean = dataChanges(true)

  def rearranges: Boolean = dataChanges(false)

  /** The same with one more action. */
  def and(action: Action): StagedEffect = action match {
    case file: FileAction =>
      copy(
        dataChanges = dataChanges + file.dataChange,
        hasFilesWithoutRowIds =
          hasFilesWithoutRowIds || !file.isRemoved && file.baseRowId.isEmpty,
        fault = fault.orElse(faultOf(file))
      )
    case change: ChangeFile =>
      copy(hasChangeFiles = true, fault = fault.orElse(overlayPath(change.path)))
    case m: MetaData => copy(metaData = Some(m))
    case p: Protocol => copy(protocol = Some(p))
    case info: CommitInfo =>
      copy(
        hasInfo = true,
        isIdleMerge = info.isIdleMerge,
        mode = ForeignWriters.named(info)
      )
    case Other(kind, _) => copy(fault = fault.orElse(Some(Unpublishable.UnknownAction(kind))))
    case _: SetTransaction | _: DomainMetadata => this
  }

  private def faultOf(file: FileAction): Option[Unpublishable] =
    overlayPath(file.path)
      .orElse(
        file.deletionVector.flatMap(dv => overlayPath(dv.path("pathOrInlineDv").asText))
      )
      .orElse(
        Option.when(!file.isRemoved && file.baseRowId.isDefined && file.numRecords.isEmpty)(
          Unpublishable.RowCount(file.path)
        )
      )

  private def overlayPath(path: String): Option[Unpublishable] =
    Option.when(path.startsWith(s"${TableRef.OverlayScheme}:"))(Unpublishable.OverlayPath(path))
}

object StagedEffect {

  val none: StagedEffect = StagedEffect()

  def of(actions: Iterable[Action]): StagedEffect = actions.foldLeft(none)(_ and _)
}

/**
 * Why a staged commit cannot be published at all.
 *
 * @param reason the subclass of LAKESTEP_UNSUPPORTED_COMBINATION
 */
sealed abstract class Unpublishable(reason: String, parameters: (String, String)*) {

  /** What refuses the statement that staged it. */
  def error(table: String): LakestepException =
    Errors(s"LAKESTEP_UNSUPPORTED_COMBINATION.$reason", ("table" -> table) +: parameters: _*)
}

object Unpublishable {

  final case class UnknownAction(kind: String)
      extends Unpublishable("UNKNOWN_ACTION", "kind" -> kind)

  final case class OverlayPath(file: String)
      extends Unpublishable("OVERLAY_PATH", "file" -> file)

  final case class RowCount(file: String) extends Unpublishable("ROW_COUNT", "file" -> file)
}

/** Which staged commits of a table one commit can say. */
object OneCommit {

  /** The second is Delta's older name. */
  private val FeedProperties = Seq("delta.enableChangeDataFeed", "delta.enableChangeDataCapture")
  private val RowTrackingFeature = "rowTracking"

  /** The header that a reader sees above a staged commit, as far as it is known. */
  private final case class Header(metaData: Option[MetaData], protocol: Option[Protocol]) {

    def after(effect: StagedEffect): Header = Header(
      effect.metaData.orElse(metaData),
      effect.protocol.map(p => protocol.fold(p)(_ union p)).orElse(protocol)
    )

    def hasFeed: Boolean =
      metaData.exists(m => FeedProperties.find(m.property(_).isDefined).exists(m.isOn))

    def tracksRows: Boolean = protocol.exists(_.writerFeatures.exists(_(RowTrackingFeature)))

    def mapsColumns: Boolean = metaData.exists(_.mapsColumns)

    def schema: Option[String] = metaData.map(_.schema)
  }

  private def headers(pinned: Option[PinnedHeader], effects: Seq[StagedEffect]): Seq[Header] =
    effects.scanLeft(Header(pinned.map(_.metaData), pinned.map(_.protocol)))(_ after _)

  /** Whether the table tracks rows once the commits are published. */
  def tracksRows(pinned: Option[PinnedHeader], effects: Seq[StagedEffect]): Boolean =
    headers(pinned, effects).last.tracksRows

  /** Why one of these commits cannot be published. */
  def fault(tracksRows: Boolean, effects: Seq[StagedEffect]): Option[Unpublishable] =
    effects.flatMap(_.fault).find(f => tracksRows || !f.isInstanceOf[Unpublishable.RowCount])

  /**
   * The commits in order, in as few groups as there are commits that say the same to whoever reads the
   * table, its change feed, or a stream of it.
   *
   * @param pinned the table's header at the pin; without it only what the commits say counts
   */
  def groups[A](pinned: Option[PinnedHeader], commits: Vector[A])(effect: A => StagedEffect)
      : Vector[Vector[A]] = {
    val before = headers(pinned, commits.map(effect)).toVector
    commits.indices.foldLeft(Vector.empty[Vector[Int]]) { (done, next) =>
      done.lastOption.map(_ :+ next) match {
        case Some(more) if isOne(before(more.head), more.map(i => effect(commits(i)))) =>
          done.init :+ more
        case _ => done :+ Vector(next)
      }
    }.map(_.map(commits))
  }

  private def isOne(before: Header, effects: Vector[StagedEffect]): Boolean = {
    val all = effects.scanLeft(before)(_ after _)
    val last = all.last
    val steps = all.zip(all.drop(1)).zip(effects)
    // Readers of a commit with change files see nothing else of its change feed.
    def hidesChanges = effects.exists(_.hasChangeFiles) && effects.count(_.changesData) > 1
    def movesColumns = last.hasFeed && last.mapsColumns && effects.exists(_.changesData) &&
      steps.exists { case ((before, after), _) => before.schema != after.schema }
    def showsIdle = last.hasFeed && effects.exists(e => e.isIdleMerge && e.changesData)
    // A change that was made without a feed would be shown in one, or the other way round.
    def switchesFeed =
      steps.exists { case ((_, own), e) => e.changesData && own.hasFeed != last.hasFeed }
    // Files without row ids would stand in a commit whose protocol asks for them.
    def lacksRowIds = last.tracksRows && steps.exists { case ((_, own), e) =>
      e.hasFilesWithoutRowIds && !own.tracksRows
    }
    // A commit that rearranges rows must not change them, too.
    def mixes = effects.filter(_.hasFiles).flatMap(_.dataChanges).distinct.size > 1
    !(hidesChanges || movesColumns || showsIdle || switchesFeed || lacksRowIds || mixes)
  }
}
