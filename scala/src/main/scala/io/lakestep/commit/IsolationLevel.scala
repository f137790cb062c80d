package io.lakestep.commit

/** What a transaction may be surprised by. */
sealed abstract class IsolationLevel(val name: String)

object IsolationLevel {

  /** Reads one snapshot; of two transactions that change one file one fails. Allows write skew. */
  case object Snapshot extends IsolationLevel("SNAPSHOT")

  /** As `Snapshot`, and fails when what it read has changed before its order point. */
  case object Serializable extends IsolationLevel("SERIALIZABLE")

  def parse(name: String): Option[IsolationLevel] =
    Seq(Snapshot, Serializable).find(_.name.equalsIgnoreCase(name))

  /** Throws IllegalArgumentException for any other name. */
  def named(name: String): IsolationLevel = parse(name).getOrElse(
    throw new IllegalArgumentException("neither SNAPSHOT nor SERIALIZABLE")
  )
}

/** What a statement says of a transaction; nothing where it leaves a mode open. */
final case class TransactionModes(
    isolation: Option[IsolationLevel] = None,
    readOnly: Option[Boolean] = None)
