package io.lakestep.commit

import io.lakestep.timeline.{CatalogAction, CommitEntry}

/**
 * Makes the catalog actions of committed transactions, in their order.
 *
 * Called when the outcome of an entry is `completed`, by whoever finishes it, also by several at once
 * and again after a crash: an action that was made, or that a later one has overtaken, changes
 * nothing. What is thrown is told to the listener and fails no transaction.
 */
trait Catalogs {
  def apply(entry: CommitEntry, action: CatalogAction): Unit
}

object Catalogs {

  /** Of a client that has none. */
  object None extends Catalogs {
    override def apply(entry: CommitEntry, action: CatalogAction): Unit =
      throw new UnsupportedOperationException(s"no catalog for ${action.kind}")
  }
}
