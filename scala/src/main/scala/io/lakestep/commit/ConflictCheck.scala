package io.lakestep.commit

import io.lakestep.log.{
  Action, CommitMark, DomainMetadata, FileAction, LogCommit, MetaData, NetPart, Protocol, ReadSet,
  SetTransaction
}
import io.lakestep.timeline.Rule

/**
 * What matters of our net actions when a foreign commit is met.
 *
 * @param paths files that we add, remove, or give another deletion vector; unescaped
 * @param changesHeader whether we change metadata or protocol
 * @param domains metadata domains that we change, row tracking's own left out
 * @param reads what of the table's data we depend on (SERIALIZABLE)
 * @param bakesRows whether row ids and versions stand inside our files, so that any commit conflicts
 * @param vectorUpdates files that we only give another deletion vector, and whose rows are compared
 *   by `RowMerge` when a foreign commit did so too
 */
final case class OurChanges(
    paths: Set[String],
    removesFiles: Boolean,
    changesHeader: Boolean,
    domains: Set[String],
    appIds: Set[String],
    reads: Option[ReadSet],
    bakesRows: Boolean,
    vectorUpdates: Set[String] = Set.empty) {

  /** Whether a foreign commit can conflict at all, but for a change of metadata or protocol. */
  def isConflictCapable(parts: Int): Boolean =
    removesFiles || changesHeader || domains.nonEmpty || appIds.nonEmpty || reads.isDefined ||
      bakesRows || parts > 1

  /** The same, with a commit of others below it that is no conflict. */
  def above(theirs: LogCommit): OurChanges = {
    val rewritten = theirs.files.filterNot(_.dataChange)
    if (rewritten.isEmpty) this else copy(reads = reads.map(_.after(rewritten)))
  }
}

object OurChanges {

  def of(parts: Seq[NetPart], reads: Option[ReadSet], bakesRows: Boolean): OurChanges = {
    val actions: Seq[Action] = parts.flatMap(_.actions)
    OurChanges(
      paths = actions.collect { case f: FileAction => f.plainPath }.toSet,
      removesFiles = parts.exists(_.removes.nonEmpty),
      changesHeader = parts.exists(p => p.metaData.isDefined || p.protocol.isDefined),
      domains = parts.flatMap(_.domains).map(_.domain).toSet - DomainMetadata.RowTracking,
      appIds = parts.flatMap(_.txns).map(_.appId).toSet,
      reads = reads,
      bakesRows = bakesRows
    )
  }
}

/** The rule by which a foreign commit conflicts, and files that show it. */
final case class Finding(rule: Rule, files: Vector[String])

/** Decides whether a foreign commit conflicts with ours. Two clients may hold different rules. */
trait ConflictRules {

  /** Stands in every entry, so that it is known by what rules it was validated. */
  def version: Int
  def check(ours: OurChanges, theirs: LogCommit): Option[Finding]
}

/**
 * The conflict rules: file-level first committer wins.
 *
 * Pure; the first rule that applies is named. Foreign appends beside our appends, and beside our
 * changes of other files, are no conflict. Source: Delta's `ConflictChecker`.
 */
object ConflictCheck extends ConflictRules {
  override val version: Int = 3

  override def check(ours: OurChanges, theirs: LogCommit): Option[Finding] = {
    val changed = theirs.files.filter(_.dataChange)
    val data = changed.map(_.path).distinct
    def found(rule: Rule, when: Boolean, files: => Vector[String] = Vector.empty) =
      Option.when(when)(Finding(rule, files))
    lazy val updated = RowMerge.vectorUpdates(theirs.actions).intersect(ours.vectorUpdates)
    val touched = theirs.files.filter(f => ours.paths(f.plainPath)).map(_.path).distinct
      .filterNot(ours.vectorUpdates.nonEmpty && updated(_))
    lazy val read = changed.filter(f => ours.reads.exists(_.mayHold(f))).map(_.path).distinct
    val domains = theirs.actions.collect { case d: DomainMetadata => d.domain }.toSet
    val appIds = theirs.actions.collect {
      case t: SetTransaction if !CommitMark.isOwnAppId(t.appId) => t.appId
    }.toSet
    val changesHeader = ours.changesHeader || ours.domains.nonEmpty
    val changesProtocol =
      theirs.actions.exists(_.isInstanceOf[Protocol]) && !theirs.mark.exists(_.onlyFences)
    import Rule._
    found(ProtocolChanged, changesProtocol)
      .orElse(found(MetadataChanged, theirs.actions.exists(_.isInstanceOf[MetaData])))
      .orElse(found(DataUnderNewMetadata, changesHeader && data.nonEmpty, data))
      .orElse(found(SameDomain, domains.exists(ours.domains)))
      .orElse(found(SameApplication, appIds.exists(ours.appIds)))
      .orElse(found(SameFile, touched.nonEmpty, touched))
      .orElse(found(ReadChanged, read.nonEmpty, read))
      .orElse(found(RowIdsBaked, ours.bakesRows))
  }

  /** What a transaction depends on that only reads a table. */
  def reading(reads: ReadSet): OurChanges =
    OurChanges(
      Set.empty,
      removesFiles = false,
      changesHeader = false,
      Set.empty,
      Set.empty,
      reads = Some(reads),
      bakesRows = false
    )
}
