package io.lakestep.commit

import io.lakestep.timeline.{CommitEntry, EntryTable, Outcome, RolledBack}
import io.lakestep.log.TableRef

/**
 * Is told of every numbered step of the protocol, so that a test can interleave or crash there.
 *
 * Called on the thread that does the step. What a method throws ends the client's work at that
 * point, as a crash would. `before…` is told ahead of the request to the store, the rest after it.
 */
trait CommitSteps {
  def beforeRequested(transaction: String): Unit = ()
  def requested(transaction: String): Unit = ()

  /** Step 1. */
  def bound(tablePath: TableRef): Unit = ()

  /** Step 3. */
  def pinned(transaction: String, tablePath: TableRef, version: Long): Unit = ()

  /** Step 4. */
  def flattened(transaction: String, tablePath: TableRef): Unit = ()

  /** Step 5a. */
  def timelineRead(transaction: String, next: Long): Unit = ()

  /** Step 5b. */
  def helped(transaction: String): Unit = ()

  /** Step 5c. */
  def validated(transaction: String): Unit = ()

  /** Step 6. */
  def beforeOrder(entry: CommitEntry): Unit = ()
  def ordered(entry: CommitEntry): Unit = ()

  /** Step 7; `slot` is where the part is put next. */
  def beforePublish(entry: CommitEntry, table: EntryTable, part: Int, slot: Long): Unit = ()
  def published(entry: CommitEntry, table: EntryTable, part: Int, slot: Long): Unit = ()

  /** Step 8. */
  def beforeDecision(entry: CommitEntry, outcome: Outcome): Unit = ()
  def decided(entry: CommitEntry, outcome: Outcome): Unit = ()

  /** Step 9; `slot` is where the CLOSE or UNDO commit is put next. */
  def beforeSettle(entry: CommitEntry, table: EntryTable, slot: Long): Unit = ()
  def settled(entry: CommitEntry, table: EntryTable, slot: Long): Unit = ()
  def beforeRolledBack(entry: CommitEntry): Unit = ()
  def rolledBack(entry: CommitEntry, end: RolledBack): Unit = ()

  /** Step 14: what the entry has made of names is about to be made in the metastores, and was. */
  def beforeNames(entry: CommitEntry): Unit = ()
  def namesMade(entry: CommitEntry): Unit = ()

  /** Step 18: the snapshot is there, VACUUM has said what it cuts, a copy of a log counts. */
  def snapshotPut(name: String): Unit = ()
  def cutPut(tablePath: TableRef): Unit = ()
  def logCopied(tablePath: TableRef): Unit = ()

  /** After the end: staged files and the REQUESTED file are about to go. */
  def beforeCleanUp(transaction: String): Unit = ()

  /** After COMMIT, for which it does not wait: the checksums of a table are about to be put, and were. */
  def beforeChecksums(tablePath: TableRef): Unit = ()
  def checksumsPut(tablePath: TableRef): Unit = ()
}

object CommitSteps {
  object Silent extends CommitSteps
}
