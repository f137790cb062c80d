package io.lakestep.sql.command

import org.apache.spark.sql.SparkSession

import io.lakestep.transaction.Lifecycle

/** `SAVEPOINT`: a place to which the transaction can be taken back. */
final case class SetSavepoint(name: String) extends StatementOfTransaction {
  override protected def act(session: SparkSession): Unit = Lifecycle.setSavepoint(session, name)
}

/** `ROLLBACK TO`: everything that statements did after the savepoint is taken back. */
final case class RollbackToSavepoint(name: String) extends StatementOfTransaction {
  override protected def act(session: SparkSession): Unit = Lifecycle.rollbackTo(session, name)
}

/** `RELEASE SAVEPOINT`: it is forgotten, with those after it; what was done since stays. */
final case class ReleaseSavepoint(name: String) extends StatementOfTransaction {
  override protected def act(session: SparkSession): Unit =
    Lifecycle.releaseSavepoint(session, name)
}
