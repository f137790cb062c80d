package io.lakestep.transaction

import org.apache.spark.sql.SparkSession

import io.lakestep.log.TableRef

/**
 * Deletes the files that a transaction has written and that no commit will name; nobody waits for that. Not
 * for a transaction whose end is unknown, or that has an entry and was rolled back: versions of the log may
 * name them. What a query may still read stays, too.
 */
private[transaction] object Unpublished {

  /** Of a transaction that has no entry, and gets none. */
  def discard(session: SparkSession, transaction: Transaction): Unit =
    remove(session, transaction, _.isNew, transaction.compacted.all, keepsFiles = false) {
      transaction.database.discard(
        transaction.begun,
        transaction.touchedPaths,
        if (transaction.readers.mayRead) Nil else transaction.stagedVersions(!_.isNew)
      )
    }

  /** Of one that is committed: what was taken back, and tables that are not made after all. */
  def afterCommit(
      session: SparkSession,
      transaction: Transaction,
      published: TableRef => Boolean): Unit =
    remove(
      session,
      transaction,
      t => t.isNew && !published(t.ref),
      transaction.compacted.unnamed,
      keepsFiles = transaction.names.hasClones
    )()

  /** @param keepsFiles whether tables that are made may name data files of those that are not */
  private def remove(
      session: SparkSession,
      transaction: Transaction,
      isUnmade: TransactionTable => Boolean,
      compacted: Vector[String],
      keepsFiles: Boolean)(before: => Unit = ()): Unit = {
    val unread = if (transaction.readers.mayRead) Vector.empty else transaction.takenBack.files
    val taken = unread ++ compacted
    val tables = transaction.touched.toVector.filter(isUnmade)
    val unmade = new UnmadeTables(transaction, tables, session.sessionState.newHadoopConf())
    val folders = Seq(() => unmade.removeFolders(taken)).filterNot(_ => unmade.isEmpty)
    before
    val made = if (keepsFiles) Vector.empty else unmade.files
    transaction.database.deleteFiles((taken ++ made).distinct, folders: _*)
  }
}
