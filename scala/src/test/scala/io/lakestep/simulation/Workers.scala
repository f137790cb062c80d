package io.lakestep.simulation

import java.util.concurrent.locks.LockSupport

import scala.collection.mutable

/**
 * Threads that run one at a time; one object of this class serves any number of histories, one
 * after another. Not thread-safe: only the thread with the baton, or the owner between two
 * histories, may call it.
 */
final class Workers extends AutoCloseable {

  final class Worker private[Workers] (number: Int) {
    @volatile private var job: Option[() => Unit] = None
    @volatile private var hasBaton = false
    @volatile private var closed = false

    private val thread = new Thread(() => loop(), s"simulation-$number")
    thread.setDaemon(true)
    thread.start()

    private def loop(): Unit =
      while (!closed) job match {
        case Some(work) =>
          job = None
          work()
        case None => LockSupport.park(this)
      }

    def assign(work: () => Unit): Unit = {
      job = Some(work)
      LockSupport.unpark(thread)
    }

    def baton(): Unit = {
      hasBaton = true
      LockSupport.unpark(thread)
    }

    def awaitBaton(): Unit = {
      while (!hasBaton) LockSupport.park(this)
      hasBaton = false
    }

    def release(): Unit = free += this

    private[Workers] def close(): Unit = {
      closed = true
      LockSupport.unpark(thread)
    }
  }

  private val free = mutable.ArrayBuffer.empty[Worker]
  private var made = Vector.empty[Worker]
  @volatile private var ended = false
  @volatile private var owner: Thread = Thread.currentThread

  def take(): Worker =
    if (free.nonEmpty) free.remove(free.size - 1)
    else {
      val worker = new Worker(made.size + 1)
      made = made :+ worker
      worker
    }

  def begin(): Unit = {
    owner = Thread.currentThread
    ended = false
  }

  def end(): Unit = {
    ended = true
    LockSupport.unpark(owner)
  }

  def awaitEnd(): Unit = while (!ended) LockSupport.park(this)

  override def close(): Unit = made.foreach(_.close())
}
