package io.lakestep.simulation

import org.scalatest.funsuite.AnyFunSuite

class SimulationTest extends AnyFunSuite {
  test("some") {
    val workers = new Workers
    for (line <- java.nio.file.Files.readString(java.nio.file.Paths.get("/tmp/simsbt/conf")).trim.linesIterator) {
    val counts = new Counts
    val conf = line.split(" ")
    val from = conf(0).toLong
    val n = conf(1).toLong
    val a = conf.lift(2).getOrElse("all")
    val amendments = if (a == "all") io.lakestep.transaction.Amendments.all else PlantedFault.all.find(f => f.name.split(" ")(0) == a).get.amendments
    val os = java.lang.management.ManagementFactory.getOperatingSystemMXBean.asInstanceOf[com.sun.management.OperatingSystemMXBean]
    val start = System.nanoTime
    val cpu = os.getProcessCpuTime
    val bad = (from until from + n).flatMap { s =>
      val w = new History(s, amendments, workers, counts).run()
      if (w.violations.nonEmpty) Some(s -> w) else None
    }
    val seconds = (System.nanoTime - start) / 1e9
    if (conf.length < 5) println(counts.report)
    println(f"=== $a: $n histories in $seconds%.1f s, ${n / seconds}%.0f a second, ${n / ((os.getProcessCpuTime - cpu) / 1e9)}%.0f a CPU second; bad ${bad.size}, first ${bad.headOption.map(_._1)}")
    bad.groupBy(_._2.violations.head.takeWhile(_ != ' ')).toVector.sortBy(-_._2.size).foreach { case (k, v) =>
      println(s"${v.size} x $k e.g. ${v.take(5).map(_._1)}: ${v.head._2.violations.take(2).map(_.linesIterator.take(conf.lift(3).getOrElse("1").toInt).mkString("\n")).mkString("\n    ")}")
    }
    bad.take(1).foreach(b => java.nio.file.Files.writeString(java.nio.file.Paths.get("/tmp/simsbt/story.txt"), b._2.violations.mkString("\n") + "\n" + b._2.story))
    }
  }
}
