package io.lakestep.simulation

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.transaction.Amendments

class SimulationTest extends AnyFunSuite {
  test("some") {
    val workers = new Workers
    val counts = new Counts
    val conf = java.nio.file.Files.readString(java.nio.file.Paths.get("/tmp/simsbt/conf")).trim.split(" ")
    val from = conf(0).toLong
    val n = conf(1).toLong
    val all = Amendments.all
    val amendments = conf.lift(2).getOrElse("all") match {
      case "all" => all
      case "closes" => all.copy(closes = false)
      case "decidesFirst" => all.copy(decidesFirst = false)
      case "marksBoundPins" => all.copy(marksBoundPins = false)
      case "timelineFirst" => all.copy(timelineFirst = false)
      case "partsInMarks" => all.copy(partsInMarks = false)
      case "endsWithResidue" => all.copy(endsWithResidue = false)
      case "listsFirst" => all.copy(listsFirst = false)
      case "checksAfterPut" => all.copy(checksAfterPut = false)
      case "obeysAborts" => all.copy(obeysAborts = false)
      case "binds" => all.copy(binds = false)
      case "conflictCapableFirst" => all.copy(conflictCapableFirst = false)
    }
    val os = java.lang.management.ManagementFactory.getOperatingSystemMXBean.asInstanceOf[com.sun.management.OperatingSystemMXBean]
    val start = System.nanoTime
    val cpu = os.getProcessCpuTime
    val bad = (from until from + n).flatMap { s =>
      val w = new History(s, amendments, workers, counts).run()
      if (w.violations.nonEmpty) Some(s -> w) else None
    }
    val seconds = (System.nanoTime - start) / 1e9
    println(counts.report)
    println(f"$n histories in $seconds%.1f s, ${n / seconds}%.0f a second, ${n / ((os.getProcessCpuTime - cpu) / 1e9)}%.0f a CPU second")
    bad.groupBy(_._2.violations.head.take(45)).toVector.sortBy(-_._2.size).foreach { case (k, v) =>
      println(s"${v.size} x $k e.g. ${v.take(5).map(_._1)}: ${v.head._2.violations.take(2).map(_.linesIterator.take(conf.lift(3).getOrElse("1").toInt).mkString("\n")).mkString("\n    ")}")
    }
    bad.take(1).foreach(b => java.nio.file.Files.writeString(java.nio.file.Paths.get("/tmp/simsbt/story.txt"), b._2.violations.mkString("\n") + "\n" + b._2.story))
    assert(bad.isEmpty)
  }
}
