package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{
  Action, CommitInfo, CommitMark, ForeignWriters, JsonStates, LogCommit, MarkKind, StateMark,
  TableLog
}
import io.lakestep.timeline.{CommitEntry, EntryTable, Rule}

/** Rollbacks in which the logs moved on between two steps. */
final class UndoSuite extends AnyFunSuite {

  private class Scene(rewriteA: Boolean) extends TwoTables(rewriteA) {
    def last(table: String): LogCommit = lake.log(table).read(lake.head(table)).getOrElse(fail())

    def stamps(properties: (String, String)*): Unit = {
      lake.foreign("B", lake.metaData("id-B", properties = properties.toMap))
      ()
    }
  }

  private def crashed(body: => Any): Unit = { intercept[Crash] { body; () }; () }

  private val crashWhenOrdered = new CommitSteps {
    override def ordered(entry: CommitEntry): Unit = throw new Crash
  }

  private val strict = new ConflictRules {
    override def version: Int = 99
    override def check(ours: OurChanges, theirs: LogCommit): Option[Finding] =
      Some(Finding(Rule.Other("strict"), Vector.empty))
  }

  test("a CLOSE that lands in a deleted slot does not settle the publish above it") {
    val s = new Scene(rewriteA = false)
    crashed(s.run(crashWhenOrdered))
    s.lake.foreign("B", s.lake.add("f"))
    val path = s.lake.path("A")
    val meanwhile = Once {
      s.lake.foreign("A", s.lake.add("f"))
      // A helper by other rules that has not heard of the decision, and dies after its publish.
      val late = s.lake.client()
      val entry = late.timeline.refresh().unfinished.head
      val env = s.lake.environment(late)
      new Publish(env)(entry, 0, env.changes(entry, entry.tables.head), isAtHead = false)
      JsonStates.cleanUp(s.lake.store, path.uri)
      ()
    }
    val helper = s.lake.client(
      new CommitSteps {
        override def beforeSettle(e: CommitEntry, t: EntryTable, slot: Long): Unit =
          if (t.name == "A") meanwhile()
      },
      options = DatabaseOptions(syncDataFiles = false, rules = strict)
    )
    assert(helper.recover().failed.isEmpty)
    assert(s.lake.live("A") == Set("a1", "f"))
    val state = s.lake.states.stateAt(path, s.lake.head("A"))
    val mark = state.txnVersion(CommitMark.appId(helper.timeline.id, "id-A")).map(StateMark.of)
    assert(mark.map(_.status.code).contains(3), mark)
  }

  test("a CLOSE that lands in a deleted slot is put again, where the table's state keeps it") {
    val s = new Scene(rewriteA = false)
    crashed(s.run(crashWhenOrdered))
    s.lake.foreign("B", s.lake.add("f"))
    val path = s.lake.path("A")
    val meanwhile = Once {
      Seq("f", "g").foreach(f => s.lake.foreign("A", s.lake.add(f)))
      JsonStates.cleanUp(s.lake.store, path.uri)
      ()
    }
    val helper = s.lake.client(
      new CommitSteps {
        override def beforeSettle(e: CommitEntry, t: EntryTable, slot: Long): Unit =
          if (t.name == "A") meanwhile()
      },
      options = DatabaseOptions(syncDataFiles = false, rules = strict)
    )
    assert(helper.recover().failed.isEmpty)
    val state = s.lake.states.stateAt(path, s.lake.head("A"))
    val mark = state.txnVersion(CommitMark.appId(helper.timeline.id, "id-A")).map(StateMark.of)
    assert(s.lake.head("A") == 3 && mark.map(_.status.code).contains(2), mark)
  }

  test("what others built upon is kept whole also where the log was cleaned up before the undo") {
    val s = new Scene(rewriteA = true)
    crashed(s.run(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") throw new Crash
    }))
    s.lake.foreign("A", s.lake.remove("a2"), s.lake.add("f"))
    s.lake.foreign("B", s.lake.remove("b1"))
    JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
    s.lake.client().recover().finished match {
      case Vector((_, Finished.RolledBack(_, residue))) => assert(residue.nonEmpty)
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == Set("f") && s.lake.live("B").isEmpty)
  }

  test("what nobody built upon is undone also where the log was cleaned up before") {
    val s = new Scene(rewriteA = true)
    s.lake.file("A", "a1")
    crashed(s.run(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") throw new Crash
    }))
    s.lake.foreign("A", s.lake.add("f"))
    s.lake.foreign("B", s.lake.remove("b1"))
    JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
    s.lake.client().recover().finished match {
      case Vector((_, Finished.RolledBack(_, residue))) => assert(residue.isEmpty)
      case other => fail(other.toString)
    }
    assert(s.lake.live("A") == Set("a1", "f"))
  }

  test("a removed file that a VACUUM took meanwhile does not come back") {
    for (cleaned <- Seq(false, true)) {
      val s = new Scene(rewriteA = true)
      crashed(s.run(new CommitSteps {
        override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
          if (t.name == "A") throw new Crash
      }))
      s.lake.store.delete(s"${s.lake.path("A")}/a1")
      s.lake.foreign("A", s.lake.add("f"))
      s.lake.foreign("B", s.lake.remove("b1"))
      if (cleaned) JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
      s.lake.client().recover().finished match {
        case Vector((_, Finished.RolledBack(_, residue))) => assert(residue.contains("A: a1"))
        case other => fail(other.toString)
      }
      assert(s.lake.live("A") == Set("a2", "f"))
    }
  }

  test("an undo puts back metadata, protocol, domains and application transactions") {
    val lake = Lake.inMemory()
    lake.foreign(
      "A",
      lake.protocol("one"),
      lake.metaData("id-A", "old"),
      lake.domain("d", "old"),
      lake.txn("app", 1),
      lake.add("a1")
    )
    lake.create("B", "b1")
    val db = lake.client(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") { lake.foreign("B", lake.remove("b1")); () }
    })
    val txn = lake.begin(db)
    lake.stage(
      txn,
      "A",
      0,
      lake.protocol("one", "two"),
      lake.metaData("id-A", "new"),
      lake.domain("d", "new"),
      lake.domain("e", "new"),
      lake.txn("app", 2),
      lake.txn("other", 5)
    )
    lake.stage(txn, "B", 0, lake.remove("b1"), lake.add("b2"))
    val outcome = db.commit(txn, Seq("A", "B").map(lake.written(_, 0)))
    assert(outcome.isInstanceOf[CommitOutcome.Conflicted] && lake.head("A") == 2)
    val (before, after) =
      (lake.states.stateAt(lake.path("A"), 0), lake.states.stateAt(lake.path("A"), 2))
    assert(after.metaData == before.metaData && after.protocol == before.protocol)
    assert(after.domain("d").map(_.configuration).contains("old") && after.domain("e").isEmpty)
    assert(after.txnVersion("app").contains(1L) && after.txnVersion("other").contains(-1L))
  }

  test("an opening that is undone puts the fence back with the property, whoever wrote meanwhile") {
    for (change <- Seq[Lake => Action](_.add("f"), _.protocol("domainMetadata"))) {
      val lake = Lake.inMemory()
      val closed = Map(ForeignWriters.Property -> "forbid", "lakestep.protocolBefore" -> "1,2")
      val fenced = lake.protocol("appendOnly", "invariants", ForeignWriters.Feature)
      lake.foreign("A", fenced, lake.metaData("id-A", properties = closed), lake.add("a1"))
      lake.create("B", "b1")
      switchAndUndo(
        lake,
        "UNSET TBLPROPERTIES" -> s"""["${ForeignWriters.Property}"]""",
        closed - ForeignWriters.Property,
        change(lake),
        // All that can still conflict once a closed table is published.
        lake.metaData("id-B", schema = "wider")
      )(lake.add("b2"))
      assert(!ForeignWriters.isFenced(lake.states.stateAt(lake.path("A"), 1).protocol))
      val after = lake.states.stateAt(lake.path("A"), lake.head("A"))
      assert(after.metaData.properties == closed)
      assert(ForeignWriters.isFenced(after.protocol))
    }
  }

  test("a closing that is undone takes the fence along, although somebody wrote in spite of it") {
    val lake = Lake.inMemory()
    Seq("A" -> "a1", "B" -> "b1").foreach { case (table, file) => lake.create(table, file) }
    switchAndUndo(
      lake,
      "SET TBLPROPERTIES" -> s"""{"${ForeignWriters.Property}":"forbid"}""",
      Map(ForeignWriters.Property -> "forbid"),
      lake.add("f"),
      lake.remove("b1")
    )(lake.remove("b1"), lake.add("b2"))
    assert(ForeignWriters.isFenced(lake.states.stateAt(lake.path("A"), 1).protocol))
    val after = lake.states.stateAt(lake.path("A"), lake.head("A"))
    assert(after.metaData.properties.isEmpty && !ForeignWriters.isFenced(after.protocol))
  }

  test("residue of an UNDO that was cleaned up before the end of the entry is not forgotten") {
    val s = new Scene(rewriteA = true)
    crashed(s.run(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") {
          s.lake.foreign("A", s.lake.remove("a2"), s.lake.add("f"))
          s.lake.foreign("B", s.lake.remove("b1"))
          ()
        }
      override def beforeRolledBack(entry: CommitEntry): Unit = throw new Crash
    }))
    s.lake.foreign("A", s.lake.add("g"))
    JsonStates.cleanUp(s.lake.store, s.lake.path("A").uri)
    s.lake.client().recover().finished match {
      case Vector((_, Finished.RolledBack(_, residue))) =>
        assert(residue.exists(_.startsWith("A:")))
      case other => fail(other.toString)
    }
  }

  /** Switches the mode of A and writes B; once A is published, others change A, and B in conflict. */
  private def switchAndUndo(
      lake: Lake,
      statement: (String, String),
      properties: Map[String, String],
      changeOfA: Action,
      conflictInB: Action)(writtenInB: Action*): Unit = {
    val meanwhile = Once {
      lake.foreign("A", changeOfA)
      lake.foreign("B", conflictInB)
      ()
    }
    val db = lake.client(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") meanwhile()
    })
    val txn = lake.begin(db)
    val (operation, named) = statement
    val info = lake.commitInfo(operation)
    info.body.putObject("operationParameters").put("properties", named)
    lake.stage(txn, "A", 0, info, lake.metaData("id-A", properties = properties))
    lake.stage(txn, "B", 0, writtenInB: _*)
    db.commit(txn, Seq("A", "B").map(lake.written(_, 0))) match {
      case CommitOutcome.LeftResidue(_, _, residue) => assert(residue == Vector("A: protocol"))
      case other => fail(other.toString)
    }
    ()
  }

  private def narrowed(schema: String) =
    schema.replace("\"metadata\"", "\"nullable\":false,\"metadata\"")

  /** A has columns; with its metadata. */
  private def withColumns(
      change: String => String = identity): (Lake, io.lakestep.log.MetaData) = {
    val lake = Lake.inMemory()
    val schema = Seq("id", "v").map(n => s"""{"name":"$n","type":"string","metadata":{}}""")
    val before =
      lake.metaData("id-A", change(schema.mkString("""{"type":"struct","fields":[""", ",", "]}")))
    lake.foreign("A", lake.protocol(), before, lake.add("a1"), lake.add("a2"))
    lake.file("A", "a1")
    lake.create("B", "b1")
    (lake, before)
  }

  /** Deletes a1 in A and rewrites b1 in B; others change the metadata of A, then conflict in B. */
  private def deletedUnder(later: io.lakestep.log.MetaData => io.lakestep.log.MetaData)
      : Lake = {
    val (lake, before) = withColumns()
    val db = lake.client(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") {
          lake.foreign("A", later(before))
          lake.foreign("B", lake.remove("b1"))
          ()
        }
    })
    val txn = lake.begin(db)
    lake.stage(txn, "A", 0, lake.remove("a1"))
    lake.stage(txn, "B", 0, lake.remove("b1"), lake.add("b2"))
    db.commit(txn, Seq("A", "B").map(lake.written(_, 0))) match {
      case _: CommitOutcome.Conflicted | _: CommitOutcome.LeftResidue => lake
      case other => fail(other.toString)
    }
  }

  private def changed(
      m: io.lakestep.log.MetaData,
      change: com.fasterxml.jackson.databind.node.ObjectNode => Any) = {
    val body = m.body.deepCopy()
    change(body)
    io.lakestep.log.MetaData(body)
  }

  test("removed files come back under a new column, not under other partitions or columns") {
    def schema(m: io.lakestep.log.MetaData)(change: String => String) =
      changed(m, b => b.put("schemaString", change(b.get("schemaString").asText)))
    val more = deletedUnder(schema(_)(_.replace(
      "]}",
      ",{\"name\":\"w\",\"type\":\"long\",\"metadata\":{}}]}"
    )))
    assert(more.live("A") == Set("a1", "a2"))
    val others = Seq[io.lakestep.log.MetaData => io.lakestep.log.MetaData](
      m => changed(m, _.putArray("partitionColumns").add("v")),
      schema(_)(_.replace("\"v\",\"type\":\"string\"", "\"v\",\"type\":\"long\"")),
      schema(_)(_.replace("\"v\"", "\"x\""))
    )
    others.foreach { change =>
      val lake = deletedUnder(change)
      assert(lake.live("A") == Set("a2"))
      val db = lake.client()
      db.describe(lake.firstTransaction) match {
        case TransactionStatus.RolledBack(_, _, residue) => assert(residue == Vector("A: a1"))
        case other => fail(other.toString)
      }
    }
  }

  test("metadata is not taken from under what others wrote with it") {
    def isLeft(
        schema: String => String,
        theirs: Boolean,
        first: String => String = identity): Boolean = {
      val (lake, before) = withColumns(first)
      val altered =
        changed(before, b => b.put("schemaString", schema(b.get("schemaString").asText)))
      val db = lake.client(new CommitSteps {
        override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
          if (t.name == "A") {
            if (theirs) lake.foreign("A", lake.add("f"))
            lake.foreign("B", lake.remove("b1"))
            ()
          }
      })
      val txn = lake.begin(db)
      lake.stage(txn, "A", 0, altered)
      lake.stage(txn, "B", 0, lake.remove("b1"))
      val left = db.commit(txn, Seq("A", "B").map(lake.written(_, 0))) match {
        case CommitOutcome.LeftResidue(_, _, residue) => residue == Vector("A: metadata")
        case CommitOutcome.Conflicted(_, Some(_)) => false
        case other => fail(other.toString)
      }
      val now = lake.states.stateAt(lake.path("A"), lake.head("A")).metaData
      assert(now.body == (if (left) altered else before).body)
      left
    }
    def widened(s: String) =
      s.replace("]}", ",{\"name\":\"w\",\"type\":\"long\",\"metadata\":{}}]}")
    assert(!isLeft(widened, theirs = false) && isLeft(widened, theirs = true))
    assert(!isLeft(narrowed, theirs = true))
    // What they wrote may hold nulls.
    def nullable(s: String) = s.replace("\"nullable\":false,", "")
    assert(isLeft(nullable, theirs = true, narrowed) && !isLeft(nullable, theirs = false, narrowed))
  }

  test("a file of a reversed OPTIMIZE comes back as a commit since has described it") {
    val s = new Scene(rewriteA = true)
    s.lake.foreign("A", s.lake.add("x"))
    s.lake.file("A", "x")
    s.run(new CommitSteps {
      override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
        if (t.name == "A") {
          s.lake.foreign("A", s.lake.add("x", rows = 7, dataChange = false))
          s.lake.foreign(
            "A",
            Seq("x", "a2").map(s.lake.remove(_, dataChange = false)) :+
              s.lake.add("o", dataChange = false): _*
          )
          s.lake.foreign("B", s.lake.remove("b1"))
          ()
        }
    })
    val live = s.lake.states.stateAt(s.lake.path("A"), s.lake.head("A")).files.values
    assert(live.map(f => f.path -> f.add.liveRows).toMap == Map("a1" -> Some(10L), "x" -> Some(7L)))
  }

  for (undone <- Seq(true, false)) {
    val what = if (undone) "an UNDO" else "a CLOSE"

    test(
      s"$what in a table whose in-commit timestamps others enabled meanwhile has one, above theirs"
    ) {
      val s = new Scene(rewriteA = true)
      val far = s.lake.clock.nowMs() + 1000000L
      def enable(table: String): Unit = {
        val info = s.lake.commitInfo("SET TBLPROPERTIES").body.put("inCommitTimestamp", far)
        val header = s.lake.metaData(
          s"id-$table",
          properties = Map("delta.enableInCommitTimestamps" -> "true")
        )
        s.lake.store.putIfAbsent(
          s.lake.path(table).slot(s.lake.head(table) + 1),
          TableLog.text(Seq(CommitInfo(info), header))
        )
        ()
      }
      val run = Once {
        enable(if (undone) "A" else "B");
        if (undone) { s.lake.foreign("B", s.lake.remove("b1")); () }
      }
      val outcome = s.run(new CommitSteps {
        override def ordered(entry: CommitEntry): Unit = if (!undone) run()
        override def published(e: CommitEntry, t: EntryTable, part: Int, slot: Long): Unit =
          if (undone && t.name == "A") run()
      })
      assert(outcome.isInstanceOf[CommitOutcome.Conflicted])
      val table = if (undone) "A" else "B"
      val commit = s.last(table)
      assert(commit.mark.exists(_.kind == (if (undone) MarkKind.Undo else MarkKind.Close)))
      assert(commit.info.flatMap(_.inCommitTimestampMs).contains(far + 1))
    }
  }

  test("a CLOSE after a log clean-up has a timestamp where the table keeps them by now") {
    val s = new Scene(rewriteA = true)
    crashed(s.run(crashWhenOrdered))
    s.stamps("delta.enableInCommitTimestamps" -> "true")
    s.lake.foreign("B", s.lake.add("f"))
    JsonStates.cleanUp(s.lake.store, s.lake.path("B").uri)
    assert(s.lake.client().recover().failed.isEmpty)
    val commit = s.last("B")
    assert(commit.mark.exists(_.kind == MarkKind.Close))
    assert(commit.info.flatMap(_.inCommitTimestampMs).isDefined)
  }

  test("a CLOSE needs no staged commit: it can be put when somebody deleted the staging folder") {
    val s = new Scene(rewriteA = true)
    crashed(s.run(crashWhenOrdered))
    s.lake.foreign("A", s.lake.remove("a1"))
    s.lake.foreign("B", s.lake.remove("b1"))
    val id = s.lake.client().timeline.refresh().unfinished.head.transaction.id
    // Both tables have a conflict before anything of ours; the decision is there, the commits are not.
    crashed(s.lake.client(new CommitSteps {
      override def decided(e: CommitEntry, o: io.lakestep.timeline.Outcome): Unit = throw new Crash
    }).recover())
    Seq("A", "B").foreach(t => s.lake.store.deleteFolder(s.lake.path(t).staging(id)))
    assert(s.lake.client().recover().failed.isEmpty)
    assert(Seq("A", "B").map(t => s.lake.marks(t).map(_.kind)) == Seq(
      Vector(MarkKind.Close),
      Vector(MarkKind.Close)
    ))
  }
}
