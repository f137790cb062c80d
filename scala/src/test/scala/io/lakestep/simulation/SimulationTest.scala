package io.lakestep.simulation

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.transaction.Amendments

class SimulationTest extends AnyFunSuite {
  test("some") {
    val workers = new Workers
    val counts = new Counts
    val n = sys.env.getOrElse("N", "2000").toInt
    val start = System.nanoTime
    val bad = (1L to n.toLong).flatMap { s =>
      val w = new History(s, Amendments.all, workers, counts).run()
      if (w.violations.nonEmpty) Some(s -> w) else None
    }
    val seconds = (System.nanoTime - start) / 1e9
    println(counts.report)
    println(f"$n histories in $seconds%.1f s, ${n / seconds}%.0f a second")
    bad.groupBy(_._2.violations.head.take(45)).toVector.sortBy(-_._2.size).foreach { case (k, v) =>
      println(s"${v.size} x $k e.g. ${v.take(5).map(_._1)}: ${v.head._2.violations.take(2).mkString("\n    ")}")
    }
    bad.take(1).foreach(b => java.nio.file.Files.writeString(java.nio.file.Paths.get("/tmp/sim-story.txt"), b._2.violations.mkString("\n") + "\n" + b._2.story))
    assert(bad.isEmpty)
  }
}
