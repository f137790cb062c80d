package io.lakestep.transaction

import java.util.concurrent.ThreadLocalRandom

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.{DeltaHousekeeping, SparkInternals}
import io.lakestep.LakestepConf
import io.lakestep.timeline.Conflict

/**
 * How a transaction stood before one of its statements.
 *
 * @param staged the last staged version of each table
 * @param sessionChanges how many statements had changed the session
 * @param environment settings, current catalog and schema of the session, names of its own
 */
final case class Savepoint(
    tables: Map[String, TransactionTable.State],
    staged: Map[String, Long],
    sessionChanges: Int,
    environment: Map[String, String]) {

  /** Whether statements after this one would run again under what they ran under. */
  def isSameSession(other: Savepoint): Boolean =
    sessionChanges == other.sessionChanges && environment == other.environment
}

object Savepoint {

  /** Set by Delta and by us, and of no effect on a statement. */
  private val Ours = Set(Transactions.TransactionKey, DeltaHousekeeping.LastCommitVersion)

  def of(session: SparkSession, transaction: Transaction): Savepoint = {
    val names = Map(
      "current catalog" -> session.catalog.currentCatalog(),
      "current schema" -> session.catalog.currentDatabase,
      // A statement that changes what they mean is one that changes the session, or is seen.
      "temporary names" -> SparkInternals.temporaryNames(session).sorted.mkString(",")
    )
    transaction.mark(session.conf.getAll -- Ours ++ names)
  }
}

/** A statement of the transaction that can be run again. */
final case class Step(before: Savepoint, run: () => Unit)

/**
 * How often one piece of work may still be tried. Before each further try it waits a random time,
 * from a range that doubles, so that clients that disturb one another move apart.
 */
final class Attempts private (most: Int, timeoutMs: Long) {
  import Attempts._

  private val started = System.nanoTime()
  private var made = 1
  private var isGranted = false

  /** Whether there may be another; waits before it says yes. Asked again it is the same one. */
  def another(): Boolean = {
    val isLate = (System.nanoTime() - started) / 1000000 >= timeoutMs
    if (!isGranted && made < most && !isLate) {
      val longest = math.min(FirstWaitMs << math.min(made, 10), LongestWaitMs)
      Thread.sleep(ThreadLocalRandom.current.nextLong(longest))
      made += 1
      isGranted = true
    }
    isGranted
  }

  def begin(): Unit = isGranted = false
}

object Attempts {
  private val FirstWaitMs = 50L
  private val LongestWaitMs = 5000L

  def of(session: SparkSession): Attempts = new Attempts(
    LakestepConf.MaxAttempts.from(session.conf.getOption),
    LakestepConf.TimeoutMs.from(session.conf.getOption)
  )
}

/** Work that lost to another client's commit, once more. */
private[lakestep] object Redo {

  /**
   * The whole, from BEGIN.
   *
   * @param work leaves no transaction open when it throws
   * @param mayRepeat asked after a conflict; anything else is raised at once
   */
  @tailrec
  def whole[T](attempts: Attempts)(work: => T)(mayRepeat: => Boolean): T = {
    val result =
      try Right(work)
      catch {
        case e: ConflictException => Left(e)
      }
    result match {
      case Right(value) => value
      case Left(_) if mayRepeat && attempts.another() =>
        attempts.begin()
        whole(attempts)(work)(mayRepeat)
      case Left(conflict) => throw conflict
    }
  }

  /**
   * Step 13: the statements from the first that the conflict concerns. To be called at COMMIT, when
   * the transaction has no entry.
   *
   * @return the statements as they stand now; else the conflict stays, as it does when a table that
   *         they change was replaced or given another schema meanwhile, with the failure of the one
   *         that could not be run again, if one could not
   */
  def statements(
      session: SparkSession,
      transaction: Transaction,
      steps: Vector[Step],
      conflict: Conflict,
      attempts: Attempts): Either[Option[Throwable], Vector[Step]] =
    if (steps.isEmpty || !conflict.rule.isOverData || !attempts.another()) Left(None)
    else
      try
        transaction.rerun(conflict, steps.map(_.before)).filter { r =>
          val now = Savepoint.of(session, transaction)
          steps.drop(r.statement).forall(_.before.isSameSession(now))
        }.flatMap { rerun =>
          attempts.begin()
          val shapes = transaction.shapes
          DeltaHousekeeping.uncache(session, transaction.touched.map(_.overlay).toSet)
          DeltaHousekeeping.forgetStagedVersion(session)
          val invalidate: Path => Unit = DeltaHousekeeping.invalidate(session, _)
          transaction.touched.map(_.overlay).foreach(invalidate)
          val (kept, again) = steps.splitAt(rerun.statement)
          transaction.rewind(again.head.before, rerun.txn, invalidate)
          Transactions.saw(session, transaction.database, rerun.txn.snapshot)
          Transactions.set(session, SessionState.Open(transaction))
          val done = transaction.redo(again.map { step =>
            val before = Savepoint.of(session, transaction)
            step.run()
            step.copy(before = before)
          })
          Option.when(transaction.shapes.forall { case (table, shape) =>
            shapes.get(table).forall(_ == shape)
          })(kept ++ done)
        }.toRight(None)
      catch { case NonFatal(failure) => Left(Some(failure)) }
      finally Transactions.set(session, SessionState.Failed(transaction))
}
