package io.lakestep.transaction

/** Where a transaction stands between BEGIN and its end; see `next`. */
sealed abstract class TransactionState(val runsStatements: Boolean)

object TransactionState {

  case object Open extends TransactionState(runsStatements = true)

  /** Whatever is thrown until the outcome is known, no statement runs outside of what it began in. */
  case object Committing extends TransactionState(runsStatements = false)

  /** COMMIT runs statements again that met a conflict. */
  case object Rerunning extends TransactionState(runsStatements = true)

  /** COMMIT failed: as in PostgreSQL every statement is refused until ROLLBACK. */
  case object Failed extends TransactionState(runsStatements = false)
  case object Ended extends TransactionState(runsStatements = false)

  /** The states that may follow. */
  def next(state: TransactionState): Set[TransactionState] = state match {
    case Open => Set(Committing, Ended)
    case Committing => Set(Rerunning, Failed, Ended)
    // The second, where an assertion fails after it.
    case Rerunning => Set(Committing, Open)
    case Failed => Set(Ended)
    case Ended => Set.empty
  }
}
