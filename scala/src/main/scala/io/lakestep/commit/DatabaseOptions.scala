package io.lakestep.commit

/**
 * How a database works; nothing here changes what it promises.
 *
 * @param publishExecutor runs the work on different tables, at once or one after another
 * @param afterwards runs what follows the end of a transaction
 * @param maxAttempts how often an ABORT entry may lose its number
 * @param putAttempts how often a put without a clear answer is repeated
 * @param publishAttempts how often a table's slot may be taken by others before this client stops
 *   helping; the entry stays for the next one
 * @param syncDataFiles whether data files are made durable before the order point
 * @param conflicts what COMMIT does about entries in flight over its tables
 * @param longestWaitMs how long `conflicts` may wait for one entry, and COMMIT for its number
 * @param checkpointInterval how many entries of the timeline are between two checkpoints; up to twice
 *   as many are kept in memory
 * @param catalogs makes the catalog actions of entries
 * @param listener is told of transactions
 * @param pause lets the calling thread wait, in milliseconds
 */
final case class DatabaseOptions(
    publishExecutor: PublishExecutor = PublishExecutor.CallingThread,
    afterwards: Afterwards = Afterwards.CallingThread,
    maxAttempts: Int = 100,
    putAttempts: Int = 5,
    publishAttempts: Int = 10000,
    syncDataFiles: Boolean = true,
    rules: ConflictRules = ConflictCheck,
    conflicts: ConflictStrategy = FirstCommitterWins,
    longestWaitMs: Long = 600000L,
    checkpointInterval: Int = 64,
    catalogs: Catalogs = Catalogs.None,
    listener: TransactionListener = TransactionListener.Silent,
    pause: Long => Unit = Thread.sleep)
