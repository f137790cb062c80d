package io.lakestep.simulation

import scala.collection.mutable

/** What happened in any number of histories. Not thread-safe; one for each runner, then summed. */
final class Counts {
  val requests: Array[Long] = new Array[Long](Request.all.size + 1)
  private val faults = Array.ofDim[Long](Request.all.size + 1, Fault.all.size)
  private val events = mutable.TreeMap.empty[String, Long]

  def request(kind: Request): Unit = requests(kind.index) += 1
  def fault(kind: Request, fault: Fault): Unit = faults(kind.index)(fault.index) += 1
  def event(name: String, by: Long = 1L): Unit = events(name) = events.getOrElse(name, 0L) + by

  def of(kind: Request, fault: Fault): Long = faults(kind.index)(fault.index)
  def of(event: String): Long = events.getOrElse(event, 0L)

  def add(other: Counts): Unit = {
    Request.all.foreach { r =>
      requests(r.index) += other.requests(r.index)
      Fault.all.foreach(f => faults(r.index)(f.index) += other.of(r, f))
    }
    other.events.foreach { case (name, count) => event(name, count) }
  }

  /** A table for people: events, then requests by kind with their faults. */
  def report: String = {
    val lines = events.map { case (name, count) => f"$count%12d $name" }.toVector
    val head = "request".padTo(22, ' ') + "number".padTo(12, ' ') +
      Fault.all.map(_.toString.padTo(13, ' ')).mkString.stripTrailing
    val table = Request.all.filter(r => requests(r.index) > 0).map { r =>
      r.toString.padTo(22, ' ') + requests(r.index).toString.padTo(12, ' ') +
        Fault.all.map(f => cell(r, f).padTo(13, ' ')).mkString.stripTrailing
    }
    (lines ++ (head +: table)).mkString("\n")
  }

  private def cell(request: Request, fault: Fault): String =
    if (Fault.of(request).contains(fault)) of(request, fault).toString else "-"

  /** Kinds of request that never met a fault that can meet them. */
  def unmet: Vector[(Request, Fault)] =
    for (r <- Request.all; f <- Fault.of(r) if of(r, f) == 0) yield r -> f
}
