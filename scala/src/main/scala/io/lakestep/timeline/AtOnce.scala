package io.lakestep.timeline

/** The same work on many things, at once or one after another; throws the first failure. */
trait AtOnce {
  def apply[A, B](items: Vector[A])(work: A => B): Vector[B]

  /** Two things. */
  final def both[A, B](one: => A, other: => B): (A, B) = {
    lazy val first = one
    lazy val second = other
    apply(Vector(() => first, () => second))(_())
    (first, second)
  }
}

object AtOnce {
  object OneByOne extends AtOnce {
    override def apply[A, B](items: Vector[A])(work: A => B): Vector[B] = items.map(work)
  }
}
