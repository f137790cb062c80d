package io.lakestep.commit

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.lakestep.Json
import io.lakestep.log.{LogCommit, SmallFiles, TableRef}
import io.lakestep.storage.Requests
import io.lakestep.timeline.TimelineCodec

/**
 * Step 4 of a transaction, then `Order` and `Finish`.
 *
 * Before the order point whatever throws has changed nothing that anybody reads. From the order
 * point on nothing but a foreign conflict can fail the transaction.
 */
private[commit] final class Commit(
    env: Environment,
    bindings: Bindings,
    finish: Finish,
    ofOthers: Names) {
  import env.{clock, timeline, observer}

  private val stage = new Stage(env, bindings)
  private val order = new Order(env, bindings, finish, stage, ofOthers)

  def apply(
      txn: BegunTransaction,
      tables: Seq[WrittenTable],
      reads: Seq[ReadTable],
      names: TouchedNames,
      compaction: Compaction): CommitOutcome = Requests.counting { requests =>
    val costs = new StepCosts(clock.steadyMs _, requests)
    val staged =
      try Right(costs("stage")(stage(txn, tables.toVector, compaction.isOn)))
      catch { case NonFatal(e) => Left(e) }
    val gone = staged.toSeq.flatten.collectFirst { case Left(conflict) => conflict }
    val written = staged.map(_.collect { case Right(s) if !s.changes.isEmpty => s })
    // Whoever ends a transaction by an ABORT entry deletes its staged commits after that.
    val ended = if (gone.isEmpty && written.exists(_.nonEmpty)) None else stage.ended(txn)
    (written, ended.orElse(gone)) match {
      case (_, Some(conflict)) => CommitOutcome.Conflicted(conflict)
      case (Left(cause), None) => throw cause
      case (Right(Vector()), None) if names.isEmpty && txn.batches.isEmpty =>
        CommitOutcome.NothingToCommit
      case (Right(found), None) =>
        // What takes its own change back has still been read.
        val unchanged =
          staged.toSeq.flatten.collect { case Right(s) if s.changes.isEmpty => s.table }
        val read = reads.toVector ++ unchanged.flatMap(_.asRead)
        stage.refuseOneLogTwice(found)
        val all = found.map(compacted(_, compaction))
        costs("stage")(stage.persist(txn, all, first = () => timeline.refresh())) match {
          case Some(conflict) => CommitOutcome.Conflicted(conflict)
          case None =>
            val work = ToOrder(txn, all, read, names, new KnownCommits, costs)
            order(work, timeline.known) match {
              case placed: Ordered.Placed => publish(placed, costs)
              case Ordered.Conflicting(conflict) => CommitOutcome.Conflicted(conflict)
              case Ordered.Unclear(cause) => CommitOutcome.Unknown(cause)
            }
        }
    }
  }

  private def compacted(staged: Staged, compaction: Compaction): Staged =
    if (staged.small.isEmpty) staged
    else {
      val by = compaction(staged.table, staged.small)
      SmallFiles.replace(staged.changes, staged.small, by)
        .fold(staged)(changes => staged.copy(changes = changes))
    }

  private def publish(ordered: Ordered.Placed, costs: StepCosts): CommitOutcome = {
    import ordered.entry
    try {
      if (!ordered.isDurable) env.keep(timeline.entryFile(entry.number))
      observer.ordered(entry)
      val hash = Json.blake3(TimelineCodec.encode(entry))
      val put = new ConcurrentLinkedQueue[(TableRef, LogCommit)]
      def tell(table: Int, commit: LogCommit): Unit = {
        put.add(entry.tables(table).path -> commit)
        ()
      }
      val (finished, told) = env.listening {
        costs("publish")(finish.own(entry, hash, ordered.changes, ordered.atHead, tell))
      }
      finished match {
        case Finished.Completed(slots) =>
          val own = put.asScala.toVector.groupMap(_._1)(_._2)
          val behind = told.collect { case TransactionEvent.CatalogBehind(of, cause) =>
            of.number -> cause
          }
          CommitOutcome.Committed(entry, slots, ordered.tries, own, costs.all, behind)
        case Finished.RolledBack(conflict, residue) =>
          val left = Residue.visible(residue)
          if (left.isEmpty) CommitOutcome.Conflicted(conflict, Some(entry.number))
          else CommitOutcome.LeftResidue(conflict, entry.number, left)
      }
    } catch {
      case e @ (NonFatal(_) | _: LinkageError) => CommitOutcome.Unknown(e, Some(entry.number))
      case e: InterruptedException =>
        Thread.currentThread.interrupt()
        CommitOutcome.Unknown(e, Some(entry.number))
    }
  }
}
