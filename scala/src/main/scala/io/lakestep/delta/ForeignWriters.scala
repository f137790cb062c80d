package io.lakestep.delta

import java.util.Locale

import io.lakestep.{Errors, Json}

/**
 * Who may write a table beside Lakestep's transactions: the table property `lakestep.foreignWriters`.
 *
 * With `reserve` the protocol does the same from shortly before a transaction is published in several
 * tables until it is; see `Publish`.
 *
 * With `forbid` the table's protocol names a writer feature that no other writer knows, so that all
 * of them refuse to write, while readers go on. The property and the feature change together, in one
 * commit of a transaction, and only by SET or UNSET TBLPROPERTIES: no other statement takes the fence
 * away, or puts it on.
 */
object ForeignWriters {

  val Property = "lakestep.foreignWriters"
  val Allow = "allow"
  val Reserve = "reserve"
  val Forbid = "forbid"

  /** The writer feature. Its name stands in the error that foreign writers get. */
  val Feature = "lakestepTransactions"

  /** Reader and writer version from before the fence, where features had none of their own. */
  private val Before = "lakestep.protocolBefore"

  /** In small letters; a key that differs from the property by its letters alone counts as one. */
  def mode(metaData: MetaData): String = mode(metaData.properties)

  def mode(properties: Map[String, String]): String =
    properties.collectFirst { case (key, mode) if isProperty(key) => mode }
      .fold(Allow)(_.trim.toLowerCase(Locale.ROOT))

  def isProperty(key: String): Boolean = key.equalsIgnoreCase(Property)

  /** Whether a line of the log is metadata that says who may write. */
  def isStatedIn(line: String): Boolean = stated(line).isDefined

  /** Whether a line of the log is metadata that closes the table. */
  def closes(line: String): Boolean = stated(line).contains(Forbid)

  private def stated(line: String): Option[String] =
    if (!line.toLowerCase(Locale.ROOT).contains(Property.toLowerCase(Locale.ROOT))) None
    else
      Some(Action.parse(line)).collect {
        case m: MetaData if m.properties.keys.exists(isProperty) => mode(m)
      }

  def isFenced(protocol: Protocol): Boolean = protocol.writerFeatures.exists(_(Feature))

  /** The protocol as a session of ours gets to see it while it stages. */
  def unfenced(protocol: Protocol): Protocol =
    protocol.withWriterFeatures(protocol.writerFeatures.getOrElse(Set.empty) - Feature)

  /**
   * The header that a transaction publishes.
   *
   * @param pinned the header of the pinned version
   * @param staged the commits of the transaction, in order
   * @param protocol the protocol that they lead to, the fence left as it was
   * @param metaData the last metadata among them
   */
  def publishable(
      pinned: PinnedHeader,
      staged: Vector[LogCommit],
      protocol: Protocol,
      metaData: MetaData): (Protocol, MetaData) = {
    val wanted = staged.foldLeft(mode(pinned.metaData)) { (before, commit) =>
      val named = commit.actions.collect { case m: MetaData => mode(m) }.lastOption
      named.filter(_ => commit.info.flatMap(_.operation).exists(SetsProperties)).getOrElse(before)
    }
    if (!Modes(wanted))
      throw Errors("LAKESTEP_FOREIGN_WRITERS_INVALID", "property" -> Property, "value" -> wanted)
    val before = pinned.metaData.property(Before)
    val others = metaData.properties.keys.filter(isProperty).foldLeft(metaData) {
      (m, key) => m.withProperty(key, None)
    }
    val kept = others.withProperty(Property, Some(wanted).filter(isStated(metaData)))
    if (wanted == Forbid) fence(protocol, kept.withProperty(Before, before))
    else (restored(unfencedIfAny(protocol), before), kept.withProperty(Before, None))
  }

  private val Modes = Set(Allow, Reserve, Forbid)
  private val SetsProperties = Set("SET TBLPROPERTIES", "UNSET TBLPROPERTIES")

  /** `allow` is what a table has that says nothing: it is written only where somebody wrote it. */
  private def isStated(metaData: MetaData)(wanted: String): Boolean =
    wanted != Allow || (mode(metaData) == Allow && metaData.properties.keys.exists(isProperty))

  private def unfencedIfAny(protocol: Protocol): Protocol =
    if (isFenced(protocol)) unfenced(protocol) else protocol

  /** The protocol with the feature; one without names for its features gets names for all of them. */
  def fenced(protocol: Protocol): Protocol = {
    val features =
      protocol.writerFeatures.getOrElse(implied(protocol.minReader, protocol.minWriter))
    protocol.withWriterFeatures(features + Feature)
  }

  private def fence(protocol: Protocol, metaData: MetaData): (Protocol, MetaData) =
    if (isFenced(protocol)) (protocol, metaData)
    else {
      val versions = s"${protocol.minReader},${protocol.minWriter}"
      val before = Some(versions).filter(_ => protocol.writerFeatures.isEmpty)
      (fenced(protocol), before.fold(metaData)(v => metaData.withProperty(Before, Some(v))))
    }

  /** The versions from before, unless a statement has switched on a feature that they do not say. */
  private def restored(protocol: Protocol, before: Option[String]): Protocol =
    before.map(_.split(',').map(_.toInt)) match {
      case Some(Array(reader, writer))
          if protocol.minReader == reader && protocol.readerFeatures.isEmpty &&
            protocol.writerFeatures.contains(implied(reader, writer)) =>
        protocol.withVersions(reader, writer)
      case _ => protocol
    }

  /** What a protocol without feature names asks of writers. Source: Delta's PROTOCOL.md. */
  private def implied(reader: Int, writer: Int): Set[String] =
    Vector(
      2 -> "appendOnly",
      2 -> "invariants",
      3 -> "checkConstraints",
      4 -> "changeDataFeed",
      4 -> "generatedColumns",
      5 -> "columnMapping",
      6 -> "identityColumns"
    ).collect {
      case (from, name) if writer >= from && (name != "columnMapping" || reader >= 2) => name
    }.toSet

  /** The commit that takes the fence away for the statements of one transaction; never published. */
  def staging(protocol: Protocol, inCommitTimestampMs: Option[Long]): Vector[Action] = {
    val info = Json.obj().put("operation", Unfence)
    inCommitTimestampMs.foreach(info.put("inCommitTimestamp", _))
    Vector(CommitInfo(info), unfenced(protocol))
  }

  def isStaging(commit: LogCommit): Boolean = commit.info.flatMap(_.operation).contains(Unfence)

  private val Unfence = "LAKESTEP UNFENCE"
}
