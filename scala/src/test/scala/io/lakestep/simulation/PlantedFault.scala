package io.lakestep.simulation

import io.lakestep.commit.Safeguards

/**
 * What keeps a history whole: the protections of the protocol's code, and those that its callers and
 * foreign writers have to provide.
 *
 * @param comparesRows whether a merge of deletion vectors looks for rows that both took
 * @param loadsFirst whether a query loads its tables before it looks for their bindings (step 12)
 * @param heedsFence whether foreign writers leave closed tables alone
 * @param asksMetastoreFirst whether the timeline is read after each answer of a metastore (step 14)
 * @param keepsFolders whether a managed table is made external before it is dropped (step 14)
 */
final case class Protections(
    protocol: Safeguards = Safeguards.all,
    comparesRows: Boolean = true,
    loadsFirst: Boolean = true,
    heedsFence: Boolean = true,
    asksMetastoreFirst: Boolean = true,
    keepsFolders: Boolean = true)

object Protections {
  val all: Protections = Protections()
}

/**
 * A history without one of its protections: the simulation must notice each.
 *
 * @param name number and idea, as in scala/PROTOCOL.md
 * @param invariant beginning of the message of which it breaks at least one
 */
final case class PlantedFault(name: String, protections: Protections, invariant: String = "")

object PlantedFault {
  private def without(name: String, invariant: String = "")(
      change: Safeguards => Safeguards): PlantedFault =
    PlantedFault(name, Protections(change(Safeguards.all)), invariant)

  val all: Vector[PlantedFault] = Vector(
    without("W0 no safeguard for an abort: no decision first, no CLOSE")(
      _.copy(closes = false, decidesFirst = false)
    ),
    without("W1 no CLOSE commits")(_.copy(closes = false)),
    without("W2 undo before the decision")(_.copy(decidesFirst = false)),
    without("W3 pins by time alone")(_.copy(marksBoundPins = false)),
    without("W4 logs read before the timeline")(_.copy(timelineFirst = false)),
    without("W4 logs read before the timeline, over closed tables", "CLOSED")(
      _.copy(timelineFirst = false)
    ),
    without("W5 marks without part numbers")(_.copy(partsInMarks = false)),
    without("W6 no end for an entry with residue")(_.copy(endsWithResidue = false)),
    without("W7 slots probed, logs not listed")(_.copy(listsFirst = false, checksAfterPut = false)),
    without("W8 ABORT entries not obeyed")(_.copy(obeysAborts = false)),
    without("W9 tables bound to no timeline")(_.copy(binds = false)),
    without("W10 no look for checkpoints after a put")(_.copy(checksAfterPut = false)),
    without("W11 entries not helped that write what was read")(_.copy(helpsReads = false)),
    without("W12 appends published beside the rest")(_.copy(conflictCapableFirst = false)),
    PlantedFault(
      "W14 deletion vectors merged without looking for common rows",
      Protections(comparesRows = false)
    ),
    PlantedFault(
      "W15 a query looks for bindings before it loads its tables",
      Protections(loadsFirst = false)
    ),
    without("W16 a query looks for bindings before it reads the timeline")(
      _.copy(timelineBeforeBindings = false)
    ),
    without("W17 what is run again keeps stale pins")(_.copy(checksKeptPins = false)),
    without("W18 publishing before every fence is in", "NEEDLESS")(_.copy(reservesFirst = false)),
    PlantedFault(
      "W19 foreign writers that ignore the fence",
      Protections(heedsFence = false),
      "CLOSED"
    ),
    without("W20 entries that are no longer in memory are forgotten")(
      _.copy(readsForgotten = false)
    ),
    without("W21 who lost a number does not validate again")(_.copy(looksAgain = false)),
    without("W22 no look for a table that others have made meanwhile", "NEEDLESS")(
      _.copy(looksForMade = false)
    ),
    without("W23 a version 0 that others made passes for ours", "I1")(
      _.copy(readsVersionZero = false)
    ),
    without("W24 no look for names that others have changed", "NAMES")(
      _.copy(checksNames = false)
    ),
    without("W25 a schema and what is in it are names of their own", "NAMES")(
      _.copy(countsSchemas = false)
    ),
    without("W26 names made before the outcome", "NAMES")(_.copy(makesNamesAfterwards = false)),
    without("W27 not noted that names were made", "NAMES")(_.copy(notesNames = false)),
    without("W28 names made again that were made", "NAMES")(_.copy(heedsNotedNames = false)),
    without("W29 names of earlier entries made after those of later ones", "NAMES")(
      _.copy(makesNamesInOrder = false)
    ),
    PlantedFault(
      "W30 the timeline read before the metastore is asked",
      Protections(asksMetastoreFirst = false),
      "NAMES"
    ),
    without("W31 names forgotten that are not made yet", "NAMES")(
      _.copy(knowsUnmadeNames = false)
    ),
    without("W32 a query reads the timeline only when it has asked the metastore", "NAMES")(
      _.copy(looksBeforeNames = false)
    ),
    PlantedFault(
      "W33 managed tables dropped as they are",
      Protections(keepsFolders = false),
      "FOLDER"
    ),
    without("W34 what a late client has made of names stays", "NAMES")(
      _.copy(repairsNames = false)
    ),
    without("W35 managed tables made where a late client may drop them", "FOLDER")(
      _.copy(detachesNames = false)
    ),
    without("W36 tables dropped under the name that others know", "FOLDER")(
      _.copy(setsAside = false)
    ),
    without("W37 the rows of a query are newer than its names", "NAMES")(
      _.copy(readsRowsWithNames = false)
    ),
    without("W38 no look for who has applied a batch", "BATCH")(_.copy(checksBatches = false)),
    without("W40 of VACUUM and UNDROP both win", "PURGE")(_.copy(checksPurges = false)),
    without("W41 transactions from before a DROP not heeded", "PURGE")(
      _.copy(heedsOlder = false)
    ),
    without("W42 no second look before data are deleted", "PURGE")(
      _.copy(looksBeforeDeleting = false)
    ),
    without("W43 names not heeded that lead to dropped tables", "PURGE")(
      _.copy(heedsLeadingNames = false)
    ),
    without("W44 rows not heeded that were written after a DROP", "PURGE")(
      _.copy(heedsLaterWrites = false)
    ),
    without("W45 data deleted before the log", "PURGE")(_.copy(deletesLogsFirst = false)),
    without("W46 what was set aside is dropped unseen", "FOLDER")(_.copy(looksAside = false)),
    without("W47 schemas dropped where they lie", "FOLDER")(_.copy(movesSchemas = false))
  )
}
