package io.lakestep.simulation

import io.lakestep.log.TableRef
import io.lakestep.storage.PutOutcome

/**
 * Writes a checkpoint of a table's newest version and deletes the commits before it. Older
 * checkpoints stay, as with delta-rs, so versions before the newest one may still be read.
 */
final class LogCleaner(world: World, client: SimulatedClient) {

  private val states = new SimulatedStates(client)

  def clean(table: String): Unit = states.newest(table).foreach(clean(table, _))

  private def clean(table: String, head: Long): Unit = {
    val state = states.stateAt(TableRef(table), head)
    client.putIfAbsent(
      SimulatedStates.checkpointPath(table, head),
      SimulatedStates.write(state)
    ) match {
      case PutOutcome.Unknown(_) => ()
      case _ =>
        world.cleaned = Map(table -> world.scheduler.step) ++ world.cleaned
        client
          .list(TableRef(table).log, "0")
          .map(_.name)
          .filter(n => n.endsWith(".json") && n.take(20).toLong < head)
          .foreach(n => client.delete(s"${TableRef(table).log}/$n"))
        world.counts.event("clean-up")
    }
  }
}
