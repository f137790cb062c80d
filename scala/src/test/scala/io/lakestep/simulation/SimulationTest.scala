package io.lakestep.simulation

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LongTest
import io.lakestep.transaction.Amendments

/**
 * Many clients on a simulated store, and the simulation itself under test: without any one of the
 * protocol's safeguards it finds a history that breaks an invariant.
 */
class SimulationTest extends AnyFunSuite {

  private val Small = 4000L
  private val FaultBound = 6000L
  private val Large = sys.env.getOrElse("LAKESTEP_SIMULATION_HISTORIES", "400000").toLong

  Simulation.askedSeed match {
    case Some(seed) =>
      test(s"the history of seed $seed breaks no invariant")(unbroken(seed, seed + 1))
    case None => registerAll()
  }

  private def registerAll(): Unit = {

    test("no history breaks an invariant, and every fault meets every kind of request") {
      val report = unbroken(1L, 1L + Small)
      info(f"${report.histories} histories, ${report.perSecond}%.0f a second")
      info(report.counts.report)
      everythingHappened(report.counts)
    }

    test("a seed gives the same history again") {
      def story(seed: Long): String = {
        val workers = new Workers
        try new History(seed, Amendments.all, workers, new Counts).run().story
        finally workers.close()
      }
      (1L to 20L).foreach(seed => assert(story(seed) == story(seed), s"seed $seed"))
    }

    PlantedFault.all.foreach { fault =>
      test(s"is noticed: ${fault.name}") {
        val report = Simulation.run(1L, 1L + FaultBound, fault.amendments, stopAtFirst = true)
        assert(report.broken.nonEmpty, s"not within ${report.histories} histories")
        val first = report.broken.head
        info(s"seed ${first.seed} breaks ${first.violations.head.linesIterator.next()}")
      }
    }

    test(s"none of $Large histories breaks an invariant", LongTest) {
      val report = unbroken(1L, 1L + Large)
      info(f"${report.histories} histories, ${report.perSecond}%.0f a second")
      info(report.counts.report)
      PlantedFault.all.foreach { fault =>
        val broken = Simulation.run(1L, 1L + FaultBound, fault.amendments).broken
        assert(broken.nonEmpty, fault.name)
        val kinds = broken.groupBy(_.invariant).map { case (k, v) => s"$k ${v.size}" }
        info(
          s"${fault.name}: first seed ${broken.head.seed}, of $FaultBound: ${kinds.mkString(", ")}"
        )
      }
    }
  }

  private def unbroken(from: Long, until: Long): SimulationReport = {
    val report = Simulation.run(from, until)
    report.broken.headOption.foreach { first =>
      fail(
        s"${report.broken.size} of ${report.histories} histories: ${report.broken.map(_.seed)}\n" + first.report
      )
    }
    report
  }

  private def everythingHappened(counts: Counts): Unit = {
    for {
      request <- Request.all
      fault <- Fault.all if request == Request.Put || !fault.onlyPut
    } assert(counts.of(request, fault) > 0, s"$request never met $fault")
    Seq(
      "committed entry",
      "rolled back entry",
      "undo",
      "residue",
      "helped entry",
      "abort entry",
      "collected",
      "clean-up",
      "snapshot",
      "rollback",
      "foreign append",
      "foreign rewrite",
      "foreign compaction",
      "foreign metadata",
      "foreign drop",
      "foreign create",
      "published at once",
      "answer conflicted",
      "answer unknown"
    ).foreach(event => assert(counts.of(event) > 0, event))
  }
}
