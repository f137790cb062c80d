package io.lakestep.commit

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.log.{Action, DomainMetadata, LogCommit, NetPart, ReadSet}
import io.lakestep.timeline.Rule

final class ConflictCheckSuite extends AnyFunSuite {
  private val lake = Lake.inMemory()
  import lake.{add, commitInfo, domain, metaData, protocol, remove, txn}

  private def rule(ours: Seq[Action], theirs: Seq[Action], reads: Boolean = false): Option[Rule] =
    ConflictCheck.check(
      OurChanges.of(
        Seq(NetPart(commitInfo("W"), ours.toVector)),
        Option.when(reads)(ReadSet.WholeTable),
        bakesRows = false
      ),
      LogCommit(9, theirs.toVector)
    ).map(_.rule)

  private val append = Seq(add("new"))
  private val rewrite = Seq(remove("b"), add("new"))

  test("a foreign append is no conflict, whatever we do to files") {
    assert(rule(append, Seq(add("f"))).isEmpty && rule(rewrite, Seq(add("f"))).isEmpty)
  }

  test("a foreign change of other files is no conflict") {
    assert(rule(rewrite, Seq(remove("c"), add("f"))).isEmpty)
  }

  test("the same file: removed, rewritten, given a deletion vector, or only rearranged") {
    for (theirs <- Seq(
        Seq(remove("b")),
        Seq(remove("b"), add("b", Some("dv"))),
        Seq(add("b")),
        Seq(remove("b", dataChange = false), add("f", dataChange = false))
      ))
      assert(rule(rewrite, theirs).contains(Rule.SameFile))
    assert(rule(Seq(remove("b"), add("b", Some("d1"))), Seq(remove("b"), add("b", Some("d2"))))
      .contains(Rule.SameFile))
  }

  test("the same file as another client escapes its path") {
    val ours = Seq(remove("day=1%202/a+b%20c"), add("new"))
    for (theirs <- Seq("day=1 2/a+b c", "day=1%202/a+b%20c", "day%3D1%202/a%2Bb%20c"))
      assert(rule(ours, Seq(remove(theirs))).contains(Rule.SameFile), theirs)
    assert(rule(ours, Seq(remove("day=1%25202/a+b%2520c"))).isEmpty)
  }

  test("foreign metadata and protocol conflict with everything, appends included") {
    assert(rule(append, Seq(metaData("i"))).contains(Rule.MetadataChanged))
    assert(rule(append, Seq(protocol())).contains(Rule.ProtocolChanged))
  }

  test("our metadata, protocol or domain against their data; not against a mere rearrangement") {
    for (ours <- Seq(Seq(metaData("i")), Seq(protocol()), Seq(domain("delta.clustering", "x")))) {
      assert(rule(ours, Seq(add("f"))).contains(Rule.DataUnderNewMetadata))
      assert(rule(ours, Seq(remove("x", dataChange = false), add("f", dataChange = false))).isEmpty)
    }
  }

  test("the same domain conflicts, but for row tracking's") {
    assert(rule(Seq(domain("d", "1")), Seq(domain("d", "2"))).contains(Rule.SameDomain))
    assert(rule(Seq(domain("d", "1")), Seq(domain("e", "2"))).isEmpty)
    val hwm = domain(DomainMetadata.RowTracking, "{}")
    assert(rule(append :+ hwm, Seq(add("f"), hwm)).isEmpty)
  }

  test("the same application id conflicts, but for our own marks") {
    assert(rule(
      append :+ txn("app", 1),
      Seq(txn("app", 2))
    ).contains(Rule.SameApplication))
    assert(rule(append :+ txn("app", 1), Seq(txn("other", 2))).isEmpty)
    assert(rule(append :+ txn("lakestep/x/y", 1), Seq(txn("lakestep/x/y", 2))).isEmpty)
  }

  test("what depends on its reads conflicts with every change of data") {
    assert(rule(append, Seq(add("f")), reads = true).contains(Rule.ReadChanged))
    assert(rule(append, Seq(txn("app", 1)), reads = true).isEmpty)
  }

  test("row ids inside files conflict with every commit: each takes a version") {
    val ours =
      OurChanges.of(Seq(NetPart(commitInfo("W"), append.toVector)), reads = None, bakesRows = true)
    for (theirs <- Seq(add("f"), txn("app", 1))) {
      val found = ConflictCheck.check(ours, LogCommit(9, Vector(theirs)))
      assert(found.map(_.rule).contains(Rule.RowIdsBaked))
    }
  }

  test("only blind appends of files are not conflict-capable") {
    def capable(ours: Action*) =
      OurChanges.of(
        Seq(NetPart(commitInfo("W"), ours.toVector)),
        reads = None,
        bakesRows = false
      ).isConflictCapable(1)
    assert(!capable(add("x")) && capable(remove("x")) && capable(metaData("i")) && capable(txn(
      "a",
      1
    )))
    assert(OurChanges.of(Nil, reads = None, bakesRows = false).isConflictCapable(2))
  }
}
