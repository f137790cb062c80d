package io.lakestep.overlay

import org.apache.hadoop.fs.{FileStatus, Path}
import org.scalatest.funsuite.AnyFunSuite

/** A version that comes back is told to be later, whatever the store's clock says. */
class StagedTimesSuite extends AnyFunSuite {

  private def status(timeMs: Long): FileStatus =
    new FileStatus(7L, false, 1, 1L << 20, timeMs, new Path("/t/_delta_log/s/00.json"))

  private def told(times: StagedTimes, table: String, version: Long, timeMs: Long): Long =
    times(table, version, status(timeMs)).getModificationTime

  test("the store's time is told as long as nothing was taken back") {
    val times = new StagedTimes
    val same = status(5L)
    assert(times("t", 3L, same) eq same)
    assert(told(times, "t", 3L, 4L) == 4L)
  }

  for ((name, again) <- Seq("the same" -> 5L, "an earlier" -> 2L))
    test(s"at $name time of the store, what comes after a cut is later, each time") {
      val times = new StagedTimes
      told(times, "t", 3L, 5L)
      told(times, "t", 4L, 5L)
      times.cutBack("t", 3L)
      assert(told(times, "t", 4L, again) == 6L)
      assert(told(times, "t", 4L, again) == 6L)
      assert(told(times, "t", 3L, 5L) == 5L)
      times.cutBack("t", 3L)
      assert(told(times, "t", 4L, again) == 7L)
      val whole = times("t", 4L, status(again))
      assert((whole.getLen, whole.getPath) == ((7L, status(again).getPath)))
    }

  test("other tables, and later times, are left alone") {
    val times = new StagedTimes
    told(times, "t", 3L, 5L)
    told(times, "u", 3L, 5L)
    times.cutBack("t", 2L)
    assert(told(times, "u", 3L, 5L) == 5L)
    assert(told(times, "t", 3L, 9L) == 9L)
  }
}
