package io.lakestep.simulation

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import io.lakestep.timeline.{CommitEntry, Completed, TimelineCodec}

/** Everything of one history: the store, the schedule, the tables and what was seen. */
final class World(
    val seed: Long,
    val scheduler: Scheduler,
    val counts: Counts,
    val tables: Vector[String],
    val hasNewTables: Boolean,
    stampGranularityMs: Long) {

  val store =
    new SimulatedStore(() => scheduler.step, () => nowMs / stampGranularityMs * stampGranularityMs)

  private val traced = mutable.ArrayBuffer.empty[Traced]
  private val found = mutable.ArrayBuffer.empty[String]
  private val tried = mutable.ArrayBuffer.empty[Attempt]
  private val seen = mutable.ArrayBuffer.empty[SeenSnapshot]
  private val asked = mutable.ArrayBuffer.empty[SeenQuery]
  private val told = mutable.ArrayBuffer.empty[SeenStatus]
  private val resolved = mutable.ArrayBuffer.empty[SeenNames]
  private val replayed = mutable.ArrayBuffer.empty[SeenReplay]
  private var tokens = 0

  /** By root, the newest batch of its one query of which a client was told that it is committed. */
  var batches: Map[String, Long] = Map.empty.withDefaultValue(0L)

  /** Where names are; none in a history without names. */
  var metastores: Vector[SimulatedMetastore] = Vector.empty

  /** For those who look at folders through Hadoop. */
  var conf: Configuration = new Configuration(false)

  /** Whether clients delete the data of dropped tables. */
  var hasPurges: Boolean = false
  val purges = new Purges(this)

  /** What the product says in the end. */
  var droppedTables: Option[Set[String]] = None

  /** Whether it is noted that what an entry has made of names is in the metastores. */
  def isApplied(entry: Long): Boolean =
    store.exists(f"${History.MainRoot}/timeline/$entry%020d.applied.json")

  /** The entries after one that have an outcome, in order, as far as they are completed. */
  def completedAfter(number: Long): Vector[CommitEntry] = {
    def file(n: Long, kind: String) = f"${History.MainRoot}/timeline/$n%020d$kind.json"
    Iterator.from(1).map(number + _)
      .map(n => store.get(file(n, "")).map(TimelineCodec.decodeEntry(file(n, ""), _)))
      .takeWhile(_.isDefined).flatten.collect { case c: CommitEntry => c }.filter { c =>
        val outcome = file(c.number, ".outcome")
        store.get(outcome).map(TimelineCodec.decodeOutcome(outcome, _))
          .exists(_.isInstanceOf[Completed])
      }.toVector
  }

  /** The store's own time. */
  def nowMs: Long = World.StartMs + scheduler.step * 7L

  def trace(
      client: String,
      request: Request,
      path: String,
      fault: Option[Fault],
      result: Any): Unit =
    traced += Traced(scheduler.step, client, request, path, fault, result)

  /** Whether the path is a slot of a log below a checkpoint, where nobody may rely on slots. */
  def isBelowCheckpoint(path: String): Boolean = {
    val (folder, name) = path.splitAt(path.lastIndexOf('/'))
    folder.endsWith("/_delta_log") && hasCheckpoint(folder, name.drop(1).take(20).toLong + 1)
  }

  /** Whether a log has a checkpoint of this version or a later one. */
  def hasCheckpoint(folder: String, version: Long): Boolean =
    store.list(folder, f"$version%020d").exists(_.name.endsWith(".checkpoint.parquet"))

  def wasDeleted(path: String): Boolean = store.changes.exists {
    case Deleted(_, p) => p == path
    case _ => false
  }

  def wasPutAgain(path: String): Boolean = store.changes.count {
    case Created(_, p, _, _) => p == path
    case _ => false
  } > 1

  /** A name that no other file of the history has. */
  def token(): Int = {
    tokens += 1
    tokens
  }

  def tries(attempt: Attempt): Unit = tried += attempt
  def attempts: Seq[Attempt] = tried.toSeq
  def saw(snapshot: SeenSnapshot): Unit = seen += snapshot
  def saw(query: SeenQuery): Unit = asked += query
  def saw(status: SeenStatus): Unit = told += status
  def saw(names: SeenNames): Unit = resolved += names
  def saw(replay: SeenReplay): Unit = replayed += replay
  def replays: Seq[SeenReplay] = replayed.toSeq
  def seenNames: Seq[SeenNames] = resolved.toSeq
  def statuses: Seq[SeenStatus] = told.toSeq
  def snapshots: Seq[SeenSnapshot] = seen.toSeq
  def queries: Seq[SeenQuery] = asked.toSeq

  /** Records that an invariant does not hold; the message begins with its name. */
  def violated(message: String): Unit = found += message

  def violations: Seq[String] = found.toSeq

  /** When the log of a table began to be cleaned up, by the step: older versions may be gone since. */
  var cleaned: Map[String, Int] = Map.empty

  /** Tables that somebody dropped at some time: nothing is promised about what stands in them. */
  var dropped: Set[String] = Set.empty

  /**
   * Whether a put that was on its way while the table was dropped has left a hole in the log of the
   * table that was made there: nobody can read that log, or end what is to be published in it.
   */
  def isDamaged(table: String): Boolean = dropped(table) && {
    val log = s"$table/_delta_log"
    val slots = store.below(log).map(_.drop(s"$log/".length))
      .filter(_.matches("\\d{20}\\.json")).map(_.take(20).toLong)
    slots.headOption.exists { first =>
      slots != slots.indices.map(_.toLong + first).toVector ||
      first > 0 && !hasCheckpoint(log, first - 1)
    }
  }

  /** The whole history as text, for the report of a failing seed. */
  def story: String = traced
    .map { t =>
      val what = t.result match {
        case Some(bytes: Array[Byte]) => new String(bytes, UTF_8).trim.replace("\n", " | ")
        case other => String.valueOf(other)
      }
      f"${t.step}%5d ${t.client}%-12s ${t.request}%-20s ${t.path}" +
        t.fault.fold("")(f => s" [$f]") + s" = $what"
    }
    .mkString("\n")
}

object World {
  val StartMs = 1700000000000L

  /** Phases of a history, after 0: the one in which everything happens at once. */
  val FirstRecovery = 1
  val LateZombies = 2
  val SecondRecovery = 3
  val Quiet = 4
}
