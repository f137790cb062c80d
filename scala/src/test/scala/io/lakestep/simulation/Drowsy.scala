package io.lakestep.simulation

import java.util.SplittableRandom

import io.lakestep.timeline.{CommitEntry, EntryTable, Outcome}
import io.lakestep.transaction.CommitObserver

/** Lets a client fall asleep between the steps of the protocol, where others can do most harm. */
final class Drowsy(actor: Scheduler#Actor, random: SplittableRandom, percent: Int, napSteps: Int)
    extends CommitObserver {

  private def nap(): Unit = if (random.nextInt(100) < percent) actor.sleep(1 + random.nextInt(napSteps))

  override def timelineRead(transaction: String, next: Long): Unit = nap()
  override def validated(transaction: String): Unit = nap()
  override def ordered(entry: CommitEntry): Unit = nap()
  override def beforePublish(entry: CommitEntry, table: EntryTable, part: Int, slot: Long): Unit = nap()
  override def published(entry: CommitEntry, table: EntryTable, part: Int, slot: Long): Unit = nap()
  override def beforeDecision(entry: CommitEntry, outcome: Outcome): Unit = nap()
  override def decided(entry: CommitEntry, outcome: Outcome): Unit = nap()
  override def beforeSettle(entry: CommitEntry, table: EntryTable, slot: Long): Unit = nap()
  override def beforeRolledBack(entry: CommitEntry): Unit = nap()
  override def pinned(transaction: String, tablePath: String, version: Long): Unit = nap()
}
