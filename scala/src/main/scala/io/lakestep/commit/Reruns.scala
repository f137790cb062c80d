package io.lakestep.commit

import scala.util.control.NonFatal

import io.lakestep.timeline.Conflict

/** Step 13: from which statement on a transaction is run again, and on which snapshot. */
private[commit] final class Reruns(env: Environment, pins: Pins, helping: Helping) {
  import env.{timeline, clock, safeguards}

  def apply(txn: BegunTransaction, touched: Seq[FirstTouch], conflict: Conflict): Option[Rerun] =
    touched.find(_.path.uri == conflict.path).map {
      met =>
        helping.all()
        val base = timeline.known.snapshot
        val now = txn.copy(
          snapshot = math.max(base.number, txn.snapshot),
          base = if (base.number > txn.snapshot) base else txn.base,
          requestedAtMs = math.max(clock.nowMs(), txn.requestedAtMs)
        )
        val changed = touched.filter(_.statement < met.statement).sortBy(_.statement)
          .find(!isUnchanged(now, _))
        Rerun(changed.getOrElse(met).statement, now)
    }

  private def isUnchanged(now: BegunTransaction, table: FirstTouch): Boolean =
    try
      !safeguards.checksKeptPins ||
        table.pin.slot.isDefined && {
          val again = pins(now.readPoint, table.path, table.pin.version, now.id)
          again.copy(log = None) == table.pin.copy(log = None) && table.pin.isOf(again.log)
        }
    catch { case NonFatal(_) => false }
}
