package io.lakestep.timeline

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LakestepException}
import io.lakestep.commit.ManualClock
import io.lakestep.log.TableRef
import io.lakestep.storage.MemoryStore

/** Whatever files of digests there are, what entries have changed first is what the entries say. */
class NameDigestsSuite extends AnyFunSuite {

  private val Pack = 2
  private val Count = 2 * Pack * 64 * 64 + 3 * Pack * 64 + 7

  private def key(number: Long) = NameKey("m", "s", Some(s"v${number % 7}"))

  private def view(number: Long) =
    NamedObject(NamedObject.View, None, Json.obj().put("text", s"v$number"))

  private def entry(number: Long, previousHash: String) = CommitEntry(
    number,
    previousHash,
    timeMs = 1,
    rules = 3,
    Requested(s"t$number", None, "u", "a", "SNAPSHOT", number - 1, 1),
    Vector.empty,
    Vector.empty,
    names = Vector(NameChange(key(number), Some(view(number - 7)), Some(view(number)))),
    purges =
      if (number % 100 == 0) Vector(Purge(key(number), TableRef(s"/p$number"), 0))
      else Vector.empty
  )

  private val entries: Vector[EntryStatus] =
    (1L to Count.toLong).foldLeft(Vector.empty[EntryStatus]) { (before, number) =>
      val made = entry(number, before.lastOption.fold("")(_.hash))
      before :+ EntryStatus(made, Json.blake3(TimelineCodec.encode(made)), None, None)
    }

  private class Scene {
    val store = new MemoryStore(new ManualClock)
    var read = 0L

    private def some(from: Long, to: Long) = {
      read += to - from + 1
      entries.slice((from - 1).toInt, to.toInt)
    }

    val digests = new NameDigests(store, "/names", Pack, AtOnce.OneByOne, some)
    (1L to Count.toLong).foreach(digests.putIfDue)

    def files: Vector[String] = store.list("/names", "0").map(f => s"/names/${f.name}")

    def of(after: Int, to: Int = Count): FirstChanges = {
      read = 0
      def hash(number: Int) = if (number == 0) "" else entries(number - 1).hash
      digests.of(after + 1L, to.toLong, hash(after), hash(to))
    }

    def check(after: Int, to: Int = Count): Unit = {
      val found = of(after, to)
      val changed =
        (after + 1L to (after + 7L).min(to.toLong)).map(n => key(n) -> Some(view(n - 7)))
      assert(found.before == changed.toMap)
      assert(found.purged == (after + 1 to to).filter(_ % 100 == 0).map(n =>
        TableRef(s"/p$n")
      ).toSet)
    }
  }

  private val Points =
    Seq(0, 1, Pack, Pack * 64 - 1, Pack * 64, Pack * 64 * 64 - 1, Pack * 64 * 64, Count - 1)

  test("from whatever entry on, few are read") {
    val s = new Scene
    assert(s.files.size == 2 + Count / (Pack * 64))
    for (after <- Points) {
      s.check(after)
      // Packs on both sides of the runs.
      assert(s.read <= 2 * 64 * Pack, after)
    }
    s.check(Pack * 64 - 1, Pack * 64 + 1)
  }

  test("a file that is missing, damaged, or of others is passed over") {
    val s = new Scene
    val (large, small) = s.files.partition(_.endsWith(s".${Pack * 64 * 64}.json"))
    s.store.delete(large.head)
    s.check(0)
    assert(s.read <= 2 * 64 * Pack)
    s.store.overwrite(small.head, "{}".getBytes)
    s.store.overwrite(small(1), s.store.get(small(2)).get)
    s.store.delete(small(3))
    Points.foreach(s.check(_))
    // One that was well made, of another timeline.
    s.store.overwrite(large(1), s.store.get(small(2)).get)
    Points.foreach(s.check(_))
  }

  test("entries that do not lead to what is known are told") {
    val s = new Scene
    val failed = intercept[LakestepException](s.digests.of(1, 10, "", entries(10).hash))
    assert(failed.getCondition == "LAKESTEP_TIMELINE_CORRUPT")
  }
}
