package io.lakestep.transaction

import java.util.WeakHashMap
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.DeltaHousekeeping
import io.lakestep.{Errors, LakestepConf}
import io.lakestep.commit.Database
import io.lakestep.log.TableRef

/** What a statement finds in its session. */
sealed trait SessionState
object SessionState {
  case object Idle extends SessionState
  final case class Open(transaction: Transaction) extends SessionState

  /** COMMIT runs, or failed. */
  final case class Failed(transaction: Transaction) extends SessionState
}

/**
 * At most one transaction for each Spark session of this process. Another session, also another
 * one of Spark Connect, is another client. Keyed by the session, never by a thread.
 */
object Transactions {

  private final class Slot(
      var transaction: Option[Transaction],
      /** By the root of the database. */
      var seenEntries: Map[String, Long],
      var seenVersions: Map[TableRef, Long],
      var lastConflict: Option[MetConflict],
      var lastJudged: (String, Vector[JudgedAssertion]))

  /** Setting of a session that names its open transaction. */
  private[transaction] val TransactionKey = "spark.lakestep.transaction"

  private val slots = new WeakHashMap[SparkSession, Slot]
  private val openById = new ConcurrentHashMap[String, Transaction]

  Metrics.gauge("open")(openById.size.toLong)
  Metrics.gauge("open.oldest.ms") {
    openById.values.asScala.map(_.begun.requestedAtMs).minOption
      .fold(0L)(System.currentTimeMillis() - _)
  }

  private def slot(session: SparkSession): Slot = slots.synchronized {
    slots.computeIfAbsent(
      session,
      _ => new Slot(None, Map.empty, Map.empty, None, "" -> Vector.empty)
    )
  }

  def state(session: SparkSession): SessionState = own(session) match {
    case SessionState.Idle if InternalClones.contains(session) => ofParent(session)
    case state => state
  }

  private def own(session: SparkSession): SessionState = {
    val state = stateOf(slots.synchronized(Option(slots.get(session)).flatMap(_.transaction)))
    state match {
      // RESET, or a SET of the user, took away what a clone is told by.
      case SessionState.Open(t) if !session.conf.getOption(TransactionKey).contains(t.id) =>
        session.conf.set(TransactionKey, t.id)
      case _ =>
    }
    state
  }

  private def stateOf(transaction: Option[Transaction]): SessionState =
    transaction.fold[SessionState](SessionState.Idle) { t =>
      t.state match {
        case TransactionState.Open | TransactionState.Rerunning => SessionState.Open(t)
        case TransactionState.Committing | TransactionState.Failed => SessionState.Failed(t)
        case TransactionState.Ended => SessionState.Idle
      }
    }

  /** Lets one BEGIN at a time look at the session's state and change it. */
  private[transaction] def beginning[T](session: SparkSession)(body: => T): T =
    slot(session).synchronized(body)

  /** A clone has the settings of its parent, so it knows the transaction in which it was made. */
  private def ofParent(clone: SparkSession): SessionState =
    clone.conf.getOption(TransactionKey).flatMap(id => Option(openById.get(id)))
      .fold[SessionState](SessionState.Idle)(SessionState.Open(_))

  /** The open transaction; none when idle; refused after a failed COMMIT. */
  def open(session: SparkSession): Option[Transaction] = state(session) match {
    case SessionState.Idle => None
    case SessionState.Open(transaction) => Some(transaction)
    case SessionState.Failed(failed) =>
      throw Errors("LAKESTEP_TRANSACTION_FAILED", "transaction" -> failed.id)
  }

  /** Also one whose COMMIT has failed. */
  private[lakestep] def openOrFailed(session: SparkSession): Option[Transaction] =
    state(session) match {
      case SessionState.Idle => None
      case SessionState.Open(transaction) => Some(transaction)
      case SessionState.Failed(failed) => Some(failed)
    }

  /** A statement of the open transaction has failed, if one is open. */
  def failed(session: SparkSession, cause: Throwable): Unit = state(session) match {
    case SessionState.Open(transaction) => transaction.failure.failed(cause)
    case _ =>
  }

  def isOpen(session: SparkSession): Boolean = state(session) != SessionState.Idle

  /** Whether the session refuses what would be committed by itself; also where the setting is wrong. */
  def isRequired(session: SparkSession): Boolean =
    session.conf.getOption(LakestepConf.RequireTransaction.key)
      .exists(!_.trim.equalsIgnoreCase("false")) && !InternalClones.contains(session)

  def isReadOnly(session: SparkSession): Boolean = state(session) match {
    case SessionState.Open(transaction) => transaction.isReadOnly
    case _ => false
  }

  /** Whether the session's transaction is one whose reads count. */
  def areReadsRecorded(session: SparkSession): Boolean = state(session) match {
    case SessionState.Open(transaction) => transaction.recordsReads
    case _ => false
  }

  /** Condition: LAKESTEP_TRANSACTION_ALREADY_ACTIVE. */
  def refuseOpen(session: SparkSession): Unit = open(session).foreach(t => throw alreadyActive(t))

  private[transaction] def alreadyActive(open: Transaction): Throwable =
    Errors("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "transaction" -> open.id)

  /** Whether an open transaction, of any session, holds a batch of this streaming query. */
  private[transaction] def holdsBatchOf(query: String): Boolean =
    openById.values.asScala.exists(_.begun.batch.exists(_.isOf(query)))

  def permitsVacuum(session: SparkSession): Boolean = state(session) match {
    case SessionState.Open(transaction) => transaction.permitsVacuum
    case _ => false
  }

  def isOpenTransaction(session: SparkSession, id: String): Boolean = state(session) match {
    case SessionState.Open(transaction) => transaction.id == id
    case _ => false
  }

  /** Whether this transaction is open or failed, so that ROLLBACK would end it. */
  def isCurrent(session: SparkSession, id: String): Boolean = state(session) match {
    case SessionState.Open(transaction) => transaction.id == id
    case SessionState.Failed(failed) => failed.id == id
    case SessionState.Idle => false
  }

  /** The newest entry of a database that this session has read or written: no BEGIN goes behind it. */
  def seenEntry(session: SparkSession, database: Database): Long = {
    val s = slot(session)
    slots.synchronized(s.seenEntries.getOrElse(database.root, -1L))
  }

  /** The newest version of each table, by its address, that this session has read or written. */
  private[transaction] def seenVersions(session: SparkSession): Map[TableRef, Long] = {
    val s = slot(session)
    slots.synchronized(s.seenVersions)
  }

  private[transaction] def saw(
      session: SparkSession,
      versions: Iterable[(TableRef, Long)]): Unit = {
    val s = slot(session)
    slots.synchronized {
      versions.foreach { case (table, version) =>
        val newest = math.max(s.seenVersions.getOrElse(table, -1L), version)
        s.seenVersions = s.seenVersions.updated(table, newest)
      }
    }
  }

  /** The conflict of the session's last COMMIT that met one, with the transaction's id. */
  private[lakestep] def lastConflict(session: SparkSession): Option[MetConflict] = {
    val s = slot(session)
    slots.synchronized(s.lastConflict)
  }

  /** What was found of assertions of the session's transaction, or of the last one that it had. */
  private[lakestep] def lastJudged(session: SparkSession): Vector[JudgedAssertion] = {
    val s = slot(session)
    val (of, judged) = slots.synchronized(s.lastJudged)
    if (openOrFailed(session).forall(_.id == of)) judged else Vector.empty
  }

  private[lakestep] def judged(
      session: SparkSession,
      transaction: Transaction,
      found: Vector[JudgedAssertion]): Unit = {
    val s = slot(session)
    slots.synchronized { s.lastJudged = transaction.id -> found }
  }

  private[transaction] def met(session: SparkSession, conflict: MetConflict): Unit = {
    val s = slot(session)
    slots.synchronized { s.lastConflict = Some(conflict) }
  }

  private[transaction] def saw(session: SparkSession, database: Database, entry: Long): Unit =
    saw(session, database.root, entry)

  private def saw(session: SparkSession, root: String, entry: Long): Unit = {
    val s = slot(session)
    slots.synchronized {
      val newest = math.max(s.seenEntries.getOrElse(root, -1L), entry)
      s.seenEntries = s.seenEntries.updated(root, newest)
    }
  }

  /** What a session has seen counts for another one, which works for it. */
  private[lakestep] def seeAs(session: SparkSession, from: SparkSession): Unit = {
    val theirs = slot(from)
    slots.synchronized(theirs.seenEntries).foreach { case (root, entry) =>
      saw(session, root, entry)
    }
    saw(session, seenVersions(from))
  }

  /** What a session learns of a transaction that ran for it in another one. */
  private[lakestep] def learn(session: SparkSession, from: SparkSession): Unit = {
    val (mine, theirs) = (slot(session), slot(from))
    seeAs(session, from)
    slots.synchronized { mine.lastConflict = theirs.lastConflict.orElse(mine.lastConflict) }
    from.conf.getOption(DeltaHousekeeping.LastCommitVersion)
      .foreach(session.conf.set(DeltaHousekeeping.LastCommitVersion, _))
  }

  /** BEGIN has made a transaction for the session. */
  private[transaction] def opened(session: SparkSession, transaction: Transaction): Unit = {
    val s = slot(session)
    slots.synchronized { s.transaction = Some(transaction) }
    tell(session, transaction)
  }

  /** The session's transaction goes on to another state. */
  private[transaction] def become(
      session: SparkSession,
      transaction: Transaction,
      state: TransactionState): Unit = {
    val s = slot(session)
    slots.synchronized {
      transaction.become(state)
      if (state == TransactionState.Ended) s.transaction = None
    }
    tell(session, transaction)
  }

  /** Lets clones of the session know whether its transaction is open. */
  private def tell(session: SparkSession, transaction: Transaction): Unit =
    if (transaction.state.runsStatements) {
      openById.put(transaction.id, transaction)
      session.conf.set(TransactionKey, transaction.id)
    } else {
      openById.remove(transaction.id)
      session.conf.unset(TransactionKey)
    }
}
