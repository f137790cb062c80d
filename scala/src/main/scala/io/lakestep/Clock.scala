package io.lakestep

/** Tells the time. The protocol uses it as a hint only: no decision depends on two clocks. */
trait Clock {

  /** Milliseconds since 1970. */
  def nowMs(): Long

  /** Milliseconds that only go on, from some point in the past: for how long something took. */
  def steadyMs(): Long = System.nanoTime() / 1000000
}

object Clock {

  /** The clock of this machine. */
  val system: Clock = () => System.currentTimeMillis()
}
