package io.lakestep.log

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json
import io.lakestep.commit.Lake

/** Which files one may replace, and that it holds the same rows. */
class SmallFilesSuite extends AnyFunSuite {
  private val lake = Lake.inMemory()
  import lake.{commitInfo, remove}

  private val table = TableRef("file:/t")

  private def add(
      name: String,
      rows: Long = 10,
      size: Long = 100,
      partition: String = "1",
      ids: Option[Long] = None): AddFile = {
    val body = lake.add(name, rows = rows).body.deepCopy().put("size", size)
    body.putObject("partitionValues").put("p", partition)
    ids.foreach(body.put("baseRowId", _).put("defaultRowCommitVersion", 5L))
    AddFile(body)
  }

  private def changes(actions: Action*) =
    NetChanges("tx", "t", 4, Vector(NetPart(commitInfo("WRITE"), actions.toVector)), None)

  private def groups(net: NetChanges, others: String*): Vector[Vector[String]] =
    SmallFiles.of(
      table,
      net,
      net.adds.map(_.path).filterNot(others.toSet).map(table.dataFile).toSet
    )
      .map(_.map(_.path))

  test("several files of one partition, each partition for itself") {
    val net = changes(
      add("a"),
      add("b", partition = "2"),
      add("c"),
      add("d", partition = "2"),
      add("e", partition = "3")
    )
    assert(groups(net).map(_.sorted) == Vector(Vector("a", "c"), Vector("b", "d")))
  }

  test("only what the transaction has written, and added") {
    assert(groups(changes(add("a"), add("b"), add("x")), "x") == Vector(Vector("a", "b")))
    val kept = changes(remove("a"), add("a"), add("b"), add("c"))
    assert(groups(kept) == Vector(Vector("b", "c")))
    val rearranged = AddFile(add("b").body.deepCopy().put("dataChange", false))
    assert(groups(changes(add("a"), rearranged)).isEmpty)
  }

  test("together under 16 MiB, with a known number of rows, and some of them live") {
    assert(groups(changes(add("a", size = 8L << 20), add("b", size = (8L << 20) - 1))).size == 1)
    assert(groups(changes(add("a", size = 8L << 20), add("b", size = 8L << 20))).isEmpty)
    def pair(partition: String, size: Long) =
      Seq("a", "b").map(name => add(s"$name$partition", size = size, partition = partition))
    val several = pair("1", 5L << 20) ++ pair("2", 1L << 20) ++ pair("3", 4L << 20)
    assert(groups(changes(several: _*)) == Vector(Vector("a2", "b2"), Vector("a3", "b3")))
    // A large one stays as it is, and the small ones of its partition do not wait for it.
    val beside = changes(add("a"), add("large", size = 20L << 20), add("b"), add("c"))
    assert(groups(beside) == Vector(Vector("a", "b", "c")))
    val unknown = AddFile(
      add("b").body.deepCopy().without[com.fasterxml.jackson.databind.node.ObjectNode]("stats")
    )
    assert(groups(changes(add("a"), unknown)).isEmpty)
    assert(groups(changes(add("a"), add("b", rows = 0))).isEmpty)
  }

  test("none where several commits are published, or rows keep their ids") {
    val part = NetPart(commitInfo("WRITE"), Vector(add("a"), add("b")))
    assert(groups(NetChanges("tx", "t", 4, Vector(part, part), None)).isEmpty)
    assert(groups(changes(add("a"), add("b")).copy(bakesRows = true)).isEmpty)
    val tracked = Seq(add("a", ids = Some(9)), add("b", ids = Some(19)))
    assert(groups(changes(tracked: _*)).size == 1)
    assert(groups(changes(remove("old") +: tracked: _*)).isEmpty)
    assert(groups(changes(remove("old"), add("a"), add("b"))).size == 1)
  }

  test("one file stands in place of its group, with row ids to be moved") {
    val group = Vector(add("a", ids = Some(19)), add("c", ids = Some(9)))
    val net = changes(add("z", size = 1L << 30), group(0), group(1))
    val replaced =
      SmallFiles.replace(net, Vector(group), Vector(add("n", rows = 20))).get
    assert(replaced.adds.map(_.path) == Vector("z", "n"))
    assert(replaced.adds.last.baseRowId.contains(9L))
    assert(replaced.adds.last.defaultRowCommitVersion.contains(5L))
  }

  test("nothing is replaced by what does not hold the same rows") {
    val group = Vector(add("a"), add("b"))
    val net = changes(group: _*)
    val wrong = Seq(
      Vector.empty,
      Vector(add("n", rows = 19)),
      Vector(add("n", rows = 20, partition = "2")),
      Vector(add("n", rows = 20), add("m", rows = 20)),
      Vector(add("n"), add("m")),
      Vector(AddFile(add("n", rows = 20).body.deepCopy().put("stats", "{}")))
    )
    for (by <- wrong) assert(SmallFiles.replace(net, Vector(group), by).isEmpty, by)
  }

  test("rows that a deletion vector hides are not counted, nor are replaced files") {
    val hidden = AddFile(
      add("a").body.deepCopy().set("deletionVector", Json.parse("""{"cardinality":3}"""))
    )
    val net = changes(hidden, add("b"))
    val info =
      CommitInfo(Json.parse("""{"operation":"WRITE","operationMetrics":{"numFiles":"2"}}"""))
    val counted = net.copy(parts = net.parts.map(_.copy(info = info)))
    val replaced =
      SmallFiles.replace(counted, Vector(Vector(hidden, add("b"))), Vector(add("n", rows = 17))).get
    assert(replaced.parts.head.info.body.path("operationMetrics").path("numFiles").asText == "1")
  }
}
