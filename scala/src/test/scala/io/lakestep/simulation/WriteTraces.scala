package io.lakestep.simulation

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

/**
 * Writes traces of histories, one line of JSON each, for the replay against the protocol's model.
 *
 * Arguments: file, first seed, how many traces, and for a planted fault the beginning of its name.
 * Of a planted fault only histories are written that broke an invariant.
 */
object WriteTraces {

  def main(arguments: Array[String]): Unit = {
    val (from, count) = (arguments(1).toLong, arguments(2).toInt)
    val fault = arguments.lift(3).map { name =>
      PlantedFault.all.find(_.name.startsWith(s"$name ")).getOrElse(sys.error(s"no fault $name"))
    }
    val out = Files.newBufferedWriter(Path.of(arguments(0)), UTF_8)
    val workers = new Workers
    try
      Iterator.from(0).map(from + _).take(MostHistories).flatMap { seed =>
        val history =
          new History(seed, fault.fold(Safeguards.all)(_.safeguards), workers, new Counts)
        val world = history.run()
        if (fault.isDefined && world.violations.isEmpty) None
        else Trace.of(world, history.isStrict)
      }.take(count).foreach { line =>
        out.write(line)
        out.newLine()
      }
    finally {
      out.close()
      workers.close()
    }
  }

  private val MostHistories = 100000
}
