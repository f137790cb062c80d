package io.lakestep.commit

import scala.collection.mutable
import scala.util.Random

import org.apache.hadoop.conf.Configuration

import io.lakestep.Json
import io.lakestep.simulation.Workers
import io.lakestep.storage.HadoopStores
import io.lakestep.testing.RealTime

/**
 * Clients of one database that do transactions over two tables, without a pause, for some virtual
 * time. Each has two tables of its own; in some of its transactions one that all share takes the
 * place of the second. Every transaction pins its tables, appends to both and commits; what is
 * staged costs nothing.
 *
 * As a program: a seed, the milliseconds of a request, seconds, percents of the transactions that
 * write the shared table, and numbers of clients, both with commas. Prints a line of JSON for each
 * of these. With a folder and settings of Hadoop, as `key=value`, its store is used, each of whose
 * requests takes the milliseconds longer, and the seconds are real.
 */
private[lakestep] object Contention {

  private val Shared = "shared"

  def main(arguments: Array[String]): Unit = {
    val (seed, latencyMs, seconds) =
      (arguments(0).toLong, arguments(1).toLong, arguments(2).toLong)
    val workers = new Workers
    for (percent <- arguments(3).split(','); clients <- arguments(4).split(',')) {
      val run = new Contention(
        asked =>
          if (arguments.length == 5) SlowLake(workers, latencyMs, asked, seed)
          else on(
            arguments(5),
            arguments.drop(6).toIndexedSeq,
            s"$percent-$clients",
            latencyMs,
            asked
          ),
        seed,
        latencyMs,
        clients.toInt,
        percent.toInt
      )
      println(run(seconds))
    }
    // Clients of a store may leave threads behind.
    System.exit(0)
  }

  private def on(
      folder: String,
      settings: Seq[String],
      name: String,
      latencyMs: Long,
      asked: (String, String) => Unit): SlowLake = {
    val configuration = new Configuration
    for (Array(key, value) <- settings.map(_.split("=", 2))) configuration.set(key, value)
    val clock = new ManualClock
    val store = new HadoopStores(configuration).forPath(folder)
    val lake = new Lake(store, clock, s"$folder/$name")
    new SlowLake(lake, new RealTime(clock), latencyMs, asked)
  }
}

private final class Contention(
    open: ((String, String) => Unit) => SlowLake,
    seed: Long,
    latencyMs: Long,
    clients: Int,
    sharedPercent: Int) {
  import Contention.Shared

  private val entries = """.*/timeline/\d{20}\.json""".r
  private var requests = 0
  private var tries = 0

  private val slow = open(count(_, _))
  import slow.{lake, time}

  private val chance = new Random(seed)
  private val begins = mutable.Buffer.empty[Long]
  private val commits = mutable.Buffer.empty[Long]
  private val conflicts = mutable.Buffer.empty[String]
  private var endMs = Long.MaxValue
  private var inTime = 0

  private def count(verb: String, path: String): Unit = synchronized {
    requests += 1
    if (verb == "put" && entries.matches(path)) tries += 1
  }

  private def ended(outcome: CommitOutcome, commitMs: Long, beginMs: Long): Unit = synchronized {
    outcome match {
      case _: CommitOutcome.Committed =>
        commits += commitMs
        if (lake.clock.nowMs() <= endMs) inTime += 1
      case CommitOutcome.Conflicted(conflict, _) => conflicts += conflict.rule.name
      case other => throw new IllegalStateException(s"$other")
    }
    begins += beginMs
    ()
  }

  private final class Client(number: Int) {
    private val db = slow.client()
    private val own = Vector("a", "b").map(table => s"$number-$table")
    own.foreach(lake.create(_))

    def learn(): Unit = { db.unfinished(); () }

    def transaction(tables: Seq[String] = own): Unit = {
      val (txn, beginMs) = timed(lake.begin(db))
      val written = tables.map(slow.change(db, txn, _))
      val (outcome, commitMs) = timed(db.commit(txn, written))
      ended(outcome, commitMs, beginMs)
    }

    def run(): Unit = {
      // So that they are not in step.
      time.pause(chance.nextInt(latencyMs.toInt).toLong)
      while (lake.clock.nowMs() < endMs)
        transaction(if (chance.nextInt(100) < sharedPercent) Seq(own.head, Shared) else own)
    }
  }

  private def timed[A](work: => A): (A, Long) = {
    val beganMs = lake.clock.nowMs()
    val result = work
    (result, lake.clock.nowMs() - beganMs)
  }

  def apply(seconds: Long): String = {
    lake.create(Shared)
    val all = Vector.tabulate(clients)(new Client(_))
    // Every table is bound, and every client knows the timeline.
    all.foreach(_.transaction())
    all.head.transaction(Seq(Shared))
    all.foreach(_.learn())
    Seq(begins, commits).foreach(_.clear())
    requests = 0
    tries = 0
    inTime = 0
    val began = System.nanoTime
    endMs = lake.clock.nowMs() + 1000 * seconds
    time.play(all.map(client => () => client.run()): _*)
    val line = Json.obj()
      .put("shared_percent", sharedPercent)
      .put("clients", clients)
      .put("per_second", inTime.toDouble / seconds)
      .put("real_s", (System.nanoTime - began) / 1e9)
      .put("transactions", begins.size)
      .put("tries", tries)
      .put("requests", requests)
      .put("request_ms", latencyMs + (if (time.isInstanceOf[RealTime]) slow.store.innerMs else 0.0))
    for ((name, taken) <- Seq("begin_ms" -> begins, "commit_ms" -> commits)) {
      val array = line.putArray(name)
      taken.foreach(array.add(_))
    }
    val met = line.putObject("conflicts")
    conflicts.groupBy(identity).foreach { case (rule, all) => met.put(rule, all.size) }
    Json.text(line)
  }
}
