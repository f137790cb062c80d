package io.lakestep.timeline

import io.lakestep.log.TableRef

/**
 * Why a transaction is not committed.
 *
 * @param name as entries, outcomes and EXPLAIN CONFLICT write it
 * @param isOverData whether statements still mean what they meant: nobody has changed the table itself
 */
sealed abstract class Rule(val name: String, val isOverData: Boolean = false) {

  /** The condition of a COMMIT that fails by it. */
  def condition: String = s"LAKESTEP_CONFLICT.${subclass.getOrElse("OTHER")}"

  protected def subclass: Option[String] =
    Some(name.toUpperCase(java.util.Locale.ROOT).replace('-', '_'))
}

object Rule {

  // Another commit stands in a table that was written, or read (SERIALIZABLE).
  case object ProtocolChanged extends Rule("protocol-changed")
  case object MetadataChanged extends Rule("metadata-changed")
  case object DataUnderNewMetadata
      extends Rule("data-changed-under-new-metadata", isOverData = true)
  case object SameDomain extends Rule("same-metadata-domain")
  case object SameApplication extends Rule("same-application-transaction", isOverData = true)
  case object SameFile extends Rule("same-file", isOverData = true)

  /** Both gave a file another deletion vector, with a row in common. */
  case object SameRows extends Rule("same-rows", isOverData = true)
  case object ReadChanged extends Rule("read-data-changed", isOverData = true)
  case object RowIdsBaked extends Rule("row-ids-in-files", isOverData = true)

  /** Others have given a name another meaning. */
  case object NameChanged extends Rule("name-changed")

  /** The table, or its log, is not the one that was validated. */
  case object TableGone extends Rule("table-is-gone")

  /** A data file of the transaction was deleted before somebody else could publish it. */
  case object FileGone extends Rule("data-file-is-gone")

  /** The log was cleaned up, and the table's state does not exclude a conflict. */
  case object LogCleanedUp extends Rule("log-cleaned-up")

  /** The transaction was ended by an ABORT entry. */
  case object Aborted extends Rule("aborted-by-another-client")

  /** Another client has applied the same batch of a streaming query. */
  case object BatchApplied extends Rule("batch-applied")

  /** Others have gone on with the streaming query, or use its key for another one. */
  case object BatchBehind extends Rule("batch-behind")

  /** Others took every number for as long as COMMIT may take. */
  case object CommitTimeout extends Rule("commit-timeout")

  /** The conflict strategy gave up over an entry in flight. */
  case object InFlight extends Rule("entry-in-flight", isOverData = true)

  /** A rule of a client with other rules than ours, which finished the entry. */
  final case class Other(text: String) extends Rule(text) {
    override protected def subclass: Option[String] = None
  }

  // Lazy, as what is named here makes this object when it is made first.
  lazy val all: Vector[Rule] = Vector(
    ProtocolChanged,
    MetadataChanged,
    DataUnderNewMetadata,
    SameDomain,
    SameApplication,
    SameFile,
    SameRows,
    ReadChanged,
    RowIdsBaked,
    NameChanged,
    TableGone,
    FileGone,
    LogCleanedUp,
    Aborted,
    BatchApplied,
    BatchBehind,
    CommitTimeout,
    InFlight
  )

  def named(name: String): Rule = all.find(_.name == name).getOrElse(Other(name))
}

/**
 * Why a transaction did not happen: the rule, and what there is to know by it. StrictFields that the rule
 * has nothing for are empty.
 *
 * @param table name of the table, as its user knows it; `path` of it
 * @param version version of the table in which the other commit stands
 * @param operation what the other commit did, as its commitInfo says
 * @param user who made it, if that is known; `timeMs` when
 * @param files some of the files that both touched, or of those that are gone, at most ten
 * @param otherTransaction the Lakestep transaction that made the other commit, if one did
 * @param entry the timeline entry that was first, where that is the conflict
 */
final case class Conflict(
    rule: Rule,
    table: String,
    path: String,
    version: Option[Long] = None,
    operation: Option[String] = None,
    user: Option[String] = None,
    timeMs: Option[Long] = None,
    files: Vector[String] = Vector.empty,
    otherTransaction: Option[String] = None,
    entry: Option[Long] = None)

object Conflict {

  private val MaxFiles = 10

  /** Over a table, with no one commit of others to name. */
  def overTable(
      rule: Rule,
      table: String,
      path: TableRef,
      files: Vector[String] = Vector.empty): Conflict =
    Conflict(rule, table, path.uri, files = files.take(MaxFiles))

  /** An ABORT entry has ended the transaction. */
  def aborted(entry: Long): Conflict = overEntry(Rule.Aborted, entry)

  /** Over the timeline: entry `number` was first. */
  def overEntry(rule: Rule, number: Long): Conflict =
    Conflict(rule, "", "", entry = Some(number))
}
