package io.lakestep.simulation

import java.util.concurrent.atomic.AtomicLong

/** A history that broke an invariant, with all that is needed to look into it. */
final case class BrokenHistory(seed: Long, violations: Seq[String], story: String) {

  /** The name of the first invariant that was broken. */
  def invariant: String = violations.head.takeWhile(_ != ' ')

  def breaks(invariant: String): Boolean = violations.exists(_.startsWith(invariant))

  def report: String =
    s"""seed $seed breaks:
       |${violations.mkString("\n")}
       |
       |$story
       |
       |Replay it alone with ${Simulation.SeedProperty}=$seed (system property) or
       |${Simulation.SeedVariable}=$seed (environment).""".stripMargin
}

/** What a number of histories showed; `broken` in the order of their seeds. */
final case class SimulationReport(counts: Counts, broken: Vector[BrokenHistory], seconds: Double) {
  def histories: Long = counts.of("history")
  def perSecond: Double = histories / seconds
}

object Simulation {
  val SeedProperty = "lakestep.simulation.seed"
  val SeedVariable = "LAKESTEP_SIMULATION_SEED"

  /** The seed that the user asked to replay. */
  def askedSeed: Option[Long] =
    sys.props.get(SeedProperty).orElse(sys.env.get(SeedVariable)).map(_.toLong)

  /**
   * Runs the histories of the seeds `from` until `until`.
   *
   * @param stopAt no new history begins once one is broken in such a way
   */
  def run(
      from: Long,
      until: Long,
      protections: Protections = Protections.all,
      stopAt: BrokenHistory => Boolean = _ => false,
      threads: Int = 2): SimulationReport = {
    val next = new AtomicLong(from)
    val end = new AtomicLong(until)
    val start = System.nanoTime
    val runners = Vector.fill(threads)(new Runner(next, end, protections, stopAt))
    runners.foreach(_.start())
    runners.foreach(_.join())
    val counts = new Counts
    runners.foreach(r => counts.add(r.counts))
    runners.flatMap(_.failure).headOption.foreach(e => throw e)
    SimulationReport(
      counts,
      runners.flatMap(_.broken).sortBy(_.seed),
      (System.nanoTime - start) / 1e9
    )
  }

  private final class Runner(
      next: AtomicLong,
      end: AtomicLong,
      protections: Protections,
      stopAt: BrokenHistory => Boolean)
      extends Thread("simulation") {

    val counts = new Counts
    @volatile var broken: Vector[BrokenHistory] = Vector.empty
    @volatile var failure: Option[Throwable] = None

    override def run(): Unit = {
      val workers = new Workers
      try
        Iterator.continually(next.getAndIncrement()).takeWhile(_ < end.get).foreach { seed =>
          val world = new History(seed, protections, workers, counts).run()
          if (world.violations.nonEmpty) {
            val kept = if (broken.size < KeptStories) world.story else "(not kept)"
            val history = BrokenHistory(seed, world.violations, kept)
            broken = broken :+ history
            if (stopAt(history)) end.accumulateAndGet(seed, (a, b) => a.min(b))
          }
        }
      catch { case e: Throwable => failure = Some(e) }
      finally workers.close()
    }
  }

  private val KeptStories = 3
}
