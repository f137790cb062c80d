package io.lakestep.log

/** A file that is part of a table's state. */
final case class LiveFile(add: AddFile) {
  def path: String = add.path
  def dvId: Option[String] = add.dvId
}

/** The state of a table at one version; used where the log no longer tells how it came about. */
trait TableState {
  def version: Long

  /** Those of the asked files that are live, by path as it stands in the log. */
  def liveFiles(paths: Set[String]): Map[String, LiveFile]

  /** The newest version that an application id has written. */
  def txnVersion(appId: String): Option[Long]

  /** The Delta table id. */
  final def metadataId: String = metaData.id
  def metaData: MetaData
  def protocol: Protocol

  /** A domain that exists and is not removed. */
  def domain(name: String): Option[DomainMetadata]
}

/**
 * Reads the state of a table at a version, from checkpoints where commits are gone.
 *
 * Throws when there is no such version any more.
 */
trait StateReader {
  def stateAt(table: TableRef, version: Long): TableState
}

/** A state made by replaying actions in the order of the log. */
final case class ReplayedState(
    version: Long,
    files: Map[String, LiveFile],
    txns: Map[String, Long],
    header: Option[MetaData],
    protocolAction: Option[Protocol],
    domains: Map[String, DomainMetadata])
    extends TableState {

  override def liveFiles(paths: Set[String]): Map[String, LiveFile] =
    if (paths.size < files.size) paths.iterator.flatMap(p => files.get(p).map(p -> _)).toMap
    else files.filter { case (path, _) => paths(path) }

  override def txnVersion(appId: String): Option[Long] = txns.get(appId)

  override def metaData: MetaData =
    header.getOrElse(throw new IllegalStateException("a log without metaData"))

  override def protocol: Protocol =
    protocolAction.getOrElse(throw new IllegalStateException("a log without protocol"))

  override def domain(name: String): Option[DomainMetadata] = domains.get(name)

  /** The state after one more commit: its removes first, then its adds. */
  def next(commit: LogCommit): ReplayedState = {
    val afterRemoves = commit.actions.foldLeft(files) {
      case (all, r: RemoveFile) if all.get(r.path).exists(_.dvId == r.dvId) => all - r.path
      case (all, _) => all
    }
    commit.actions.foldLeft(copy(version = commit.version, files = afterRemoves)) {
      case (s, a: AddFile) => s.copy(files = s.files + (a.path -> LiveFile(a)))
      case (s, t: SetTransaction) => s.copy(txns = s.txns + (t.appId -> t.version))
      case (s, m: MetaData) => s.copy(header = Some(m))
      case (s, p: Protocol) => s.copy(protocolAction = Some(p))
      case (s, d: DomainMetadata) if d.removed => s.copy(domains = s.domains - d.domain)
      case (s, d: DomainMetadata) => s.copy(domains = s.domains + (d.domain -> d))
      case (s, _) => s
    }
  }
}

object ReplayedState {
  val empty: ReplayedState = ReplayedState(-1, Map.empty, Map.empty, None, None, Map.empty)

  def of(commits: IterableOnce[LogCommit]): ReplayedState =
    commits.iterator.foldLeft(empty)(_.next(_))
}
