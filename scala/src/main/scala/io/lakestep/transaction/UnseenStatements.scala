package io.lakestep.transaction

/**
 * The statements that a user typed one by one in an open transaction, for as long as nobody has
 * seen anything of the database through it. Then they may be run again at COMMIT, on what others
 * have written.
 *
 * Whatever is in doubt counts as seen: each statement that begins must end well, one after another,
 * before the next begins.
 */
final class UnseenStatements {

  private var steps = Vector.empty[Step]
  private var begun = Option.empty[(AnyRef, Savepoint, Thread)]
  private var isSeen = false

  /** Somebody has seen, or may have seen, a result. */
  def see(): Unit = synchronized { isSeen = true }

  /** As `see`, for what may also be a part of the statement that this thread has begun. */
  def seeApart(): Unit = synchronized {
    if (!begun.exists(_._3 eq Thread.currentThread)) isSeen = true
  }

  /** A statement is about to be analysed. Also called again for the same one. */
  def begin(statement: AnyRef, mark: => Savepoint): Unit = synchronized {
    begun match {
      case None if !isSeen => begun = Some((statement, mark, Thread.currentThread))
      case Some((known, _, _)) if known eq statement =>
      case _ => isSeen = true
    }
  }

  /** It has ended well, and its own result has not been shown. */
  def end(statement: AnyRef, run: () => Unit): Unit = synchronized {
    begun match {
      case Some((known, mark, _)) if known eq statement =>
        steps :+= Step(mark, run)
        begun = None
      case _ => isSeen = true
    }
  }

  /** All statements, when they are unseen. */
  def unseen: Vector[Step] = synchronized {
    if (isSeen || begun.nonEmpty) Vector.empty else steps
  }
}
