package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{
  CommittedTransaction, OptimisticTransaction, TransactionExecutionObserver
}
import org.apache.spark.sql.delta.hooks.{CheckpointHook, PostCommitHook}

import io.lakestep.Errors

/** Of a statement of a transaction: Delta may write overlays under it. */
private[lakestep] trait OverlayObserver extends TransactionExecutionObserver

/**
 * Refuses every Delta transaction that starts on a base table while the session has an open
 * Lakestep transaction, or may write in one alone, whichever way it came, every one on a table that only
 * transactions may write, and every one on an overlay that is not part of a statement of its
 * transaction; everything else goes to the observer that was there before. A transaction that is being
 * published in the table is finished first, as what it has put there may have to be taken back.
 */
private[lakestep] final class BaseTransactionBackstop(
    private[lakestep] val inner: TransactionExecutionObserver,
    isInTransaction: SparkSession => Boolean,
    isRequired: SparkSession => Boolean,
    finish: (SparkSession, Path) => Boolean,
    committed: (SparkSession, Path, Long) => Unit,
    needs: (SparkSession, Path) => Option[LogCleanup.Needs])
    extends TransactionExecutionObserver {

  override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction =
    inner.startingTransaction {
      // Making the object reads the log and writes nothing; only it knows its table.
      val transaction = f
      val table = DeltaReference(transaction.deltaLog.dataPath, None)
      val session = BaseTransactionBackstop.session
      if (table.isOverlay) {
        if (inner.isInstanceOf[OverlayObserver]) transaction
        else throw Errors("LAKESTEP_OVERLAY_PATH", "path" -> table.path.toString)
      } else if (session.exists(isInTransaction)) {
        throw Errors("LAKESTEP_DELTA_TRANSACTION_ON_BASE_TABLE", "table" -> table.display)
      } else if (session.exists(isRequired)) {
        throw Errors(
          "LAKESTEP_TRANSACTION_REQUIRED",
          "statement" -> "A commit of Delta's",
          "target" -> table.display
        )
      } else {
        val isClosed =
          DeltaFence.isOn(transaction.snapshot) && DeltaFence.stays(transaction.snapshot)
        // After the reading: what is in it is known to the timeline by now.
        val now = if (!isClosed && session.exists(finish(_, table.path))) f else transaction
        if (DeltaFence.isOn(now.snapshot))
          throw Errors("LAKESTEP_TABLE_FORBIDS_FOREIGN_WRITERS", "table" -> table.display)
        noted(session, now)
      }
    }

  private def noted(
      session: Option[SparkSession],
      transaction: OptimisticTransaction): OptimisticTransaction = {
    session.foreach { client =>
      transaction.registerPostCommitHook(new PostCommitHook {
        override val name: String = "Lakestep: a version that a session has written"
        override def run(spark: SparkSession, done: CommittedTransaction): Unit =
          committed(client, done.deltaLog.dataPath, done.committedVersion)
      })
      transaction.unregisterPostCommitHooksWhere(_ == CheckpointHook)
      transaction.registerPostCommitHook(new OutsideCheckpoint(needs(client, _)))
    }
    transaction
  }

  override def createChild(): TransactionExecutionObserver = inner.createChild()

  override def preparingCommit[T](f: => T): T = inner.preparingCommit(f)

  override def beginDoCommit(): Unit = inner.beginDoCommit()

  override def beginBackfill(): Unit = inner.beginBackfill()

  override def beginPostCommit(): Unit = inner.beginPostCommit()

  override def transactionCommitted(): Unit = inner.transactionCommitted()

  override def transactionAborted(): Unit = inner.transactionAborted()

  override def getNextObserver: Option[TransactionExecutionObserver] = inner.getNextObserver

  override def setNextObserver(next: TransactionExecutionObserver): Unit =
    inner.setNextObserver(next)

  /** Puts the next observer in place of the inner one; the backstop stays around it. */
  override def advanceToNextThreadObserver(): Unit = inner.advanceToNextThreadObserver()
}

/**
 * Installs the backstop for every thread of this process, present and future.
 *
 * Delta keeps its observer in a ThreadLocal, so setting it would protect only threads that run
 * statements through us: not a py4j thread whose first act is `DeltaTable.upgradeTableProtocol`,
 * not Spark Connect's, not the thread pools of Delta's commands. Delta's ThreadLocal is a field of
 * a trait and so has a setter; this puts a ThreadLocal in its place that keeps the observers where
 * they were and wraps whatever is taken out. A contract test holds that the setter exists.
 */
object BaseTransactionBackstop {

  private val Observers = TransactionExecutionObserver
  private val Setter =
    "org$apache$spark$sql$delta$ThreadStorageExecutionObserver$_setter_$threadObserver_$eq"

  @volatile private var isInTransaction: SparkSession => Boolean = _ => false
  @volatile private var isRequired: SparkSession => Boolean = _ => false
  @volatile private var finish: (SparkSession, Path) => Boolean = (_, _) => false
  @volatile private var committed: (SparkSession, Path, Long) => Unit = (_, _, _) => ()
  @volatile private var needs: (SparkSession, Path) => Option[LogCleanup.Needs] = (_, _) => None

  /**
   * Idempotent. What is given last counts; it must be thread-safe.
   *
   * @param required whether a session without a transaction may write nothing
   * @param finishing finishes the transactions that are being published in a table, if there are any
   * @param noting told of each version that a session has committed to a base table
   * @param keeping what the clean-up of the log after that has to leave, if that is to be asked
   */
  def install(
      predicate: SparkSession => Boolean,
      required: SparkSession => Boolean,
      finishing: (SparkSession, Path) => Boolean,
      noting: (SparkSession, Path, Long) => Unit = (_, _, _) => (),
      keeping: (SparkSession, Path) => Option[LogCleanup.Needs] = (_, _) => None): Unit =
    synchronized {
      isInTransaction = predicate
      isRequired = required
      finish = finishing
      committed = noting
      needs = keeping
      current match {
        case _: OnEveryThread =>
        case delta => replace(new OnEveryThread(delta))
      }
    }

  /** Puts Delta's own ThreadLocal back. */
  private[lakestep] def uninstall(): Unit = synchronized {
    isInTransaction = _ => false
    isRequired = _ => false
    current match {
      case ours: OnEveryThread => replace(ours.delta)
      case _ =>
    }
  }

  /**
   * The session that Delta itself would use on this thread. A thread without one cannot run
   * anything of Delta's.
   */
  private[lakestep] def session: Option[SparkSession] =
    SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession)

  private type Observer = TransactionExecutionObserver

  private final class OnEveryThread(val delta: ThreadLocal[Observer])
      extends ThreadLocal[Observer] {

    override def get(): Observer =
      new BaseTransactionBackstop(
        delta.get(),
        session => isInTransaction(session),
        session => isRequired(session),
        (session, table) => finish(session, table),
        (session, table, version) => committed(session, table, version),
        (session, table) => needs(session, table)
      )

    override def set(observer: Observer): Unit = delta.set(observer match {
      case backstop: BaseTransactionBackstop => backstop.inner
      case other => other
    })

    override def remove(): Unit = delta.remove()
  }

  private def current: ThreadLocal[Observer] =
    Observers.getClass.getMethod("threadObserver").invoke(Observers)
      .asInstanceOf[ThreadLocal[Observer]]

  private def replace(threadLocal: ThreadLocal[Observer]): Unit = {
    Observers.getClass.getMethod(Setter, classOf[ThreadLocal[_]]).invoke(Observers, threadLocal)
    ()
  }
}
