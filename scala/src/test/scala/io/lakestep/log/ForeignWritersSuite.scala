package io.lakestep.log

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LakestepException}
import io.lakestep.commit.Lake

/** The header that a transaction publishes for a table with `lakestep.foreignWriters`. */
final class ForeignWritersSuite extends AnyFunSuite {
  private val lake = Lake.inMemory()
  import lake.add

  private val Closed = Map(ForeignWriters.Property -> "forbid")

  private def protocol(reader: Int, writer: Int, features: String*): Protocol = {
    val plain = Protocol(Json.obj().put("minReaderVersion", reader).put("minWriterVersion", writer))
    if (writer < 7) plain else plain.withWriterFeatures(features.toSet)
  }

  private def metaData(properties: Map[String, String]): MetaData =
    properties.foldLeft(MetaData(Json.obj().put("id", "i"))) { case (m, (key, value)) =>
      m.withProperty(key, Some(value))
    }

  private def commit(operation: String, actions: Action*): LogCommit =
    LogCommit(5, CommitInfo(Json.obj().put("operation", operation)) +: actions.toVector)

  private def commit(operation: String, named: String, actions: Action*): LogCommit = {
    val info = Json.obj().put("operation", operation)
    info.putObject("operationParameters").put("properties", named)
    LogCommit(5, CommitInfo(info) +: actions.toVector)
  }

  /** SET of these properties, among others that the table has then. */
  private def set(properties: Map[String, String], others: Map[String, String] = Map.empty) = {
    val named = properties.map { case (key, value) => s""""$key":"$value"""" }
    commit("SET TBLPROPERTIES", named.mkString("{", ",", "}"), metaData(others ++ properties))
  }

  private def unset(left: Map[String, String] = Map.empty) =
    commit("UNSET TBLPROPERTIES", s"""["${ForeignWriters.Property}"]""", metaData(left))

  private def header(pinned: PinnedHeader, staged: LogCommit*): PinnedHeader = {
    val net =
      Flatten(
        "tx",
        Flatten.Table("t", TableRef("/t"), 4, rowTracking = false, Some(pinned)),
        staged.toVector
      )
    pinned.copy(
      protocol = net.parts.flatMap(_.protocol).headOption.getOrElse(pinned.protocol),
      metaData = net.parts.flatMap(_.metaData).headOption.getOrElse(pinned.metaData)
    )
  }

  private def open(p: Protocol, properties: Map[String, String] = Map.empty) =
    PinnedHeader(metaData(properties), p, Set.empty)

  private def features(p: Protocol) = p.writerFeatures.getOrElse(Set.empty)

  test("closing names every feature that the versions imply, and opening forgets them") {
    val implied = Map(
      (1, 1) -> Set.empty[String],
      (1, 2) -> Set("appendOnly", "invariants"),
      (1, 4) ->
        Set("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
      (2, 5) -> Set(
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping"
      )
    )
    for (((reader, writer), named) <- implied) {
      val before = open(protocol(reader, writer), Map("my.note" -> "kept"))
      val closed = header(before, set(Closed + ("my.note" -> "kept")))
      assert(features(closed.protocol) == named + ForeignWriters.Feature)
      assert(closed.protocol.minReader == reader && closed.protocol.minWriter == 7)
      val opened = header(closed, unset(Map("my.note" -> "kept")))
      assert(opened.protocol.sameAs(before.protocol) && opened.metaData == before.metaData)
    }
  }

  test("a protocol that names its features keeps them") {
    val before = open(protocol(1, 7, "appendOnly", "rowTracking"))
    val closed = header(before, set(Closed))
    assert(features(closed.protocol) == Set("appendOnly", "rowTracking", ForeignWriters.Feature))
    assert(header(closed, unset()).protocol.sameAs(before.protocol))
  }

  test("a feature that Delta says by a version alone is named among the others") {
    val constrained = Set("appendOnly", "invariants", "checkConstraints")
    val closed = header(open(protocol(1, 2)), set(Closed))
    // What Delta makes of (1, 7) with these features.
    val added = header(closed, commit("ADD CONSTRAINT", closed.metaData, protocol(1, 3)))
    assert(features(added.protocol) == constrained + ForeignWriters.Feature)
    assert(features(header(added, unset()).protocol) == constrained)
    val named = open(protocol(1, 7, "appendOnly", "invariants"))
    val other = header(named, commit("ADD CONSTRAINT", protocol(1, 3)))
    assert(features(other.protocol) == constrained)
    val vectors = protocol(3, 7, "appendOnly", "deletionVectors")
    vectors.body.putArray("readerFeatures").add("deletionVectors")
    val mapped = header(open(vectors), commit("SET TBLPROPERTIES", protocol(2, 5))).protocol
    assert(mapped.readerFeatures.contains(Set("columnMapping", "deletionVectors")))
    assert(Set("columnMapping", "generatedColumns", "deletionVectors").subsetOf(features(mapped)))
  }

  test("a feature that was switched on while the table was closed stays when it is opened") {
    val closed = header(open(protocol(1, 2)), set(Closed))
    val more = ForeignWriters.unfenced(closed.protocol)
    val wider = header(
      closed,
      commit(
        "SET TBLPROPERTIES",
        closed.metaData,
        more.withWriterFeatures(features(more) + "domainMetadata")
      )
    )
    assert(ForeignWriters.isFenced(wider.protocol))
    val opened = header(wider, unset())
    assert(features(opened.protocol) == Set("appendOnly", "invariants", "domainMetadata"))
    assert(opened.metaData.properties.isEmpty)
  }

  test("only SET and UNSET TBLPROPERTIES change the mode") {
    val closed = header(open(protocol(1, 2)), set(Closed))
    for (operation <- Seq("RESTORE", "ADD COLUMNS", "WRITE", "REPLACE TABLE AS SELECT")) {
      val after = header(closed, commit(operation, metaData(Map("x" -> operation))))
      assert(ForeignWriters.isFenced(after.protocol))
      assert(after.metaData.properties - "x" == closed.metaData.properties)
      val still = header(open(protocol(1, 2)), commit(operation, metaData(Closed)))
      assert(!ForeignWriters.isFenced(still.protocol) && still.metaData.properties.isEmpty)
    }
    val both = header(closed, unset(), set(Closed), commit("WRITE", add("x")))
    assert(both.protocol.sameAs(closed.protocol) && both.metaData == closed.metaData)
  }

  test("without commitInfo the mode is that of the metadata") {
    def bare(properties: Map[String, String]) = LogCommit(5, Vector(metaData(properties)))
    val closed = header(open(protocol(1, 2)), bare(Closed))
    assert(ForeignWriters.isFenced(closed.protocol))
    assert(!ForeignWriters.isFenced(header(closed, bare(Map.empty)).protocol))
  }

  test("versions from before that nobody can read are left out") {
    val closed = header(open(protocol(1, 2)), set(Closed))
    val garbled = closed.copy(metaData =
      closed.metaData.withProperty("lakestep.protocolBefore", Some("one, two"))
    )
    val opened = header(garbled, unset())
    assert(!ForeignWriters.isFenced(opened.protocol) && opened.protocol.minWriter == 7)
  }

  test("versions that an open copy of a closed table was given count for nothing") {
    val named = protocol(1, 7, "appendOnly", "invariants")
    val copy = open(named, Map("lakestep.protocolBefore" -> "1,2"))
    val closed = header(copy, set(Closed))
    assert(closed.metaData.properties == Closed)
    assert(header(closed, unset()).protocol.sameAs(named))
    assert(header(copy, set(Map("x" -> "y"))).metaData.properties == Map("x" -> "y"))
  }

  test("a statement about other properties keeps the mode, whatever one before it restored") {
    val closed = header(open(protocol(1, 2)), set(Closed))
    val other = Map("my.note" -> "new")
    val stillClosed = header(closed, commit("RESTORE", metaData(Map.empty)), set(other))
    assert(ForeignWriters.isFenced(stillClosed.protocol))
    assert(stillClosed.metaData.property(ForeignWriters.Property).contains("forbid"))
    val stillOpen =
      header(open(protocol(1, 2)), commit("RESTORE", metaData(Closed)), set(other, Closed))
    assert(!ForeignWriters.isFenced(stillOpen.protocol))
    assert(stillOpen.metaData.properties == other)
    val asked = header(open(protocol(1, 2)), commit("RESTORE", metaData(Closed)), set(Closed))
    assert(ForeignWriters.isFenced(asked.protocol))
  }

  test("of two spellings the one that the statement names counts") {
    val closed = header(open(protocol(1, 2)), set(Closed))
    val opened =
      header(
        closed,
        set(Map("LAKESTEP.foreignwriters" -> "allow", "a.b" -> "c", "d" -> "e"), Closed)
      )
    assert(!ForeignWriters.isFenced(opened.protocol))
    assert(opened.metaData.property(ForeignWriters.Property).contains("allow"))
  }

  test("the commit that lets statements through is never published") {
    val closed = header(open(protocol(1, 2)), set(Closed))
    val staging = LogCommit(5, ForeignWriters.staging(closed.protocol, Some(7L)))
    assert(!staging.actions.collect { case p: Protocol => p }.exists(ForeignWriters.isFenced))
    val table = Flatten.Table("t", TableRef("/t"), 4, rowTracking = false, Some(closed))
    assert(Flatten("tx", table, Vector(staging)).isEmpty)
    val net = Flatten("tx", table, Vector(staging, commit("WRITE", add("x")).copy(version = 6)))
    assert(net.actions.map(_.kind) == Vector("add"))
    assert(net.parts.head.info.operation.contains("WRITE"))
  }

  test("the mode is read whatever its letters, and another one is refused") {
    val spelled = header(open(protocol(1, 2)), set(Map("LAKESTEP.foreignwriters" -> " Forbid ")))
    assert(ForeignWriters.isFenced(spelled.protocol))
    assert(spelled.metaData.property(ForeignWriters.Property).contains("forbid"))
    val e = intercept[LakestepException] {
      header(open(protocol(1, 2)), set(Map(ForeignWriters.Property -> "never")))
    }
    assert(e.getCondition == "LAKESTEP_FOREIGN_WRITERS_INVALID")
  }
}
