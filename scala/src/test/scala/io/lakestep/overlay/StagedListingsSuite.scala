package io.lakestep.overlay

import org.apache.hadoop.fs.{FileStatus, Path}
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.Json
import io.lakestep.log.{LogFileName, StagedEffect}
import io.lakestep.timeline.AtOnce

class StagedListingsSuite extends AnyFunSuite {

  private val table = "file:/t"
  private var segments = 0

  private def transaction(): Staging = {
    segments += 1
    Staging.begin(s"listings$segments", AtOnce.OneByOne)
  }

  private def file(version: Long, sizeBytes: Long = 1): FileStatus =
    new FileStatus(
      sizeBytes,
      false,
      1,
      1,
      1,
      new Path(s"$table/_delta_log/${LogFileName.commitName(version)}")
    )

  private def stage(staging: Staging, version: Long, sizeBytes: Long = 1): Unit = {
    staging.record(table, version)
    staging.saw(staging.epoch, table, Seq(version -> file(version, sizeBytes)))
  }

  test("a transaction that has staged nothing knows that") {
    assert(transaction().statuses(table, pin = 4).contains(Vector.empty))
  }

  test("what is staged is known once the store has told all of it") {
    val staging = transaction()
    stage(staging, 5)
    assert(staging.statuses(table, 4).contains(Vector(file(5))))
    staging.record(table, 6)
    assert(staging.statuses(table, 4).isEmpty)
    staging.saw(staging.epoch, table, Seq(6L -> file(6)))
    assert(staging.statuses(table, 4).contains(Vector(file(5), file(6))))
  }

  test("a commit that is no statement's is looked for, too") {
    val staging = transaction()
    staging.recordOther(table, 5)
    assert(staging.statuses(table, 4).isEmpty)
    staging.saw(staging.epoch, table, Seq(5L -> file(5)))
    assert(staging.statuses(table, 4).contains(Vector(file(5))))
    staging.dropOther(table)
    assert(staging.statuses(table, 4).contains(Vector.empty))
  }

  test("a version that was taken back and came again is not what it was, whoever asked before") {
    val staging = transaction()
    stage(staging, 5)
    stage(staging, 6, sizeBytes = 10)
    val asked = staging.epoch
    staging.cutBack(table, pin = 4, keep = 5)
    assert(staging.statuses(table, 4).contains(Vector(file(5))))
    staging.record(table, 6)
    staging.saw(asked, table, Seq(6L -> file(6, sizeBytes = 10)))
    assert(staging.status(table, 6).isEmpty && staging.statuses(table, 4).isEmpty)
    staging.saw(staging.epoch, table, Seq(6L -> file(6, sizeBytes = 20)))
    assert(staging.status(table, 6).map(_.getLen).contains(20L))
  }

  test("what is below the pin is known from a name on, at this pin, until the next statement") {
    val staging = transaction()
    val found = Vector(file(2), file(3), file(4))
    staging.sawBelow(staging.epoch, table, 4, LogFileName.commitName(2), found)
    def known(pin: Long, from: Long) = staging.listedBelow(table, pin, LogFileName.commitName(from))
    assert(known(4, 3).contains(found.tail))
    assert(known(4, 1).isEmpty && known(5, 2).isEmpty)
    val asked = staging.epoch
    staging.forgetBelow(table)
    staging.sawBelow(asked, table, 4, LogFileName.commitName(2), found)
    assert(known(4, 3).isEmpty)
  }

  test("what a statement has asked of the log below the pin, the next one is told ahead") {
    val staging = transaction()
    val from = LogFileName.commitName(3)
    def list(): Unit = staging.sawBelow(staging.epoch, table, 4, from, Vector(file(3), file(4)))
    assert(staging.forgetBelow(table).isEmpty)
    list()
    assert(staging.forgetBelow(table).contains(from))
    list()
    staging.listedAhead(table)
    // Nobody has asked.
    assert(staging.forgetBelow(table).isEmpty)
    list()
    staging.listedAhead(table)
    assert(staging.listedBelow(table, 4, LogFileName.commitName(4)).isDefined)
    assert(staging.forgetBelow(table).contains(from))
  }

  test("a table that was found as it was pinned is looked at again once it is listed anew") {
    val changes = Seq[Staging => Unit](
      _.forgetBelow(table),
      s => s.sawBelow(s.epoch, table, 4, LogFileName.commitName(4), Vector(file(4))),
      _.forgetListings(),
      _.forgetConfirmed(),
      _.stopRemembering()
    )
    for (change <- changes) {
      val staging = transaction()
      assert(!staging.isConfirmed(table))
      staging.confirm(staging.epoch, table)
      assert(staging.isConfirmed(table) && !staging.isConfirmed("file:/other"))
      val asked = staging.epoch
      change(staging)
      assert(!staging.isConfirmed(table))
      // Another thread has met the table while this one looked.
      staging.forgetBelow("file:/other")
      staging.confirm(asked, table)
      assert(!staging.isConfirmed(table))
    }
  }

  test("an empty log is asked for again: it may be one that is being made anew") {
    val staging = transaction()
    staging.sawBelow(staging.epoch, table, 4, LogFileName.commitName(0), Vector.empty)
    assert(staging.listedBelow(table, 4, LogFileName.commitName(0)).isEmpty)
  }

  test("a version that was there already is asked for, and takes nothing from what is staged") {
    val staging = transaction()
    def staged(version: Long): Unit = {
      stage(staging, version)
      staging.learn(table, version, StagedEffect.none)
    }
    staged(5)
    staging.record(table, 6)
    staging.refused(table, 6, before = Some(5))
    assert(staging.last(table) == 5 && staging.statuses(table, 4).isEmpty)
    staged(6)
    // Another statement was first with it, or this one comes late.
    staging.refused(table, 6, before = Some(5))
    assert(staging.last(table) == 6)
    staging.record(table, 5)
    staging.refused(table, 5, before = Some(6))
    assert(staging.last(table) == 6)
  }

  test("where two paths may lead to one log, the store is asked") {
    val staging = transaction()
    stage(staging, 5)
    staging.stopRemembering()
    assert(staging.statuses(table, 4).isEmpty && staging.status(table, 5).isEmpty)
  }

  test("who has not begun the transaction, or doubts a staged commit, asks the store") {
    val other = Staging.of("listings-of-an-executor")
    stage(other, 5)
    assert(other.statuses(table, 4).isEmpty && other.status(table, 5).isEmpty)
    val staging = transaction()
    stage(staging, 5)
    staging.doubt(new RuntimeException("unclear"))
    assert(staging.statuses(table, 4).isEmpty && staging.status(table, 5).isEmpty)
  }

  test("a staged commit is read from memory until it is taken back, or may not be all there is") {
    def text(id: String) = s"""{"txn":{"appId":"$id","version":1}}\n""".getBytes("UTF-8")
    val staging = transaction()
    for (version <- 5L to 6L) {
      stage(staging, version)
      staging.keep(table, version, text(s"a$version"))
    }
    staging.keep("file:/other", 1, text("other"))
    assert(staging.commitsOf(table).keySet == Set(5L, 6L))
    staging.cutBack(table, pin = 4, keep = 5)
    assert(staging.commitsOf(table).keySet == Set(5L))
    staging.keep(table, 6, text("again"))
    val again = staging.commitsOf(table)(6).map(action => Json.text(action.node))
    assert(again.mkString.contains("again"))
    // One that is too long is read from the store; it takes nothing of the others.
    staging.keep(table, 6, new Array[Byte](Staging.MostText))
    assert(staging.commitsOf(table).keySet == Set(5L))
    staging.stopRemembering()
    assert(staging.commitsOf(table).isEmpty)
  }
}
