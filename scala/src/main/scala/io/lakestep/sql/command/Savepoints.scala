package io.lakestep.sql.command

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute

import io.lakestep.transaction.Lifecycle

/** About a savepoint of the open transaction. It runs again with the statements around it. */
sealed trait SavepointCommand extends TransactionCommand {
  override def output: Seq[Attribute] = Nil

  protected def act(session: SparkSession): Unit

  override def run(session: SparkSession): Seq[Row] = {
    act(session)
    Nil
  }
}

/** `SAVEPOINT`: a place to which the transaction can be taken back. */
final case class SetSavepoint(name: String) extends SavepointCommand {
  override protected def act(session: SparkSession): Unit = Lifecycle.setSavepoint(session, name)
}

/** `ROLLBACK TO`: everything that statements did after the savepoint is taken back. */
final case class RollbackToSavepoint(name: String) extends SavepointCommand {
  override protected def act(session: SparkSession): Unit = Lifecycle.rollbackTo(session, name)
}

/** `RELEASE SAVEPOINT`: it is forgotten, with those after it; what was done since stays. */
final case class ReleaseSavepoint(name: String) extends SavepointCommand {
  override protected def act(session: SparkSession): Unit =
    Lifecycle.releaseSavepoint(session, name)
}
