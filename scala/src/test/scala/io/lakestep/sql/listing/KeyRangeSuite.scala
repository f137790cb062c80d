package io.lakestep.sql.listing

import java.sql.Timestamp
import java.time.Instant

import org.apache.spark.sql.sources._
import org.scalatest.funsuite.AnyFunSuite

/** Which rows of a listing need not be read. */
final class KeyRangeSuite extends AnyFunSuite {

  private def where(filters: Filter*): KeyRange =
    filters.foldLeft(KeyRange.All)(_.where("entry", _))

  test("a condition on the key excludes what it excludes, and nothing else") {
    val conditions = Seq[(Filter, Long => Boolean)](
      EqualTo("entry", 5L) -> (_ == 5),
      GreaterThan("entry", 5L) -> (_ > 5),
      GreaterThanOrEqual("entry", 5) -> (_ >= 5),
      LessThan("entry", 5L) -> (_ < 5),
      LessThanOrEqual("entry", 5L) -> (_ <= 5),
      In("entry", Array(7L, 3L)) -> (n => n >= 3 && n <= 7),
      And(GreaterThan("entry", 2L), LessThan("entry", 4L)) -> (_ == 3),
      And(GreaterThan("entry", 2L), Not(EqualTo("entry", 4L))) -> (_ > 2),
      Or(EqualTo("entry", 1L), EqualTo("entry", 9L)) -> (_ => true),
      EqualTo("other", 5L) -> (_ => true),
      EqualTo("entry", "5") -> (_ => true),
      In("entry", Array(7L, null)) -> (_ => true),
      GreaterThan("entry", Long.MaxValue) -> (_ => true),
      LessThan("entry", Long.MinValue) -> (_ => true)
    )
    for {
      (one, isIn) <- conditions
      (other, isAlsoIn) <- conditions
      n <- -1L to 11L
    } {
      val range = where(one, other)
      assert((range.from <= n && n <= range.to) == (isIn(n) && isAlsoIn(n)), s"$n, $one, $other")
    }
  }

  test("a condition on when an entry ended tells from when on entries are asked for") {
    val (early, late) = (new Timestamp(1000), Instant.ofEpochMilli(2000).plusNanos(1))
    val conditions = Seq[(Filter, Option[Long])](
      GreaterThan("ended", early) -> Some(1000),
      GreaterThanOrEqual("ended", late) -> Some(2000),
      EqualTo("ended", early) -> Some(1000),
      And(GreaterThan("ended", late), LessThan("ended", early)) -> Some(2000),
      LessThan("ended", early) -> None,
      GreaterThan("other", early) -> None,
      Or(GreaterThan("ended", late), EqualTo("entry", 1L)) -> None,
      GreaterThan("ended", 5L) -> None
    )
    for ((one, from) <- conditions; (other, also) <- conditions) {
      val range = Seq(one, other).foldLeft(KeyRange.All)(_.ended("ended", _))
      assert(range == KeyRange.All.copy(endedFromMs = (from ++ also).maxOption), s"$one, $other")
    }
  }
}
