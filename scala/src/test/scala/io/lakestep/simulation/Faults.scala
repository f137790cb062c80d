package io.lakestep.simulation

import java.util.SplittableRandom

/** What goes wrong with one request. */
sealed abstract class Fault(val index: Int)

object Fault {

  /** The client stops before the request has an effect. */
  case object CrashBefore extends Fault(0)

  /** The client stops after the request has had its effect. */
  case object CrashAfter extends Fault(1)

  /** The client sleeps before the request, longer than others need for a transaction. */
  case object Sleep extends Fault(2)

  /** The request fails and has no effect. */
  case object Refused extends Fault(3)

  /** The effect happens, its answer is lost. */
  case object AnswerLost extends Fault(4)

  /** There is neither effect nor answer. */
  case object RequestLost extends Fault(5)

  /** There is no answer, and the effect happens later. */
  case object Delayed extends Fault(6)

  /** The client stops, and the effect happens later. */
  case object DelayedCrash extends Fault(7)

  val all: Vector[Fault] =
    Vector(CrashBefore, CrashAfter, Sleep, Refused, AnswerLost, RequestLost, Delayed, DelayedCrash)

  /**
   * What can go wrong with a kind of request. The rest is impossible by construction:
   *  - a request that only reads, or only waits (sync), has no effect that could come without its
   *    answer, or later; a lost answer is a refusal to its client;
   *  - a delete whose request is lost is one that is refused.
   */
  def of(request: Request): Vector[Fault] = request.verb match {
    case Verb.Put => all
    case _ if request.changes => all.filterNot(_ == RequestLost)
    case _ => Vector(CrashBefore, CrashAfter, Sleep, Refused)
  }
}

/**
 * Draws the faults of one client.
 *
 * @param perMille how many of a thousand requests go wrong, of kinds that are often made
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
    val perTenThousand = if (request.verb == Verb.Put) napPercent * 100 else napPercent * 10
    if (perTenThousand == 0 || random.nextInt(10000) >= perTenThousand) 0
    else 1 + random.nextInt(napSteps)
  }

  def draw(request: Request): Option[Fault] =
    if (!goesWrong(request)) None
    else {
      budget -= 1
      val kinds = Fault.of(request)
      Some(kinds(random.nextInt(kinds.size)))
    }

  /** What only purges ask for is too rare for the budget. */
  private def goesWrong(request: Request): Boolean = request match {
    case Request.DeleteFolderTable | Request.ListSnapshots =>
      perMille > 0 && random.nextInt(3) == 0
    case _ => budget > 0 && random.nextInt(1000) < perMille * Faults.weight(request)
  }

  def inAnyOrder[A](all: Vector[A]): Vector[A] =
    all.map(random.nextInt() -> _).sortBy(_._1).map(_._2)

  /** How long a sleep lasts; `None` = until all others have finished and recovered. */
  def sleep(): Option[Int] = random.nextInt(4) match {
    case 0 => None
    case 1 => Some(Int.MaxValue / 2)
    case _ => Some(5 + random.nextInt(200))
  }
}

object Faults {

  /** Requests that are seldom made go wrong more often, so that each fault meets each of them. */
  private def weight(request: Request): Int = Weights.getOrElse(request, 1)

  private val Weights: Map[Request, Int] = Map(
    Request.PutFormat -> 3,
    Request.PutEntry -> 3,
    Request.PutAbortEntry -> 20,
    Request.PutOutcome -> 3,
    Request.PutRolledBack -> 120,
    Request.PutPublish -> 2,
    Request.PutReserve -> 20,
    Request.PutClose -> 60,
    Request.PutUndo -> 80,
    Request.PutForeign -> 3,
    Request.PutCheckpoint -> 15,
    Request.PutTimelineCheckpoint -> 20,
    Request.GetRolledBack -> 10,
    Request.GetRequested -> 40,
    Request.GetCheckpoint -> 5,
    Request.GetNetActions -> 3,
    Request.GetTimelineCheckpoint -> 20,
    Request.ListStaged -> 4,
    Request.ListRequested -> 5,
    Request.ExistsRequested -> 120,
    Request.ExistsTimelineCheckpoint -> 5,
    Request.ExistsStaged -> 40,
    Request.ExistsDataFile -> 30,
    Request.DeleteStaged -> 12,
    Request.DeleteNetActions -> 20,
    Request.DeleteSlot -> 15,
    Request.DeleteDataFile -> 20,
    Request.DeleteTimelineCheckpoint -> 150,
    Request.SyncEntry -> 3,
    Request.SyncOutcome -> 2,
    Request.SyncNetActions -> 80,
    Request.SyncSlot -> 2,
    Request.PutApplied -> 25,
    Request.ExistsApplied -> 12,
    Request.PutMaking -> 20,
    Request.ListMakings -> 10,
    Request.DeleteMaking -> 20,
    Request.AskName -> 4,
    Request.AskSchema -> 8,
    Request.ListNames -> 15,
    Request.ChangeName -> 15,
    Request.ChangeSchema -> 90
  )

  def none: Faults = new Faults(new SplittableRandom(0L), 0, 0, 0, 1)
}
