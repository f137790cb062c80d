package io.lakestep.commit

import io.lakestep.log.TableRef
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NameKey, NamedObject}

/**
 * The metastores that this client has: what names stand for in them, and how committed transactions
 * change that.
 */
trait Catalogs {

  /** Whether this client has the metastore with that id, and may change it. */
  def has(metastore: String): Boolean

  /** As `has`, also where the metastore does not answer which one it is. */
  def mayHave(metastore: String): Boolean

  /** As `has`, by what the metastore says now. */
  def isStill(metastore: String): Boolean

  /** What a name stands for now. */
  def find(key: NameKey): Option[NamedObject]

  /** Names of tables, views and functions in a schema. */
  def inside(schema: NameKey): Set[String]

  /**
   * Whether a client that was late with one of these changes of a name may have left it so: it is not
   * what the last of them has made.
   */
  def mayBeLeft(changes: Vector[NameChange], now: Option[NamedObject]): Boolean

  /** Of these places, those to which a name of a table leads, or into or around which: with that name. */
  def namesAt(places: Vector[TableRef]): Map[TableRef, String]

  /**
   * Makes the changes of names that an entry holds, of the metastores that this client has, in their order.
   *
   * Called when the outcome of an entry is `completed`, by whoever comes first, also by several at once
   * and again after a crash: a change that was made, or that a later one has overtaken, changes
   * nothing. Deletes and moves no folder.
   *
   * @param making what this client is called that does it
   * @param again what is made of a change by which a name goes from one kind to another, to be asked when
   *              it is free
   * @return why changes were not made that can never be: somebody else has taken the name meanwhile. What is
   *         thrown may be tried again; [[Catalogs.NothingChanged]] where that is certain.
   */
  def apply(
      entry: CommitEntry,
      making: Making,
      again: NameChange => NameChange): Vector[Throwable]

  /**
   * Changes what a client has left in names of an entry that was late there, or ended halfway, to what the
   * last entry says. Names that stand for something else have been changed by somebody else, and stay.
   *
   * @param entries that entry, and completed later ones over its names, in order
   * @param atRisk managed tables that are to be external now, and schemas that stay as they are
   * @param left what the client was called
   * @param making what this one is called
   * @param again as of `apply`
   * @return as `apply`
   */
  def repair(
      entries: Vector[CommitEntry],
      atRisk: Set[NameKey],
      left: Making,
      making: Making,
      again: NameChange => NameChange): Vector[Throwable]
}

object Catalogs {

  /** A failure before the first change. */
  final class NothingChanged(cause: Throwable) extends RuntimeException(cause)

  /** Of a client that has none. */
  object None extends Catalogs {
    override def has(metastore: String): Boolean = false
    override def mayHave(metastore: String): Boolean = false
    override def isStill(metastore: String): Boolean = false
    override def find(key: NameKey): Option[NamedObject] = scala.None
    override def inside(schema: NameKey): Set[String] = Set.empty
    override def mayBeLeft(changes: Vector[NameChange], now: Option[NamedObject]): Boolean = false
    override def namesAt(places: Vector[TableRef]): Map[TableRef, String] = Map.empty
    override def apply(
        entry: CommitEntry,
        making: Making,
        again: NameChange => NameChange): Vector[Throwable] = Vector.empty
    override def repair(
        entries: Vector[CommitEntry],
        atRisk: Set[NameKey],
        left: Making,
        making: Making,
        again: NameChange => NameChange): Vector[Throwable] = Vector.empty
  }
}
