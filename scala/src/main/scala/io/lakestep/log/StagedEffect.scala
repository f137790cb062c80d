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
 * Why staged commits of one table cannot become one published commit.
 *
 * @param reason the subclass of LAKESTEP_UNSUPPORTED_COMBINATION
 */
sealed abstract class Unpublishable(reason: String, parameters: (String, String)*) {

  /** What refuses the statement that staged the last of the commits, or would. */
  def error(table: String): LakestepException =
    Errors(s"LAKESTEP_UNSUPPORTED_COMBINATION.$reason", ("table" -> table) +: parameters: _*)
}

object Unpublishable {

  /** Readers of a commit with change files see nothing else of its change feed. */
  case object ChangeDataFeed extends Unpublishable("CHANGE_DATA_FEED")

  /** A change that was made without a change feed would be shown in one, or the other way round. */
  case object FeedSwitched extends Unpublishable("FEED_SWITCHED")

  /** Row ids that the first commit gave out stand inside files of the next. */
  case object RowTracked extends Unpublishable("ROW_TRACKING")

  /** Files without row ids would stand in a commit whose protocol asks for them. */
  case object RowTrackingSwitched extends Unpublishable("ROW_TRACKING_SWITCHED")

  /** One commit that rearranges rows must not change them, too. */
  case object MixedDataChange extends Unpublishable("OPTIMIZE")

  final case class UnknownAction(kind: String)
      extends Unpublishable("UNKNOWN_ACTION", "kind" -> kind)

  final case class OverlayPath(file: String)
      extends Unpublishable("OVERLAY_PATH", "file" -> file)

  final case class RowCount(file: String) extends Unpublishable("ROW_COUNT", "file" -> file)
}

/** What one statement does to the log of a table, as far as that is known before it runs. */
sealed trait StatementKind
object StatementKind {

  /** Adds rows. */
  case object Append extends StatementKind

  /** Changes rows in any other way. */
  case object Data extends StatementKind

  /** Rearranges files. */
  case object Rewrite extends StatementKind
  case object Metadata extends StatementKind

  /** DESCRIBE DETAIL: stages nothing. */
  case object Detail extends StatementKind
}

/** Whether one commit can say what several staged commits did. */
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

  /** Why a further statement of this kind need not run, as `refusal` would be its end. */
  def refusalBefore(
      pinned: PinnedHeader,
      effects: Seq[StagedEffect],
      next: StatementKind): Option[Unpublishable] = {
    import StatementKind._
    val now = headers(Some(pinned), effects).last
    def changes = next == Append || next == Data
    if (next == Metadata || next == Detail) None
    else if (effects.exists(e => if (changes) e.rearranges else e.changesData))
      Some(Unpublishable.MixedDataChange)
    else if (now.tracksRows && effects.exists(_.hasFiles)) Some(Unpublishable.RowTracked)
    else if (effects.exists(_.hasChangeFiles) && changes ||
      next == Data && now.hasFeed && effects.exists(_.changesData))
      Some(Unpublishable.ChangeDataFeed)
    else None
  }

  /** Whether the table tracks rows once the commits are published. */
  def tracksRows(pinned: Option[PinnedHeader], effects: Seq[StagedEffect]): Boolean =
    headers(pinned, effects).last.tracksRows

  /**
   * Why these commits, one after another, cannot become one; nothing if they can.
   *
   * @param pinned the table's header at the pin; without it only what the commits say counts
   */
  def refusal(
      pinned: Option[PinnedHeader],
      tracksRows: Boolean,
      effects: Seq[StagedEffect]): Option[Unpublishable] = {
    import Unpublishable._
    val all = headers(pinned, effects)
    val last = all.last
    val steps = all.zip(all.drop(1)).zip(effects)
    val tracks = tracksRows || last.tracksRows
    val withFiles = effects.filter(_.hasFiles)
    val movesColumns = last.hasFeed && last.mapsColumns && effects.size > 1 &&
      effects.exists(_.changesData) &&
      steps.exists { case ((before, after), _) => before.schema != after.schema }
    def when(isSo: Boolean, refusal: Unpublishable) = Option.when(isSo)(refusal)
    effects.flatMap(_.fault).filter(f => tracks || !f.isInstanceOf[RowCount]).headOption
      .orElse(when(
        effects.exists(_.hasChangeFiles) && effects.count(_.changesData) > 1 || movesColumns ||
          last.hasFeed && effects.size > 1 && effects.exists(e => e.isIdleMerge && e.changesData),
        ChangeDataFeed
      ))
      .orElse(when(
        steps.exists { case ((_, own), e) => e.changesData && own.hasFeed != last.hasFeed },
        FeedSwitched
      ))
      .orElse(when(tracks && withFiles.size > 1, RowTracked))
      .orElse(when(
        last.tracksRows && steps.exists { case ((_, own), e) =>
          e.hasFilesWithoutRowIds && !own.tracksRows
        },
        RowTrackingSwitched
      ))
      .orElse(when(
        withFiles.size > 1 && withFiles.flatMap(_.dataChanges).distinct.size > 1,
        MixedDataChange
      ))
  }
}
