package io.lakestep.log

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json

/**
 * One line of a Delta commit; fields that this code does not know are carried unchanged.
 *
 * The tree in `body` is never modified: changes are made on a copy. Source: Delta's PROTOCOL.md,
 * "Actions".
 */
sealed trait Action {
  def kind: String
  def body: ObjectNode

  /** `{"<kind>": <body>}`, the line as a tree. */
  final def node: ObjectNode = {
    val line = Json.obj()
    line.set[JsonNode](kind, body)
    line
  }

  final protected def string(field: String): Option[String] =
    Option(body.get(field)).filterNot(_.isNull).map(_.asText)

  final protected def long(field: String): Option[Long] =
    Option(body.get(field)).filter(n => n.isIntegralNumber).map(_.asLong)

  final protected def flag(field: String, default: Boolean): Boolean =
    Option(body.get(field)).filter(_.isBoolean).fold(default)(_.asBoolean)

  final protected def required(field: String): String =
    string(field).getOrElse(throw new IllegalArgumentException(s"$kind without $field"))
}

/** An action about one data file. */
sealed trait FileAction extends Action with FileFacts {

  /** As it stands in the log: URL-encoded, relative to the table or absolute. */
  final def path: String = required("path")

  final override def plainPath: String = FileAction.plain(path)

  final override def partitionValues: Map[String, Option[String]] =
    Option(body.get("partitionValues")).fold(Map.empty[String, Option[String]]) { values =>
      values.properties.asScala.map { entry =>
        entry.getKey -> Option(entry.getValue).filterNot(_.isNull).map(_.asText)
      }.toMap
    }

  final override def statistics: Option[ObjectNode] = string("stats").flatMap { text =>
    try Some(Json.parse(text))
    catch { case _: java.io.IOException => None }
  }

  final def dataChange: Boolean = flag("dataChange", default = true)

  /** The unique id of the deletion vector, as Delta forms it; nothing when the file has none. */
  final def dvId: Option[String] = deletionVector.map { dv =>
    val name = dv.path("storageType").asText + dv.path("pathOrInlineDv").asText
    if (dv.hasNonNull("offset")) s"$name@${dv.get("offset").asLong}" else name
  }

  final def deletionVector: Option[ObjectNode] =
    Option(body.get("deletionVector")).collect { case o: ObjectNode => o }

  final def sizeBytes: Long = long("size").getOrElse(0L)

  final def baseRowId: Option[Long] = long("baseRowId")

  /** Rows that the file holds, deleted ones included, when the statistics say so. */
  final def numRecords: Option[Long] =
    statistics.flatMap(s => Option(s.get("numRecords"))).filter(_.isIntegralNumber).map(_.asLong)

  /** Rows that a reader sees: without those of the deletion vector. */
  final def liveRows: Option[Long] =
    numRecords.map(_ - deletionVector.fold(0L)(_.path("cardinality").asLong(0L)))
}

object FileAction {

  /** A path without its escapes: clients differ in what they escape. */
  def plain(path: String): String =
    try Option(new java.net.URI(path).getPath).getOrElse(path)
    catch { case _: java.net.URISyntaxException => path }
}

final case class AddFile(body: ObjectNode) extends FileAction {
  override def kind: String = "add"
  override def isRemoved: Boolean = false
  def defaultRowCommitVersion: Option[Long] = long("defaultRowCommitVersion")
}

final case class RemoveFile(body: ObjectNode) extends FileAction {
  override def kind: String = "remove"
  override def isRemoved: Boolean = true
}

final case class ChangeFile(body: ObjectNode) extends Action {
  override def kind: String = "cdc"
  def path: String = required("path")
}

final case class MetaData(body: ObjectNode) extends Action {
  override def kind: String = "metaData"
  def id: String = required("id")

  def property(key: String): Option[String] =
    Option(body.path("configuration").get(key)).map(_.asText)

  def properties: Map[String, String] =
    body.path("configuration").properties.asScala.map(e => e.getKey -> e.getValue.asText).toMap

  /** The table's schema, as a text of JSON. */
  def schema: String = string("schemaString").getOrElse("{}")

  /** Whether a property is true, in whichever case: Delta keeps the user's letters. */
  def isOn(name: String): Boolean = property(name).exists(_.equalsIgnoreCase("true"))

  /** Whether columns have names, or ids, of their own inside the files. */
  def mapsColumns: Boolean = property(MetaData.Mapping).exists(!_.equalsIgnoreCase("none"))

  /**
   * With other versions in place of those after `pin`, which were staged: that in which in-commit
   * timestamps were enabled, and, in tables with the preview of type widening, those of type changes.
   */
  def withVersionsMoved(pin: Long, to: Long => Long): MetaData = {
    def moved(version: Long) = if (version > pin) to(version) else version
    val enabled = property(MetaData.TimestampsEnabledIn).flatMap(_.toLongOption).map(moved)
    val stamped = enabled.fold(this) { version =>
      withProperty(MetaData.TimestampsEnabledIn, Some(version.toString))
    }
    if (!schema.contains(MetaData.TypeChanges)) stamped
    else {
      val tree = Json.parse(schema)
      tree.findValues(MetaData.TypeChanges).asScala.flatMap(_.elements.asScala).foreach {
        case change: ObjectNode if change.has(MetaData.TypeChangeVersion) =>
          val version = change.path(MetaData.TypeChangeVersion).asLong
          change.put(MetaData.TypeChangeVersion, moved(version))
        case _ =>
      }
      MetaData(stamped.body.deepCopy().put("schemaString", Json.text(tree)))
    }
  }

  /** With the property set to a value, or without it. */
  def withProperty(key: String, value: Option[String]): MetaData =
    if (property(key) == value) this
    else {
      val changed = body.deepCopy()
      val configuration = changed.withObjectProperty("configuration")
      value.fold[Any](configuration.remove(key))(configuration.put(key, _))
      MetaData(changed)
    }

  /**
   * Whether files that were written under this metadata can be read under another: the same
   * partitioning, no further CHECK constraint, and every column is still there with its type, its name
   * inside the files and the same conditions on its values, and may be null if it might before. A column that
   * these files do not have may be null, and is not generated.
   */
  def isFitFor(later: MetaData): Boolean =
    body.path("partitionColumns") == later.body.path("partitionColumns") &&
      later.constraints.toSet.subsetOf(constraints.toSet) &&
      property(MetaData.Mapping) == later.property(MetaData.Mapping) && {
        val there = later.columns
        columns.forall { case (name, (column, isNullable)) =>
          there.get(name).exists(later => later._1 == column && (later._2 || !isNullable))
        } && (there -- columns.keySet).values.forall { case (column, mayBeNull) =>
          mayBeNull && column.last.isMissingNode
        }
      }

  /** Without the last numbers of identity columns. */
  def withoutIdentityMarks: MetaData =
    if (!schema.contains(MetaData.IdentityMark)) this
    else {
      val tree = Json.parse(schema)
      tree.path("fields").elements.asScala.map(_.path("metadata")).foreach {
        case told: ObjectNode => told.remove(MetaData.IdentityMark)
        case _ =>
      }
      MetaData(body.deepCopy().put("schemaString", Json.text(tree)))
    }

  private def constraints: Map[String, String] =
    properties.filter { case (key, _) => key.startsWith(MetaData.Constraints) }

  /** By name: type, name inside the files, and what its values must be; whether it may be null. */
  private def columns: Map[String, (Seq[JsonNode], Boolean)] =
    try
      Json.parse(schema).path("fields").elements.asScala.map {
        field =>
          val told = MetaData.OfValues.map(key => field.path("metadata").path(key))
          val isNullable = field.path("nullable").asBoolean(true)
          field.path("name").asText -> ((field.path("type") +: told) -> isNullable)
      }.toMap
    catch { case _: java.io.IOException => Map.empty }
}

object MetaData {
  private val Constraints = "delta.constraints."

  /** What a column's metadata says of the values in the files. */
  /** How a column is generated comes last. */
  private val OfValues = Seq(
    "delta.columnMapping.physicalName",
    "__CHAR_VARCHAR_TYPE_STRING",
    "delta.invariants",
    "delta.generationExpression"
  )
  private val Mapping = "delta.columnMapping.mode"
  private val IdentityMark = "delta.identity.highWaterMark"
  private val TypeChanges = "delta.typeChanges"
  private val TypeChangeVersion = "tableVersion"

  /** The property that names the version from which on commits say their time. */
  val TimestampsEnabledIn = "delta.inCommitTimestampEnablementVersion"
}

final case class Protocol(body: ObjectNode) extends Action {
  override def kind: String = "protocol"
  def minReader: Int = body.path("minReaderVersion").asInt(1)
  def minWriter: Int = body.path("minWriterVersion").asInt(1)
  def readerFeatures: Option[Set[String]] = features("readerFeatures")
  def writerFeatures: Option[Set[String]] = features("writerFeatures")

  private def features(field: String): Option[Set[String]] =
    Option(body.get(field)).filter(_.isArray).map(_.elements.asScala.map(_.asText).toSet)

  /** What it asks of readers, named or implied by its version. Source: Delta's PROTOCOL.md. */
  private def askedOfReaders: Set[String] =
    readerFeatures.getOrElse(if (minReader >= 2) Set("columnMapping") else Set.empty)

  /** What it asks of writers, named or implied by its versions. */
  def askedOfWriters: Set[String] =
    writerFeatures.getOrElse(Protocol.impliedForWriters(minReader, minWriter))

  /** What both ask for: the higher versions and every feature, named where one of them has names. */
  def union(other: Protocol): Protocol = {
    val merged = body.deepCopy()
    merged.put("minReaderVersion", minReader.max(other.minReader))
    merged.put("minWriterVersion", minWriter.max(other.minWriter))
    if (readerFeatures.orElse(other.readerFeatures).isDefined)
      Protocol.name(merged, "readerFeatures", askedOfReaders ++ other.askedOfReaders)
    if (writerFeatures.orElse(other.writerFeatures).isDefined)
      Protocol.name(merged, "writerFeatures", askedOfWriters ++ other.askedOfWriters)
    Protocol(merged)
  }

  /** With these and no other writer features named. */
  def withWriterFeatures(features: Set[String]): Protocol = {
    val changed = body.deepCopy().put("minWriterVersion", Protocol.NamedFeatures)
    Protocol.name(changed, "writerFeatures", features)
    Protocol(changed)
  }

  /** With these versions, and no features named. */
  def withVersions(reader: Int, writer: Int): Protocol = Protocol(
    Json.obj().put("minReaderVersion", reader).put("minWriterVersion", writer)
  )

  def sameAs(other: Protocol): Boolean =
    minReader == other.minReader && minWriter == other.minWriter &&
      readerFeatures == other.readerFeatures && writerFeatures == other.writerFeatures
}

object Protocol {

  /** The writer version from which a protocol names its features. */
  private val NamedFeatures = 7

  private def name(body: ObjectNode, field: String, features: Set[String]): Unit = {
    val names = body.putArray(field)
    features.toVector.sorted.foreach(f => names.add(f))
  }

  /** What a protocol without feature names asks of writers. Source: Delta's PROTOCOL.md. */
  def impliedForWriters(reader: Int, writer: Int): Set[String] =
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
}

final case class SetTransaction(body: ObjectNode) extends Action {
  override def kind: String = "txn"
  def appId: String = required("appId")
  def version: Long = long("version").getOrElse(0L)
}

object SetTransaction {
  def apply(appId: String, version: Long, lastUpdatedMs: Long): SetTransaction =
    SetTransaction(
      Json.obj().put("appId", appId).put("version", version).put("lastUpdated", lastUpdatedMs)
    )
}

final case class DomainMetadata(body: ObjectNode) extends Action {
  override def kind: String = "domainMetadata"
  def domain: String = required("domain")
  def removed: Boolean = flag("removed", default = false)
  def configuration: String = string("configuration").getOrElse("{}")
}

object DomainMetadata {

  /** The domain in which row tracking keeps its high-water mark; every data commit writes it. */
  val RowTracking = "delta.rowTracking"
}

final case class CommitInfo(body: ObjectNode) extends Action {
  override def kind: String = "commitInfo"
  def operation: Option[String] = string("operation")

  /** That of the one statement, or those that the commit of a transaction sums up. */
  def operations: Vector[String] = operation.toVector.flatMap { one =>
    val summed = body.path(CommitInfo.Parameters).path(CommitInfo.Statements)
    if (one != CommitInfo.Summary || !summed.isTextual) Vector(one)
    else Json.texts(summed.asText).getOrElse(Vector(one))
  }

  def user: Option[String] = string("userName").orElse(string("userId"))
  def timestampMs: Option[Long] = long("timestamp")
  def inCommitTimestampMs: Option[Long] = long("inCommitTimestamp")
  def isBlindAppend: Boolean = flag("isBlindAppend", default = false)

  /** A MERGE that changed no row, of whose files Delta's change feed shows nothing for that reason. */
  def isIdleMerge: Boolean = operation.contains("MERGE") &&
    Seq("Inserted", "Updated", "Deleted").forall { rows =>
      body.path("operationMetrics").path(s"numTargetRows$rows").asText == "0"
    }

  /** Our mark, when this commit is one of ours. */
  def mark: Option[CommitMark] =
    Option(
      body.get(CommitMark.Field)
    ).collect { case o: ObjectNode => o }.flatMap(CommitMark.decode)
}

object CommitInfo {

  /** The operation of a commit that sums several statements up. */
  val Summary = "TRANSACTION"

  val Parameters = "operationParameters"

  /** The parameter that holds the operations of the statements. */
  val Statements = "statements"

  /** Whether a statement brings back files of an earlier version: Delta's RESTORE, and our own. */
  def isRestore(operation: String): Boolean = operation.equalsIgnoreCase(Restore)

  /** REVERT writes so, too. */
  val Restore = "RESTORE"
}

/** A kind of action that this code has no rule for. */
final case class Other(kind: String, body: ObjectNode) extends Action

object Action {

  /** The action of one line; throws `IOException` for a line that is none. */
  def parse(line: String): Action = of(Json.parse(line))

  def of(line: ObjectNode): Action = {
    val fields = line.fieldNames
    if (!fields.hasNext) throw new java.io.IOException("a line without an action")
    val kind = fields.next()
    val body = line.get(kind) match {
      case o: ObjectNode => o
      case _ => throw new java.io.IOException(s"the action $kind is not an object")
    }
    kind match {
      case "add" => AddFile(body)
      case "remove" => RemoveFile(body)
      case "cdc" => ChangeFile(body)
      case "metaData" => MetaData(body)
      case "protocol" => Protocol(body)
      case "txn" => SetTransaction(body)
      case "domainMetadata" => DomainMetadata(body)
      case "commitInfo" => CommitInfo(body)
      case other => Other(other, body)
    }
  }
}
