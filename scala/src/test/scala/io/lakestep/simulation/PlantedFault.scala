package io.lakestep.simulation

import io.lakestep.transaction.Amendments

/**
 * The protocol without one of its safeguards: the simulation must notice each.
 *
 * @param name number and idea, as in scala/PROTOCOL.md
 * @param without takes the safeguard away
 */
final case class PlantedFault(name: String, without: Amendments => Amendments) {
  def amendments: Amendments = without(Amendments.all)
}

object PlantedFault {
  val all: Vector[PlantedFault] = Vector(
    PlantedFault(
      "W0 no safeguard for an abort: no decision first, no CLOSE",
      _.copy(closes = false, decidesFirst = false)
    ),
    PlantedFault("W1 no CLOSE commits", _.copy(closes = false)),
    PlantedFault("W2 undo before the decision", _.copy(decidesFirst = false)),
    PlantedFault("W3 pins by time alone", _.copy(marksBoundPins = false)),
    PlantedFault("W4 logs read before the timeline", _.copy(timelineFirst = false)),
    PlantedFault("W5 marks without part numbers", _.copy(partsInMarks = false)),
    PlantedFault("W6 no end for an entry with residue", _.copy(endsWithResidue = false)),
    PlantedFault(
      "W7 slots probed, logs not listed",
      _.copy(listsFirst = false, checksAfterPut = false)
    ),
    PlantedFault("W8 ABORT entries not obeyed", _.copy(obeysAborts = false)),
    PlantedFault("W9 tables bound to no timeline", _.copy(binds = false)),
    PlantedFault("W10 no look for checkpoints after a put", _.copy(checksAfterPut = false)),
    PlantedFault("W11 entries not helped that write what was read", _.copy(helpsReads = false)),
    PlantedFault("W12 appends published beside the rest", _.copy(conflictCapableFirst = false))
  )
}
