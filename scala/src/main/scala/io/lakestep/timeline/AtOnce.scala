package io.lakestep.timeline

/** The same work on many things, at once or one after another; throws the first failure. */
trait AtOnce {
  def apply[A, B](items: Vector[A])(work: A => B): Vector[B]
}

object AtOnce {
  object OneByOne extends AtOnce {
    override def apply[A, B](items: Vector[A])(work: A => B): Vector[B] = items.map(work)
  }
}
