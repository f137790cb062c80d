package io.lakestep.commit

import scala.jdk.CollectionConverters._

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Json, LongTest}
import io.lakestep.simulation.Workers

/** How many transactions a second many clients get through, each request taking 30 ms of virtual time. */
final class ContentionSuite extends AnyFunSuite with BeforeAndAfterAll {

  private val workers = new Workers
  override protected def afterAll(): Unit = workers.close()

  private val LatencyMs = 30L
  private val Seed = 7L

  /** Commits a second, and the milliseconds of each COMMIT, in order. */
  private def run(clients: Int, sharedPercent: Int, seconds: Long): (Double, Vector[Long]) = {
    val open = SlowLake(workers, LatencyMs, _, Seed)
    val told = new Contention(open, Seed, LatencyMs, clients, sharedPercent)(seconds)
    val found = Json.parse(told.getBytes("UTF-8"))
    assert(found.path("conflicts").isEmpty, told)
    (
      found.path("per_second").asDouble,
      found.path("commit_ms").elements.asScala.map(_.asLong).toVector.sorted
    )
  }

  for (percent <- Seq(0, 10))
    test(s"16 clients, $percent % of whose transactions share a table") {
      val (perSecond, commitMs) = run(16, percent, seconds = 15)
      assert(perSecond >= 20)
      assert(commitMs(commitMs.size * 99 / 100) <= 2500)
    }

  test("64 clients get through as many as 16", LongTest) {
    assert(run(64, 0, seconds = 60)._1 >= 0.95 * run(16, 0, seconds = 60)._1)
  }
}
