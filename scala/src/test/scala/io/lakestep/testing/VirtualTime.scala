package io.lakestep.testing

import scala.collection.mutable
import scala.util.Random

import io.lakestep.commit.{ManualClock, PublishExecutor}
import io.lakestep.simulation.Workers

/**
 * Time that passes only while everybody waits, for a while or for work that others do.
 *
 * Straight-line code of any number of clients runs on pooled threads that hand one baton to each
 * other: whoever waits gives it to the one whose time comes next, and the clock moves on to then.
 * So no computation takes time, nothing sleeps, and the same bodies give the same history always.
 * Of several whose time is the same a seeded random chooses.
 *
 * Who waits must not hold a lock. Outside of `play` the only body is the caller's. Every field is
 * touched only by the thread with the baton.
 */
final class VirtualTime(clock: ManualClock, workers: Workers, seed: Long = 1)
    extends PassingTime {

  /** A body that has begun or will. */
  private final class Strand(body: () => Unit) {
    private var worker = Option.empty[Workers#Worker]

    /** Hands it the baton. */
    def resume(): Unit = worker match {
      case Some(begun) => begun.baton()
      case None =>
        val free = workers.take()
        worker = Some(free)
        free.assign { () =>
          try body()
          catch { case e: Throwable => failure = failure.orElse(Some(e)) }
          free.release()
          next().fold(workers.end())(_.resume())
        }
    }

    def awaitBaton(): Unit = worker.foreach(_.awaitBaton())
  }

  /** When a strand goes on. */
  private case class Due(atMs: Long, lot: Int, number: Long, strand: Strand)

  private val chance = new Random(seed)
  private val due = mutable.PriorityQueue.empty[Due](
    Ordering.by((d: Due) => (d.atMs, d.lot, d.number)).reverse
  )
  private var numbers = 0L
  private var running = Option.empty[Strand]
  private var failure = Option.empty[Throwable]

  override def play(bodies: (() => Unit)*): Unit = {
    workers.begin()
    bodies.foreach(body => schedule(new Strand(body), 0))
    next().foreach { first =>
      first.resume()
      workers.awaitEnd()
    }
    failure.foreach { e =>
      failure = None
      throw e
    }
  }

  override def begin(body: () => Unit): Unit =
    if (running.isEmpty) body() else schedule(new Strand(body), 0)

  override def pause(ms: Long): Unit = running match {
    case None => clock.advance(ms)
    case Some(strand) =>
      schedule(strand, ms)
      waits(strand)
  }

  override def run[A](tasks: Vector[() => A]): Vector[Either[Throwable, A]] = running match {
    case Some(parent) if tasks.size > 1 =>
      val results = Array.ofDim[Either[Throwable, A]](tasks.size)
      var left = tasks.size
      for ((task, i) <- tasks.zipWithIndex) begin { () =>
        results(i) =
          try Right(task())
          catch { case e: Throwable => Left(e) }
        left -= 1
        if (left == 0) schedule(parent, 0)
      }
      waits(parent)
      results.toVector
    case _ => PublishExecutor.CallingThread.run(tasks)
  }

  private def schedule(strand: Strand, inMs: Long): Unit = {
    numbers += 1
    due += Due(clock.nowMs() + inMs, chance.nextInt(), numbers, strand)
  }

  /** Lets others run until it is the strand's time. */
  private def waits(strand: Strand): Unit = next() match {
    case Some(other) if other eq strand => ()
    case Some(other) =>
      other.resume()
      strand.awaitBaton()
    case None => throw new IllegalStateException("everybody waits for somebody else")
  }

  /** Whose time comes next, which is now. */
  private def next(): Option[Strand] = {
    running = Option.when(due.nonEmpty) {
      val first = due.dequeue()
      clock.advance(first.atMs - clock.nowMs())
      first.strand
    }
    running
  }
}
