package io.lakestep.simulation

import java.io.BufferedWriter
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

/**
 * Writes traces of histories, one line of JSON each, for the replay against the protocol's model.
 *
 * Arguments: file, first seed, how many traces; for a planted fault the beginning of its name, and a
 * file for the same seeds without the fault. Of a planted fault only histories are written that broke
 * an invariant.
 */
object WriteTraces {

  def main(arguments: Array[String]): Unit = {
    val (from, count) = (arguments(1).toLong, arguments(2).toInt)
    val fault = arguments.lift(3).map { name =>
      PlantedFault.all.find(_.name.startsWith(s"$name ")).getOrElse(sys.error(s"no fault $name"))
    }
    val files = Vector(arguments(0)) ++ arguments.lift(4)
    val outs = files.map(f => Files.newBufferedWriter(Path.of(f), UTF_8))
    val workers = new Workers
    def trace(seed: Long, protections: Protections, breaks: Boolean): Option[String] = {
      val history = new History(seed, protections, workers, new Counts)
      val world = history.run()
      if (breaks && world.violations.isEmpty) None else Trace.of(world, history.isStrict)
    }
    def traces(seed: Long): Option[Vector[String]] = fault match {
      case None => trace(seed, Protections.all, breaks = false).map(Vector(_))
      case Some(f) =>
        for {
          broken <- trace(seed, f.protections, breaks = true)
          whole <- trace(seed, Protections.all, breaks = false)
        } yield Vector(broken, whole)
    }
    try
      Iterator.from(0).map(from + _).take(MostHistories).flatMap(traces).take(count)
        .foreach(lines => outs.zip(lines).foreach { case (out, line) => write(out, line) })
    finally {
      outs.foreach(_.close())
      workers.close()
    }
  }

  private def write(out: BufferedWriter, line: String): Unit = {
    out.write(line)
    out.newLine()
  }

  private val MostHistories = 100000
}
