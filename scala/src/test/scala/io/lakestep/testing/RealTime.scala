package io.lakestep.testing

import java.util.concurrent.{ConcurrentLinkedQueue, Executors, Future}

import scala.util.Try

import io.lakestep.commit.{ManualClock, PublishExecutor}

/** What clients wait in, and do side by side. */
trait PassingTime extends PublishExecutor {

  /**
   * Runs these side by side, from now on; returns when they have ended and whatever they began.
   * Throws their first failure.
   */
  def play(bodies: (() => Unit)*): Unit

  /** Runs this beside the body that calls, which does not wait for it. */
  def begin(body: () => Unit): Unit

  /** The body that calls goes on so much later. */
  def pause(ms: Long): Unit
}

/** The time of this machine, which a clock follows. Each body has a thread of its own. */
final class RealTime(clock: ManualClock) extends PassingTime {
  private val fromMs = clock.nowMs()
  private val began = System.nanoTime
  private val begun = new ConcurrentLinkedQueue[Future[Unit]]
  private val threads = Executors.newCachedThreadPool { task =>
    val thread = new Thread(task)
    thread.setDaemon(true)
    thread
  }

  override def play(bodies: (() => Unit)*): Unit = {
    bodies.foreach(begin)
    Iterator.continually(begun.poll()).takeWhile(_ != null).foreach(_.get())
    follow()
  }

  override def begin(body: () => Unit): Unit = {
    begun.add(threads.submit(() => body()))
    ()
  }

  override def pause(ms: Long): Unit = {
    Thread.sleep(ms)
    follow()
  }

  override def run[A](tasks: Vector[() => A]): Vector[Either[Throwable, A]] =
    if (tasks.size < 2) PublishExecutor.CallingThread.run(tasks)
    else
      tasks.map(task => threads.submit(() => Try(task()).toEither)).map(_.get())

  private def follow(): Unit = synchronized {
    clock.advance((fromMs + (System.nanoTime - began) / 1000000 - clock.nowMs()).max(0L))
  }
}
