package io.lakestep.commit

import java.util.concurrent.{
  CompletableFuture, ConcurrentHashMap, ExecutionException, Executor, Semaphore, TimeUnit,
  TimeoutException
}

import scala.util.control.NonFatal

import io.lakestep.log.TableRef

/**
 * Runs what follows the end of a transaction, and what nobody waits for: whatever goes wrong with it,
 * or is never done, matters to nobody but the one who cleans up.
 */
trait Afterwards {

  /** Stages, one after another; the pieces of work of one may run at once. */
  def apply(stages: Seq[() => Unit]*): Unit
}

object Afterwards {

  object CallingThread extends Afterwards {
    override def apply(stages: Seq[() => Unit]*): Unit =
      stages.flatten.foreach(piece => attempt(piece()))
  }

  private[commit] def attempt(work: => Unit): Unit =
    try work
    catch { case NonFatal(_) => () }
}

/**
 * On the threads of an executor. Whoever adds to work that is not getting done waits for room.
 *
 * @param most how many pieces of work may be left at a time
 * @param carry gives work what it needs of the thread that adds it
 */
final class Background(executor: Executor, most: Int, carry: Runnable => Runnable)
    extends Afterwards {
  import Background._

  private val room = new Semaphore(most, true)
  private val ofTables = new ConcurrentHashMap[TableRef, OfTable]

  /** Whether this thread is one of the executor's, at work. */
  private val isOwn = ThreadLocal.withInitial(() => false)

  override def apply(stages: Seq[() => Unit]*): Unit = {
    stages.foldLeft(Done) { (before, stage) =>
      CompletableFuture.allOf(stage.map { piece =>
        room.acquireUninterruptibly()
        run(before)(piece())
      }: _*)
    }
    ()
  }

  /**
   * Work on a table, once what was added for that table before it is done.
   *
   * @param isAwaited whether `await` waits for it
   */
  def inOrder(table: TableRef, isAwaited: Boolean)(work: => Unit): Unit = {
    room.acquireUninterruptibly()
    val added = ofTables.compute(
      table,
      (_, before) => {
        val done = run(Option(before).fold(Done)(_.done))(work)
        OfTable(done, if (isAwaited) done else Option(before).fold(Done)(_.awaited))
      }
    )
    added.done.whenComplete((_, _) => { ofTables.remove(table, added); () })
    ()
  }

  /** Waits for what is awaited of the work on a table, at most so long. */
  def await(table: => TableRef, timeoutMs: Long): Unit =
    if (!ofTables.isEmpty && !isOwn.get)
      Option(ofTables.get(table)).foreach { work =>
        try work.awaited.get(timeoutMs, TimeUnit.MILLISECONDS)
        catch { case _: TimeoutException | _: ExecutionException => () }
      }

  /** Waits for everything that was added before this call, at most so long; whether it is done. */
  def flush(timeoutMs: Long): Boolean = {
    val isDone = room.tryAcquire(most, timeoutMs, TimeUnit.MILLISECONDS)
    if (isDone) room.release(most)
    isDone
  }

  private def run(before: CompletableFuture[Void])(work: => Unit): CompletableFuture[Void] = {
    val carried = carry(() => Afterwards.attempt(work))
    // Also after a piece that ended in an error: its room is to be given back.
    before.handle[Void]((_, _) => null).thenRunAsync(
      () =>
        try {
          isOwn.set(true)
          carried.run()
        } finally {
          isOwn.set(false)
          room.release()
        },
      executor
    )
  }
}

private object Background {
  private val Done: CompletableFuture[Void] = CompletableFuture.completedFuture(null)

  private final case class OfTable(
      done: CompletableFuture[Void],
      awaited: CompletableFuture[Void])
}
