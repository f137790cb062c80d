package io.lakestep.simulation

import java.util.SplittableRandom

import scala.collection.mutable
import scala.util.control.ControlThrowable

/** Thrown out of every request of a client that has crashed; nothing that client does has an effect. */
final class Crashed extends ControlThrowable

/**
 * Lets exactly one actor run at a time and chooses the next one by a seeded random.
 *
 * Straight-line code runs on pooled threads that hand one baton to each other at scheduling points,
 * so a seed gives the same history always, and no lock or time is involved. Every field is touched
 * only by the thread that holds the baton.
 *
 * An actor has a phase: it runs when no actor of a lower phase is left.
 *
 * @param stayPercent how often the running actor goes on at a scheduling point
 * @param maxSteps a history that needs more is abandoned
 */
final class Scheduler(
    workers: Workers,
    random: SplittableRandom,
    stayPercent: Int,
    maxSteps: Int = 20000) {

  final class Actor private[Scheduler] (val name: String, body: Actor => Unit) {
    private[Scheduler] var worker: Option[Workers#Worker] = None
    private[Scheduler] var sleepsUntil = 0
    private[Scheduler] var waitsFor: () => Boolean = Scheduler.always

    var phase: Int = 0
    var isDone: Boolean = false

    /** What the body threw, unless it was a crash. */
    var failure: Option[Throwable] = None

    private[Scheduler] def isReady: Boolean = sleepsUntil <= step

    private[Scheduler] def run(): Unit =
      try body(this)
      catch {
        case _: Crashed => ()
        case e: Throwable => failure = Some(e)
      } finally {
        isDone = true
        worker.foreach(_.release())
        passOn()
      }

    /** A scheduling point: somebody else may run before this returns. */
    def yieldNow(): Unit = {
      choose() match {
        case Some(next) if next ne this =>
          hand(next)
          worker.foreach(_.awaitBaton())
        case _ => ()
      }
      if (isAbandoned) throw new Crashed
    }

    /** Sleeps for so many steps, or until everybody else of the phase has finished or sleeps. */
    def sleep(steps: Int): Unit = {
      sleepsUntil = step + steps
      yieldNow()
    }

    def sleepUntilPhase(later: Int): Unit = {
      phase = phase.max(later)
      // Not ready, so that another one goes on, until nobody of an earlier phase is left.
      sleepsUntil = Int.MaxValue / 2
      yieldNow()
    }

    /** Waits for this, or until nobody else of the phase can go on. */
    def await(condition: () => Boolean): Unit = {
      waitsFor = condition
      yieldNow()
      waitsFor = Scheduler.always
    }
  }

  /** The number of scheduling points so far. */
  var step: Int = 0

  /** Whether the history was cut off because it did not end. */
  var isAbandoned: Boolean = false

  private val actors = mutable.ArrayBuffer.empty[Actor]
  private val effects = mutable.ArrayBuffer.empty[() => Unit]
  private var current: Option[Actor] = None
  private var reached = 0

  def all: Seq[Actor] = actors.toSeq

  def spawn(name: String, phase: Int = 0)(body: Actor => Unit): Actor = {
    val actor = new Actor(name, body)
    actor.phase = phase
    actors += actor
    actor
  }

  /** Happens at some later step, at the latest when nobody of this phase is left to run. */
  def later(effect: () => Unit): Unit = effects += effect

  /** Returns when every actor has ended. */
  def run(): Unit = {
    workers.begin()
    passOn()
    workers.awaitEnd()
  }

  /** The actor that holds the baton. */
  def running: Actor = current.getOrElse(throw new IllegalStateException("nobody runs"))

  /** Runs all of these as actors of their own, and waits until each has ended. */
  def runAll(names: Vector[String], bodies: Vector[() => Unit]): Unit = {
    val parent = running
    val children = names.zip(bodies).map { case (name, body) =>
      spawn(name, parent.phase)(_ => body())
    }
    while (!children.forall(_.isDone)) {
      parent.phase = parent.phase.max(children.filterNot(_.isDone).map(_.phase).min)
      parent.await(() => children.forall(_.isDone))
    }
    actors --= children
    children.flatMap(_.failure).headOption.foreach(e => throw e)
  }

  private def passOn(): Unit = choose() match {
    case Some(next) => hand(next)
    case None => workers.end()
  }

  private def hand(next: Actor): Unit = next.worker match {
    case Some(worker) => worker.baton()
    case None =>
      val worker = workers.take()
      next.worker = Some(worker)
      worker.assign(() => next.run())
  }

  private def choose(): Option[Actor] = {
    step += 1
    if (step > maxSteps) isAbandoned = true
    current match {
      case Some(a) if !a.isDone && a.isReady && a.waitsFor() && random.nextInt(100) < stayPercent =>
        current
      case _ => pick()
    }
  }

  @scala.annotation.tailrec
  private def pick(): Option[Actor] = {
    val left = actors.filterNot(_.isDone)
    val phase = if (left.isEmpty) Int.MaxValue else left.iterator.map(_.phase).min
    val able = left.filter(a => a.phase == phase && (isAbandoned || a.waitsFor()))
    val ready = able.filter(_.isReady)
    if (effects.nonEmpty && (phase > reached || random.nextInt(ready.size + 6) == 0)) {
      effects.remove(random.nextInt(effects.size))()
      pick()
    } else {
      reached = phase
      val from =
        if (ready.nonEmpty) ready else if (able.nonEmpty) able else left.filter(_.phase == phase)
      current = if (from.isEmpty) None else Some(from(random.nextInt(from.size)))
      current.foreach(_.sleepsUntil = 0)
      current
    }
  }
}

object Scheduler {
  private val always: () => Boolean = () => true
}
