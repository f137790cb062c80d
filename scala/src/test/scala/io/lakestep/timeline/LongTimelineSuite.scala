package io.lakestep.timeline

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Ids, Json, LongTest}
import io.lakestep.commit.{DatabaseOptions, ManualClock}
import io.lakestep.log.TableRef
import io.lakestep.storage.MemoryStore

/** What a client asks the store for that reads an old entry, or an old state, of a long timeline. */
final class LongTimelineSuite extends AnyFunSuite {

  private val Interval = DatabaseOptions().checkpointInterval

  test("an old state of 20,000 entries")(oldStates(20000))
  test("an old state of 1,000,000 entries", LongTest)(oldStates(1000000))

  /** Counts how many requests wait for one another: of those made at once only the longest chain. */
  private final class Rounds(store: MemoryStore) extends AtOnce {
    private var beside = 0
    def depth: Int = store.requests.size - beside
    def requests: Int = store.requests.size

    override def apply[A, B](items: Vector[A])(work: A => B): Vector[B] = {
      val (results, chains) = items.map { item =>
        val before = depth
        val result = work(item)
        result -> (depth - before)
      }.unzip
      beside += chains.sum - chains.maxOption.getOrElse(0)
      results
    }
  }

  private def oldStates(count: Int): Unit = {
    val store = new MemoryStore(new ManualClock)
    def open(atOnce: AtOnce) = new Timeline(store, "/db", Ids.random, 3, Interval, atOnce)
    val writer = open(AtOnce.OneByOne)
    writer.id
    writer.refresh()
    var deletedBytes = 0L
    def deleted(file: String): Unit = {
      deletedBytes += store.get(file).fold(0L)(_.length.toLong)
      store.delete(file)
    }
    val hashes = Array.fill(count + 1)("")
    (1 to count).foreach { i =>
      put(writer, i.toLong)
      hashes(i) = writer.known.lastHash
      store.requests = Vector.empty
      // What is in a pack is not asked for by itself.
      if (i % Interval == 0)
        (i - 5 * Interval + 1 to i - 4 * Interval).filter(_ > 0).foreach { n =>
          deleted(writer.entryFile(n.toLong))
          deleted(writer.outcomeFile(n.toLong))
        }
    }

    def cost(work: Timeline => Unit): (Int, Int) = {
      val rounds = new Rounds(store)
      val reader = open(rounds)
      store.requests = Vector.empty
      work(reader)
      (rounds.depth, rounds.requests)
    }
    val (begin, _) = cost(_.refresh())
    val costs = for (n <- Seq(1, 70, 6399, count / 3, count / 2, count - 7000, count - 1)) yield {
      val (depth, requests) = cost { reader =>
        reader.refresh()
        val state = reader.snapshotAt(n.toLong)
        assert(state.number == n && state.timeMs.contains(endedAt(n.toLong)))
      }
      info(s"version $n of $count: $depth rounds, $requests requests")
      (depth, requests)
    }
    for (n <- Seq(0, 70, count / 3, count / 2, count - 7000)) {
      val (depth, requests) = cost { reader =>
        reader.refresh()
        val changed = reader.firstChanges(n.toLong, hashes(n))
        assert(changed.before == (n + 1 to n + Names).map(i =>
          key(i.toLong) -> named(i - Names)
        ).toMap)
      }
      info(s"names in version $n of $count: $depth rounds, $requests requests")
      assert(depth <= 8 && requests <= MostRequests + 4 * 64)
    }
    assert(begin <= 4)
    assert(costs.forall(_._1 <= 8))
    assert(costs.forall(_._2 <= MostRequests))
    val (last, _) = cost { reader =>
      reader.refresh()
      assert(reader.entries(count - 99L, count.toLong).size == 100)
    }
    info(s"the last hundred: $last rounds")
    assert(last <= 6)
    val byTime = cost { reader =>
      reader.refresh()
      assert(reader.snapshotBefore(endedAt(count / 2L)).number == count / 2)
    }
    info(s"by time: ${byTime._1} rounds, ${byTime._2} requests")
    assert(byTime._1 <= 8)

    def bytesIn(folder: String) = store.list(s"/db/$folder", "0").map(_.sizeBytes).sum
    val entries = bytesIn("timeline") + deletedBytes
    val derived = Seq("history/entries", "history/snapshots", "history/names", "checkpoints")
    val copies = derived.map(bytesIn)
    info(s"entries and outcomes: $entries bytes; packs, snapshots, checkpoints: $copies bytes")
    // A pack quotes what it holds.
    assert(copies.sum < 1.5 * entries)

    val before = usedBytes()
    val reader = open(AtOnce.OneByOne)
    store.requests = Vector.empty
    reader.refresh()
    assert(reader.snapshotAt(count / 2L).number == count / 2)
    store.requests = Vector.empty
    val held = usedBytes() - before
    info(s"a reader holds ${held / 1024} KiB")
    assert(held < MostHeldBytes)
    assert(reader.known.next == count + 1L)
  }

  /**
   * A checkpoint and a listing, 64 packs, and the snapshots that are looked at: none grows with the version. Names: packs
   * and runs of them on both sides of the largest ones.
   */
  private val MostRequests = 64 + 64 + 40

  /** Each entry gives one of so many names another view. */
  private val Names = 10

  private def key(number: Long) = NameKey("m", "s", Some(s"t${number % Names}"))

  private def named(number: Long): Option[NamedObject] = Option.when(number > 0) {
    NamedObject(NamedObject.View, None, Json.obj().put("text", s"v$number"))
  }

  /** What a reader holds does not grow with the timeline. */
  private val MostHeldBytes = 4L << 20

  private def usedBytes(): Long = {
    (1 to 3).foreach(_ => System.gc())
    val runtime = Runtime.getRuntime
    runtime.totalMemory - runtime.freeMemory
  }

  private def endedAt(number: Long) = 10 * number

  private def put(timeline: Timeline, number: Long): Unit = {
    val requested = Requested(s"t$number", None, "u", "a", "SNAPSHOT", number - 1, 1)
    val table = EntryTable(
      log = s"log${number % 10}",
      tableId = "id",
      path = TableRef(s"/t${number % 10}"),
      name = "t",
      metastore = None,
      pin = number,
      base = number,
      baseSlot = None,
      parts = 1,
      conflictCapable = false,
      closed = false,
      reserve = None,
      reads = None,
      actionsHash = "hash",
      metaDataHash = None,
      protocolHash = None,
      inCommitTimestamps = false,
      inCommitTimestampMs = None,
      rowIds = None,
      added = FileSums(1, 1, 1),
      removed = FileSums(0, 0, 0)
    )
    timeline.putEntry(
      CommitEntry(
        number,
        timeline.known.lastHash,
        endedAt(number),
        3,
        requested,
        Vector(table),
        Vector.empty,
        names = Vector(NameChange(key(number), named(number - Names), named(number)))
      )
    )
    val hash = timeline.known.lastHash
    timeline.decide(Completed(number, hash, endedAt(number), Vector(Vector(number + 1))))
    timeline.putApplied(number, hash, endedAt(number))
    timeline.checkpoint()
  }
}
