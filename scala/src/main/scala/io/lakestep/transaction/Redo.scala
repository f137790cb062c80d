package io.lakestep.transaction

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

import org.apache.spark.sql.delta.lakestep.DeltaHousekeeping
import io.lakestep.commit.{FirstTouch, Rerun, TransactionEvent}
import io.lakestep.log.TableRef
import io.lakestep.timeline.Conflict

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
   * Step 13: the statements from the first that the conflict concerns, of a transaction that changes no name. To be called at COMMIT, when
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
    if (steps.isEmpty || !transaction.names.state.isEmpty || !conflict.rule.isOverData || !attempts.another())
      Left(None)
    else
      try
        rerun(transaction, conflict, steps.map(_.before)).filter { r =>
          val now = transaction.savepoint(SessionEnvironment.of(session))
          // What names meant to the statements that are kept must be what they mean then.
          transaction.database.timeline.known.lastNames <= transaction.begun.snapshot &&
          steps.drop(r.statement).forall(_.before.isSameSession(now))
        }.flatMap { rerun =>
          attempts.begin()
          val shapesBefore = shapes(transaction)
          DeltaHousekeeping.forgetStagedVersion(session)
          val forget: Path => Unit = DeltaHousekeeping.forget(session, _)
          transaction.touched.map(_.overlay).foreach(forget)
          val (kept, again) = steps.splitAt(rerun.statement)
          transaction.rollbackTo(again.head.before, keepPins = false, keepReads = false, forget)
          transaction.continueFrom(rerun.txn)
          Transactions.saw(session, transaction.database, rerun.txn.snapshot)
          transaction.database.tell(
            TransactionEvent.Rerunning(transaction.begun, conflict, again.size)
          )
          Transactions.become(session, transaction, TransactionState.Rerunning)
          val done = transaction.inTurn(again.map { step =>
            val before = transaction.savepoint(SessionEnvironment.of(session))
            step.run()
            step.copy(before = before)
          })
          Option.when(shapes(transaction).forall { case (table, shape) =>
            shapesBefore.get(table).forall(_ == shape)
          })(kept ++ done)
        }.toRight(None)
      catch { case NonFatal(failure) => Left(Some(failure)) }
      finally
        if (transaction.state == TransactionState.Rerunning)
          Transactions.become(session, transaction, TransactionState.Committing)

  /** Where to go on after a conflict, when a mark was set before each statement. */
  private def rerun(
      transaction: Transaction,
      conflict: Conflict,
      marks: Vector[Savepoint]): Option[Rerun] = {
    val touches = transaction.touched.map { table =>
      val base = table.base.toString
      FirstTouch(table.ref, table.pinned, marks.lastIndexWhere(!_.tables.contains(base)))
    }
    transaction.database.rerun(transaction.begun, touches, conflict).filter(_.statement >= 0)
      .map(r => r.copy(statement = beforeSavepoints(transaction, marks, r.statement)))
  }

  /** A statement that was taken back later runs again from the savepoint on: what it read is gone. */
  @tailrec
  private def beforeSavepoints(
      transaction: Transaction,
      marks: Vector[Savepoint],
      first: Int): Int = {
    val stood = marks :+ transaction.savepoint(Map.empty)
    def takesBack(step: Int) = stood(step).staged.exists { case (table, version) =>
      stood(step + 1).staged.get(table).forall(_ < version)
    }
    val savepoints = for {
      step <- marks.indices.drop(first) if takesBack(step)
      point <- stood(step + 1).named.lastOption
      set <- marks.indices.find(i => stood(i + 1).named.exists(_ eq point))
    } yield set
    val earliest = (first +: savepoints).min
    if (earliest == first) first else beforeSavepoints(transaction, marks, earliest)
  }

  /** Of the tables that statements change: which it is, and its schema, at the pin. */
  private def shapes(transaction: Transaction): Map[TableRef, (String, String)] =
    transaction.touched.flatMap(table => table.shape.map(table.ref -> _)).toMap
}
