package io.lakestep.commit

/**
 * What a part of a COMMIT took.
 *
 * @param step `stage` (step 4), `validate` (5), `order` (6) or `publish` (7 and 8)
 * @param requests to stores
 */
final case class StepCost(step: String, tookMs: Long, requests: Long)

/** Measures the parts of one COMMIT, one after another on its thread; what is done again adds up. */
private[commit] final class StepCosts(nowMs: () => Long, requests: () => Long) {
  private var costs = Vector.empty[StepCost]

  def apply[A](step: String)(work: => A): A = {
    val (ms, asked) = (nowMs(), requests())
    try work
    finally {
      val cost = StepCost(step, nowMs() - ms, requests() - asked)
      costs = costs.find(_.step == step) match {
        case Some(c) =>
          val sum = StepCost(step, c.tookMs + cost.tookMs, c.requests + cost.requests)
          costs.map(other => if (other eq c) sum else other)
        case None => costs :+ cost
      }
    }
  }

  def all: Vector[StepCost] = costs
}
