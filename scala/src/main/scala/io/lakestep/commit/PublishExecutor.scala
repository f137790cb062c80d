package io.lakestep.commit

import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{CompletableFuture, Executor}

import scala.util.control.NonFatal

import io.lakestep.timeline.AtOnce

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

  final def atOnce: AtOnce = new AtOnce {
    override def apply[A, B](items: Vector[A])(work: A => B): Vector[B] = all(items)(work)
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

  /**
   * On the calling thread and those of an executor. Who waits does what nobody has begun, and so waits
   * only for work that somebody does: tasks may run tasks themselves, whatever the executor's size.
   */
  def on(executor: Executor): PublishExecutor = new PublishExecutor {
    override def run[A](tasks: Vector[() => A]): Vector[Either[Throwable, A]] = {
      val all = tasks.map(new Task(_))
      all.drop(1).foreach(executor.execute(_))
      all.foreach(_.run())
      all.map(_.result.join())
    }
  }

  /** Is done once, by whoever is the first to run it. */
  private final class Task[A](work: () => A) extends Runnable {
    private val isBegun = new AtomicBoolean
    val result = new CompletableFuture[Either[Throwable, A]]
    override def run(): Unit = if (isBegun.compareAndSet(false, true)) {
      result.complete(
        try Right(work())
        catch { case e: Throwable => Left(e) }
      )
      ()
    }
  }
}
