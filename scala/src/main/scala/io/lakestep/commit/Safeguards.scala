package io.lakestep.commit

/**
 * The safeguards of the protocol, one by one; everything that runs for users has all of them.
 *
 * The simulation takes one away at a time to show that it notices. Each field says what is lost.
 *
 * @param closes CLOSE commits in unpublished tables: a sleeping helper publishes after the rollback
 * @param decidesFirst `aborting` before any undo: helpers of different opinion undo and complete
 * @param marksBoundPins floor and ceiling of pins: a reader's snapshot is torn
 * @param timelineFirst reading the timeline before the logs: an ordered entry aborts needlessly
 * @param partsInMarks part numbers: the first of several commits passes for all
 * @param endsWithResidue ending an entry that cannot be undone whole: nobody can ever finish it
 * @param listsFirst listing before walking, and asking the state where the log was cleaned up
 * @param checksAfterPut looking for a newer checkpoint after a put: a delayed put lands below it
 * @param obeysAborts ABORT entries: a collector deletes the files of a live transaction
 * @param binds one timeline per table: a reader of a second root sees a torn snapshot
 * @param reservesFirst fences in all reserved tables ahead of publishing: what is visible is undone
 * @param conflictCapableFirst publishing those first: an append is undone needlessly
 * @param helpsReads helping entries that write what was read: SERIALIZABLE is not
 * @param timelineBeforeBindings a query's reading of the timeline before it looks for bindings: the
 *   first transaction of two tables is read by halves
 * @param readsForgotten reading entries again that are no longer in memory: a long transaction reads a
 *   torn snapshot
 * @param looksAgain validating again when an entry that took our number writes our tables: ours aborts
 *   needlessly after the order point
 * @param checksNames looking whether others have changed a name, or taken one from a table: both a DROP
 *   and an INSERT of its table are committed
 * @param countsSchemas taking a schema and all that is inside it for one name: a table is committed into
 *   a schema that was dropped
 * @param makesNamesAfterwards making names of completed entries alone: a metastore shows what was rolled back
 * @param notesNames putting that names were made: they are made again over what later entries make
 * @param heedsNotedNames looking for that: the same
 * @param makesNamesInOrder making names of earlier entries first: what they make comes last
 * @param knowsUnmadeNames names that entries have changed and metastores do not show yet: a transaction
 *   sees a name as it was before its snapshot
 * @param looksBeforeNames a query's look at the timeline before it asks a metastore: another thread of its
 *   process makes names in between, and it sees two tables under one name
 * @param readsRowsWithNames reading a query's rows as of its names, when one of these has changed since: it sees
 *   the rows of a transaction, and not its names
 * @param checksBatches looking before the order point for who has applied the same batch: it is applied twice
 * @param repairsNames putting right what a late client has made of names: they stay wrong
 * @param makesWhatIsOpen making, then, what nobody has noted to be made: it may have been made before, and is
 *   undone for good
 * @param distrustsNames looking whether a late client has left what a transaction found under a name: what
 *   the transaction makes of it is taken for somebody else's when the name is right again
 * @param repairsAtBegin putting right at BEGIN what late clients have left: nothing but that wrong names last
 *   longer; what copes with them is tested without
 * @param detachesNames making tables external whose names a late client may be about to drop: the metastore
 *   deletes their data
 * @param detachesAgain the same for the place of a view, once that is dropped: the metastore moves their data
 * @param setsAside dropping tables under names that nobody else uses: what others have put in their place goes
 * @param looksAside looking what was set aside: the same, where they were quicker than that
 * @param movesSchemas saying that a schema lies elsewhere before it is dropped: the metastore deletes its folder
 * @param waitsForNames waiting for others who have just begun to make the same names: nothing but that it is seldom
 *   needed to put them right; what does that is tested without
 * @param checksPurges looking whether others purge what we name or write, or the other way round: VACUUM DROPPED
 *   TABLES and UNDROP of one table are both committed
 * @param heedsOlder keeping a dropped table for transactions that began before it was dropped: they lose its data
 * @param heedsLeadingNames keeping one to which a name leads: the name's data are deleted
 * @param heedsLaterWrites keeping one that was written since it was dropped: what was written is deleted
 * @param looksBeforeDeleting the second look, right before the data are deleted: a table is deleted that others have
 *   made there since
 * @param deletesLogsFirst deleting a log, its oldest commit last, before the rest: others write to a table of
 *   which half is gone
 * @param looksForMade looking before the order point for a table that somebody else has made since:
 *   an ordered entry aborts needlessly
 * @param readsVersionZero reading whose version 0 stands where a table is to be made: that of somebody
 *   else passes for ours
 * @param checksKeptPins pinning again what a re-run keeps: it reads two snapshots
 */
private[lakestep] final case class Safeguards(
    closes: Boolean = true,
    decidesFirst: Boolean = true,
    marksBoundPins: Boolean = true,
    timelineFirst: Boolean = true,
    partsInMarks: Boolean = true,
    endsWithResidue: Boolean = true,
    listsFirst: Boolean = true,
    checksAfterPut: Boolean = true,
    obeysAborts: Boolean = true,
    binds: Boolean = true,
    reservesFirst: Boolean = true,
    conflictCapableFirst: Boolean = true,
    helpsReads: Boolean = true,
    timelineBeforeBindings: Boolean = true,
    readsForgotten: Boolean = true,
    checksKeptPins: Boolean = true,
    looksAgain: Boolean = true,
    looksForMade: Boolean = true,
    readsVersionZero: Boolean = true,
    checksNames: Boolean = true,
    countsSchemas: Boolean = true,
    makesNamesAfterwards: Boolean = true,
    notesNames: Boolean = true,
    heedsNotedNames: Boolean = true,
    makesNamesInOrder: Boolean = true,
    knowsUnmadeNames: Boolean = true,
    looksBeforeNames: Boolean = true,
    readsRowsWithNames: Boolean = true,
    checksBatches: Boolean = true,
    repairsNames: Boolean = true,
    makesWhatIsOpen: Boolean = true,
    distrustsNames: Boolean = true,
    repairsAtBegin: Boolean = true,
    detachesNames: Boolean = true,
    detachesAgain: Boolean = true,
    waitsForNames: Boolean = true,
    setsAside: Boolean = true,
    looksAside: Boolean = true,
    movesSchemas: Boolean = true,
    checksPurges: Boolean = true,
    heedsOlder: Boolean = true,
    heedsLeadingNames: Boolean = true,
    heedsLaterWrites: Boolean = true,
    looksBeforeDeleting: Boolean = true,
    deletesLogsFirst: Boolean = true)

private[lakestep] object Safeguards {
  val all: Safeguards = Safeguards()
}
