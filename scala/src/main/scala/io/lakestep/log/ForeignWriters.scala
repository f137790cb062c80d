package io.lakestep.log

import java.util.Locale

import scala.jdk.CollectionConverters._

import io.lakestep.{Errors, Json}

/**
 * Who may write a table beside Lakestep's transactions: the property `lakestep.foreignWriters`.
 *
 * With `forbid` the table's protocol names a writer feature that no other writer knows, so that all
 * of them refuse to write, while readers go on. The property and the feature change together, in
 * one commit of a transaction, and only by SET or UNSET TBLPROPERTIES: no other statement takes the
 * fence away, or puts it on.
 *
 * With `reserve` the protocol names the feature only while a transaction is published in several
 * tables; see `Publish`.
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

  def mode(properties: Map[String, String]): String = modes(properties).headOption.getOrElse(Allow)

  private def modes(properties: Map[String, String]): Iterable[String] =
    properties.collect { case (key, mode) if isProperty(key) => normal(mode) }

  def isProperty(key: String): Boolean = key.equalsIgnoreCase(Property)

  /** Whether a line of the log is metadata that says who may write. */
  def isStatedIn(line: String): Boolean = stated(line).nonEmpty

  /** Whether a line of the log is metadata that closes the table. */
  def closes(line: String): Boolean = stated(line).exists(_ == Forbid)

  /** Refuses a line of the log that is metadata with a mode that there is not. */
  def checkMode(line: String): Unit = stated(line).foreach(known)

  private def known(mode: String): Unit =
    if (!Modes(mode))
      throw Errors("LAKESTEP_FOREIGN_WRITERS_INVALID", "property" -> Property, "value" -> mode)

  private def stated(line: String): Iterable[String] =
    if (!line.toLowerCase(Locale.ROOT).contains(Property.toLowerCase(Locale.ROOT))) Nil
    else
      Action.parse(line) match {
        case m: MetaData => modes(m.properties)
        case _ => Nil
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
    val stated = statedAfter(pinned, staged.map(c => StagedEffect.of(c.actions)))
    val wanted = stated.getOrElse(Allow)
    known(wanted)
    // A copy of a closed table has the property, too, and says nothing by it.
    val before = pinned.metaData.property(Before)
      .filter(_ => mode(pinned.metaData) == Forbid && isFenced(pinned.protocol))
    val others = metaData.properties.keys.filter(isProperty).foldLeft(metaData) {
      (m, key) => m.withProperty(key, None)
    }
    val kept = others.withProperty(Property, stated)
    if (wanted == Forbid) fence(protocol, kept.withProperty(Before, before))
    else (restored(unfencedIfAny(protocol), before), kept.withProperty(Before, None))
  }

  private val Modes = Set(Allow, Reserve, Forbid)

  /**
   * Refuses staged commits that would publish metadata with a mode that there is not. Condition:
   * LAKESTEP_FOREIGN_WRITERS_INVALID.
   */
  def checkMode(pinned: PinnedHeader, staged: Seq[StagedEffect]): Unit =
    if (staged.exists(_.metaData.isDefined)) statedAfter(pinned, staged).foreach(known)

  private def statedAfter(pinned: PinnedHeader, staged: Seq[StagedEffect]): Option[String] =
    staged.foldLeft(modes(pinned.metaData.properties).headOption) { (before, effect) =>
      // Where Delta was told to write no commitInfo, the metadata is all there is.
      val told =
        if (effect.hasInfo) effect.mode
        else effect.metaData.map(m => modes(m.properties).headOption)
      told.getOrElse(before)
    }

  /**
   * What a statement says about the mode: Some(None) when it takes the property away, None when it
   * does not name it. Read from what the user wrote, as the metadata of one statement also holds
   * what those before it did, a RESTORE for example.
   */
  def named(info: CommitInfo): Option[Option[String]] =
    for {
      operation <- info.operation
      if operation == "SET TBLPROPERTIES" || operation == "UNSET TBLPROPERTIES"
      written <- Option(info.body.path("operationParameters").get("properties"))
      properties = Json.parse(s"""{"named":${written.asText}}""").path("named")
      mode <-
        if (properties.isArray)
          properties.elements.asScala.map(_.asText).find(isProperty).map(_ => None)
        else
          properties.properties.asScala.find(e => isProperty(e.getKey))
            .map(e => Some(normal(e.getValue.asText)))
    } yield mode

  private def normal(mode: String): String = mode.trim.toLowerCase(Locale.ROOT)

  private def unfencedIfAny(protocol: Protocol): Protocol =
    if (isFenced(protocol)) unfenced(protocol) else protocol

  /** The protocol with the feature; one without names for its features gets names for all of them. */
  def fenced(protocol: Protocol): Protocol =
    protocol.withWriterFeatures(protocol.askedOfWriters + Feature)

  private def fence(protocol: Protocol, metaData: MetaData): (Protocol, MetaData) =
    if (isFenced(protocol)) (protocol, metaData)
    else {
      val versions = s"${protocol.minReader},${protocol.minWriter}"
      val before = Some(versions).filter(_ => protocol.writerFeatures.isEmpty)
      (fenced(protocol), before.fold(metaData)(v => metaData.withProperty(Before, Some(v))))
    }

  /** The versions from before, unless a statement has switched on a feature that they do not say. */
  private def restored(protocol: Protocol, before: Option[String]): Protocol =
    before.map(_.split(',').flatMap(_.toIntOption)) match {
      case Some(Array(reader, writer))
          if protocol.minReader == reader && protocol.readerFeatures.isEmpty &&
            protocol.writerFeatures.contains(Protocol.impliedForWriters(reader, writer)) =>
        protocol.withVersions(reader, writer)
      case _ => protocol
    }

  /** The commit that takes the fence away for the statements of one transaction; never published. */
  def staging(protocol: Protocol, inCommitTimestampMs: Option[Long]): Vector[Action] = {
    val info = Json.obj().put("operation", Unfence)
    inCommitTimestampMs.foreach(info.put("inCommitTimestamp", _))
    Vector(CommitInfo(info), unfenced(protocol))
  }

  def isStaging(commit: LogCommit): Boolean = commit.info.flatMap(_.operation).contains(Unfence)

  private val Unfence = "LAKESTEP UNFENCE"
}
