package io.lakestep.log

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LakestepException}
import io.lakestep.commit.Lake

final class FlattenSuite extends AnyFunSuite {
  private val lake = Lake.inMemory()
  import lake.{add, commitInfo, domain, metaData, protocol, remove, txn}

  private val table = Flatten.Table("t", TableRef("/t"), 4, rowTracking = false, None)

  private def flat(commits: Seq[Action]*): NetChanges = flatIn(table)(commits: _*)

  private def flatIn(table: Flatten.Table)(commits: Seq[Action]*): NetChanges =
    Flatten(
      "tx",
      table,
      commits.toVector.zipWithIndex.map { case (c, i) => LogCommit(5L + i, c.toVector) }
    )

  private def files(net: NetChanges): Vector[String] = net.actions.collect {
    case f: FileAction => s"${f.kind} ${f.path}${f.dvId.fold("")(d => s"@$d")}"
  }

  private def refusal(commits: Seq[Action]*): String = refusalIn(table)(commits: _*)
  private def refusalIn(table: Flatten.Table)(commits: Seq[Action]*): String = {
    val e = intercept[LakestepException](flatIn(table)(commits: _*))
    assert(e.getSqlState == "0A000")
    e.getCondition
  }
  private def cdc(path: String) = ChangeFile(Json.obj().put("path", path))

  test("an added file that is removed again is in neither list") {
    assert(files(flat(Seq(add("x")), Seq(remove("x"), add("y")))) == Vector("add y"))
    assert(flat(Seq(add("x")), Seq(remove("x"))).isEmpty)
  }

  test("a base file with two new deletion vectors: one remove of the first, one add of the last") {
    val net = flat(
      Seq(remove("b"), add("b", Some("d1"))),
      Seq(remove("b", Some("d1")), add("b", Some("d2")))
    )
    assert(files(net) == Vector("remove b", "add b@ud2"))
  }

  test("a base file that is removed and added back as it was: nothing") {
    assert(flat(Seq(remove("b")), Seq(add("b"))).isEmpty)
  }

  test("a file of ours with a deletion vector of ours: one add") {
    assert(files(flat(Seq(add("x")), Seq(remove("x"), add("x", Some("d"))))) == Vector("add x@ud"))
  }

  test("last metadata, union of protocols, last txn and domain win") {
    val net = flat(
      Seq(metaData("i", "one"), protocol("f1"), txn("app", 1), domain("d", "1")),
      Seq(metaData("i", "two"), protocol("f2"), txn("app", 2), domain("d", "2"), add("x"))
    )
    val part = net.parts.head
    assert(part.metaData.contains(metaData("i", "two")))
    assert(part.protocol.flatMap(_.writerFeatures).contains(Set("f1", "f2")))
    assert(
      part.txns.map(_.version) == Vector(2L) && part.domains.map(_.configuration) == Vector("2")
    )
  }

  test(
    "metadata and protocol that are those of the pin are left out; an unknown domain's removal too"
  ) {
    val pinned = PinnedHeader(metaData("i"), protocol("fence", "f"), Set("known"))
    val gone =
      DomainMetadata(Json.obj().put("domain", "new").put("configuration", "").put("removed", true))
    val net = flatIn(table.copy(pinned = Some(pinned)))(
      Seq(protocol("f")),
      Seq(metaData("i"), domain("new", "1")),
      Seq(gone, add("x"))
    )
    assert(net.actions.map(_.kind) == Vector("add"))
  }

  test("one statement keeps its commitInfo; several are summed up") {
    def metrics(op: String, rows: String) = {
      val body = commitInfo(op, blind = op == "WRITE").body
      body.putObject("operationMetrics").put("numOutputRows", rows).put("executionTimeMs", "7")
      CommitInfo(body)
    }
    val one = flat(Seq(metrics("UPDATE", "2"), remove("b"), add("x"))).parts.head.info
    assert(one.operation.contains("UPDATE") && !one.isBlindAppend && one.body.get(
      "readVersion"
    ).asLong == 4)
    val two = flat(
      Seq(metrics("WRITE", "2"), add("x")),
      Seq(metrics("WRITE", "3"), add("y"))
    ).parts.head.info
    assert(two.operation.contains("TRANSACTION") && two.isBlindAppend)
    assert(two.body.path("operationMetrics").get("numOutputRows").asText == "5")
    assert(!two.body.path("operationMetrics").has("executionTimeMs"))
    assert(!flat(
      Seq(metrics("WRITE", "2"), add("x")),
      Seq(metrics("DELETE", "3"), remove("b"))
    ).parts.head.info.isBlindAppend)
  }

  test("what no commit can say is refused") {
    def combination(reason: String) = s"LAKESTEP_UNSUPPORTED_COMBINATION.$reason"
    assert(refusal(Seq(Other("sidecar", Json.obj()))) == combination("UNKNOWN_ACTION"))
    val uncounted = AddFile(Json.obj().put("path", "x").put("baseRowId", 3))
    assert(refusalIn(table.copy(rowTracking = true))(Seq(uncounted)) == combination("ROW_COUNT"))
  }

  private def parts(net: NetChanges): Vector[Vector[String]] =
    net.parts.map(p => files(NetChanges("", "", 0, Vector(p), None)))

  test("what one commit cannot say is said by several, and by no more than that") {
    val update = Seq(remove("b"), add("y"), cdc("c"))
    assert(parts(flat(Seq(add("w")), Seq(add("x")), update, Seq(add("z")))) ==
      Vector(Vector("add w", "add x"), Vector("remove b", "add y"), Vector("add z")))
    val rearranged = Seq(remove("b", dataChange = false), add("y", dataChange = false))
    assert(parts(flat(Seq(add("x")), rearranged)) ==
      Vector(Vector("add x"), Vector("remove b", "add y")))
  }

  test("each part stands on the header of the one before") {
    val pinned = PinnedHeader(metaData("i"), protocol("f"), Set("known"))
    val gone =
      DomainMetadata(Json.obj().put("domain", "new").put("configuration", "").put("removed", true))
    val net = flatIn(table.copy(pinned = Some(pinned)))(
      Seq(metaData("i", "two"), domain("new", "1")),
      Seq(remove("b"), add("y"), cdc("c")),
      Seq(metaData("i"), gone, remove("y"), add("z"), cdc("d"))
    )
    assert(net.parts.map(_.actions.map(_.kind)) == Vector(
      Vector("metaData", "domainMetadata", "remove", "add", "cdc"),
      Vector("metaData", "domainMetadata", "remove", "add", "cdc")
    ))
    assert(net.before.contains(pinned))
  }

  test(
    "row ids that stand inside files keep each commit, those that do nothing too, at its version"
  ) {
    val tracking = table.copy(rowTracking = true, rowIdHighWaterMark = Some(9))
    def row(path: String, id: Long, dv: Option[String] = None) = {
      val body = add(path, dv).body.put("baseRowId", id).put("stats", """{"numRecords":1}""")
      AddFile(body)
    }
    val alone = flatIn(tracking)(Seq(row("x", 10)), Seq(remove("b"), row("y", 11)))
    assert(alone.parts.size == 1 && !alone.bakesRows)
    // The vector of an older file holds no row.
    val twice = flatIn(tracking)(
      Seq(remove("b"), row("b", 3, Some("d1"))),
      Seq(remove("b", Some("d1")), row("b", 3, Some("d2")))
    )
    assert(twice.parts.size == 1 && !twice.bakesRows)
    val baked = flatIn(tracking)(
      ForeignWriters.staging(protocol(), None),
      Seq(row("x", 10)),
      Seq(commitInfo("DELETE")),
      Seq(remove("x"), row("y", 11))
    )
    assert(baked.bakesRows && parts(baked) ==
      Vector(Vector(), Vector("add x"), Vector(), Vector("remove x", "add y")))
  }

  test("of a new table all rows are new") {
    val made = table.copy(pin = -1)
    val net = flatIn(made)(
      Seq(protocol(), metaData("i")),
      Seq(add("x")),
      Seq(remove("x"), add("y"), cdc("c")),
      Seq(remove("y", dataChange = false), add("z", dataChange = false))
    )
    assert(net.parts.size == 1 && net.actions.map(_.kind) == Vector("protocol", "metaData", "add"))
    assert(net.adds.forall(_.dataChange))
  }

  test("one data statement with change files, beside metadata, is allowed") {
    assert(flat(Seq(metaData("i")), Seq(remove("b"), add("y"), cdc("c"))).actions.size == 4)
  }

  test("the overlay's own path is never published, but may stand in data") {
    assert(refusal(Seq(add("lakestep://4/file/_/t/x"))) ==
      "LAKESTEP_UNSUPPORTED_COMBINATION.OVERLAY_PATH")
    val harmless = AddFile(add("x").body.put("stats", """{"minValues":{"c":"lakestep://4"}}"""))
    assert(files(flat(Seq(harmless))) == Vector("add x"))
  }

  test("net actions round-trip, and their hash does not depend on order") {
    val pinned = PinnedHeader(metaData("i"), protocol(), Set.empty)
    val net = flatIn(table.copy(pinned =
      Some(pinned)
    ))(Seq(commitInfo("W"), metaData("i", "new"), add("x"), add("y")))
    val back = NetChanges.decode("f", net.encode)
    assert(back.hash == net.hash && back.encode.sameElements(net.encode) && back.before.map(
      _.metaData
    ).contains(metaData("i")))
    assert(flat(Seq(add("x"), add("y"))).hash == flat(Seq(add("y"), add("x"))).hash)
    assert(flat(Seq(add("x"))).hash != flat(Seq(add("y"))).hash)
    val e = intercept[LakestepException](NetChanges.decode("f", net.encode.dropRight(30)))
    assert(e.getCondition == "LAKESTEP_LOG_CORRUPT")
  }

  test("several commits may be kept as parts") {
    val commits =
      Vector(LogCommit(5, Vector(add("x"))), LogCommit(6, Vector(remove("x"), add("y"))))
    val net = Flatten.keepingCommits("tx", table, commits)
    assert(net.parts.map(_.actions.size) == Vector(1, 2))
  }

  test("data files and deletion vectors are found") {
    assert(TableRef("file:/a%20b").dataFile("c%20d") == "file:/a%20b/c%20d")
    assert(TableRef("/a b").dataFile("c%20d") == "/a b/c d")
    assert(TableRef("/a").dataFile("s3://b/c") == "s3://b/c")
    val dv = Json.obj().put("storageType", "u").put("pathOrInlineDv", "ab^-aqEH.-t@S}K{vb[*k^")
    assert(TableRef("/t").deletionVectorFile(dv).contains(
      "/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    ))
  }
}
