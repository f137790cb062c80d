package io.lakestep.commit

import io.lakestep.log.{FileAction, ForeignWriters}
import io.lakestep.timeline.{CommitEntry, EntryTable, FileSums, RowIds, TimelineView}

/** Step 6: the entry that says what was validated. */
private[commit] final class EntryOf(env: Environment) {
  import env.{clock, options}

  /** @param staged with the net actions that are published */
  def apply(
      txn: BegunTransaction,
      view: TimelineView,
      staged: Vector[Staged],
      validated: Validated,
      names: TouchedNames): CommitEntry = CommitEntry(
    number = view.next,
    previousHash = view.lastHash,
    timeMs = clock.nowMs(),
    rules = options.rules.version,
    transaction = txn.requested,
    tables = reserving(staged.zip(validated.written).map { case (s, c) => s -> entryTable(s, c) }),
    reads = validated.reads,
    names = names.changes,
    purges = names.purges,
    batches = txn.batches,
    assertions = txn.assertions,
    undoes = txn.undoes
  )

  /**
   * Fences for tables of mode `reserve`, where there is something that could be undone: at least two
   * tables that a foreign commit can conflict with.
   */
  private def reserving(tables: Vector[(Staged, EntryTable)]): Vector[EntryTable] = {
    val contested = tables.count { case (_, t) => t.conflictCapable && !t.closed }
    tables.map {
      case (s, t)
          if contested > 1 && t.conflictCapable && t.parts == 1 &&
            isMode(s, ForeignWriters.Reserve) =>
        t.copy(reserve = s.table.pinned.map(_.protocol.body))
      case (_, t) => t
    }
  }

  private def isMode(s: Staged, mode: String): Boolean =
    s.table.pinned.exists(p => ForeignWriters.mode(p.metaData) == mode)

  private def entryTable(s: Staged, c: Checked): EntryTable = EntryTable(
    log = s.binding.log,
    tableId = s.table.tableId,
    path = s.table.path,
    name = s.table.name,
    metastore = s.table.metastore,
    pin = s.table.pin,
    base = c.head,
    baseSlot = c.slot.map(Environment.stamp),
    parts = s.changes.parts.size,
    conflictCapable =
      OurChanges.of(s.changes.parts, c.reads, s.changes.bakesRows)
        .isConflictCapable(s.changes.parts.size),
    // The property alone, set by somebody else, keeps nobody out.
    closed = isMode(s, ForeignWriters.Forbid) &&
      s.table.pinned.exists(p => ForeignWriters.isFenced(p.protocol)),
    reserve = None,
    reads = c.reads,
    actionsHash = s.changes.hash,
    metaDataHash = s.table.pinned.map(p => env.hashOf(p.metaData.body)),
    protocolHash = s.table.pinned.map(p => env.hashOf(p.protocol.body)),
    inCommitTimestamps = s.table.inCommitTimestamps,
    inCommitTimestampMs = c.inCommitTimestampMs,
    rowIds = Option.when(s.table.rowTracking) {
      val pinned = s.table.rowIdHighWaterMark.getOrElse(-1L)
      RowIds(pinned, c.rowIdHighWaterMark.getOrElse(pinned), s.changes.bakesRows)
    },
    added = sums(s.changes.adds),
    removed = sums(s.changes.removes),
    operations = s.changes.parts.flatMap(_.operations)
  )

  private def sums(files: Vector[FileAction]): FileSums =
    FileSums(files.size.toLong, files.flatMap(_.liveRows).sum, files.map(_.sizeBytes).sum)
}
