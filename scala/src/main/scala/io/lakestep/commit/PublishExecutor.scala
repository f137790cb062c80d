package io.lakestep.commit

import java.util.concurrent.{CompletableFuture, CompletionException, Executor}

import scala.util.control.NonFatal

/** Runs the work on different tables of one transaction, at once or one after another. */
trait PublishExecutor {

  /**
   * Returns when every task has ended, whatever became of it; results in the order of the tasks.
   * Only what is fatal to the whole client may be thrown.
   */
  def run[A](tasks: Vector[() => A]): Vector[Either[Throwable, A]]

  /** The same work on many things; throws the first failure when all have ended. */
  final def all[A, B](items: Vector[A])(work: A => B): Vector[B] = {
    val results = run(items.map(i => () => work(i)))
    results.collectFirst { case Left(cause) => throw cause }
    results.collect { case Right(value) => value }
  }
}

object PublishExecutor {

  /** One task after another on the calling thread, so that everything happens in a fixed order. */
  object CallingThread extends PublishExecutor {
    override def run[A](tasks: Vector[() => A]): Vector[Either[Throwable, A]] = tasks.map { task =>
      try Right(task())
      catch { case NonFatal(e) => Left(e) }
    }
  }

  /** The first task on the calling thread, the others on those of an executor. */
  def on(executor: Executor): PublishExecutor = new PublishExecutor {
    override def run[A](tasks: Vector[() => A]): Vector[Either[Throwable, A]] =
      if (tasks.size < 2) CallingThread.run(tasks)
      else {
        val others =
          tasks.tail.map(task => CompletableFuture.supplyAsync[A](() => task(), executor))
        val first =
          try Right(tasks.head())
          catch { case e: Throwable => Left(e) }
        first +: others.map { future =>
          try Right(future.join())
          catch { case e: CompletionException => Left(Option(e.getCause).getOrElse(e)) }
        }
      }
  }
}
