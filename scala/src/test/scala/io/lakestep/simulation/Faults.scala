package io.lakestep.simulation

import java.util.SplittableRandom

/** The kinds of request a client makes to its store. */
sealed abstract class Request(val index: Int)

object Request {
  case object Put extends Request(0)
  case object Get extends Request(1)
  case object List extends Request(2)
  case object Exists extends Request(3)
  case object Delete extends Request(4)
  case object DeleteFolder extends Request(5)
  case object Sync extends Request(6)
  val all: Vector[Request] = Vector(Put, Get, List, Exists, Delete, DeleteFolder, Sync)
}

/** What goes wrong with one request. */
sealed abstract class Fault(val index: Int, val onlyPut: Boolean)

object Fault {

  /** The client stops before the request has an effect. */
  case object CrashBefore extends Fault(0, false)

  /** The client stops after the request has had its effect. */
  case object CrashAfter extends Fault(1, false)

  /** The client sleeps before the request, longer than others need for a transaction. */
  case object Sleep extends Fault(2, false)

  /** The request fails and has no effect. */
  case object Refused extends Fault(3, false)

  /** The effect happens, its answer is lost. */
  case object AnswerLost extends Fault(4, true)

  /** There is neither effect nor answer. */
  case object RequestLost extends Fault(5, true)

  /** There is no answer, and the effect happens later. */
  case object Delayed extends Fault(6, true)

  /** The client stops, and the effect happens later. */
  case object DelayedCrash extends Fault(7, true)

  val all: Vector[Fault] =
    Vector(CrashBefore, CrashAfter, Sleep, Refused, AnswerLost, RequestLost, Delayed, DelayedCrash)
}

/**
 * Draws the faults of one client.
 *
 * @param perMille how many of a thousand requests go wrong
 * @param budget how many go wrong at most
 * @param napPercent how often the client falls asleep for a while before a put
 * @param napSteps how long at most
 */
final class Faults(
    random: SplittableRandom,
    perMille: Int,
    private var budget: Int,
    napPercent: Int,
    napSteps: Int) {

  /** How many steps to sleep before this request, where nothing goes wrong; mostly none. */
  def pause(request: Request): Int = {
    val perTenThousand = if (request == Request.Put) napPercent * 100 else napPercent * 10
    if (perTenThousand == 0 || random.nextInt(10000) >= perTenThousand) 0
    else 1 + random.nextInt(napSteps)
  }

  def draw(request: Request): Option[Fault] =
    if (budget <= 0 || random.nextInt(1000) >= perMille) None
    else {
      budget -= 1
      val kinds = if (request == Request.Put) Fault.all else Fault.all.filterNot(_.onlyPut)
      Some(kinds(random.nextInt(kinds.size)))
    }

  /** How long a sleep lasts; `None` = until all others have finished and recovered. */
  def sleep(): Option[Int] = random.nextInt(4) match {
    case 0 => None
    case 1 => Some(Int.MaxValue / 2)
    case _ => Some(5 + random.nextInt(200))
  }
}

object Faults {
  def none: Faults = new Faults(new SplittableRandom(0L), 0, 0, 0, 1)
}
