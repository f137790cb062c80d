package io.lakestep.testing

import scala.collection.mutable

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.commit.ManualClock
import io.lakestep.simulation.Workers

final class VirtualTimeSuite extends AnyFunSuite with BeforeAndAfterAll {

  private val workers = new Workers
  override protected def afterAll(): Unit = workers.close()

  private class Scene(seed: Long = 1) {
    val clock = new ManualClock
    val time = new VirtualTime(clock, workers, seed)
    private val startMs = clock.nowMs()
    val told = mutable.Buffer.empty[(Long, String)]
    def tell(what: String): Unit = told += ((clock.nowMs() - startMs, what))

    def waits(name: String, ms: Long*): () => Unit = () =>
      ms.foreach { step =>
        time.pause(step)
        tell(name)
      }
  }

  test("bodies wait side by side, and the clock moves to whose time comes next") {
    val s = new Scene
    s.time.play(s.waits("a", 10, 50), s.waits("b", 20, 20, 40))
    assert(s.told == Seq(10 -> "a", 20 -> "b", 40 -> "b", 60 -> "a", 80 -> "b"))
  }

  test("tasks run at once; who waits for them goes on when the last has ended") {
    val s = new Scene
    s.time.play { () =>
      val tasks = Vector(30L, 10L, 20L).map { ms => () =>
        s.time.run(Vector(ms, 2 * ms).map(m => () => s.time.pause(m)))
        if (ms == 10) throw new IllegalArgumentException("ten")
        ms
      }
      val results = s.time.run(tasks)
      s.tell(results.map(_.fold(_.getMessage, _.toString)).mkString(" "))
    }
    assert(s.told == Seq(60 -> "30 ten 20"))
  }

  test("nobody waits for what was begun but `play`") {
    val s = new Scene
    s.time.play { () =>
      s.time.begin(s.waits("begun", 30))
      s.waits("first", 10)()
    }
    assert(s.told == Seq(10 -> "first", 30 -> "begun"))
  }

  test("outside of `play` time passes for the caller alone") {
    val s = new Scene
    s.waits("caller", 10)()
    s.time.begin(s.waits("begun", 5))
    s.time.run(Vector(s.waits("one", 5), s.waits("two", 5)))
    assert(s.told == Seq(10 -> "caller", 15 -> "begun", 20 -> "one", 25 -> "two"))
  }

  test("the first failure comes out, after the others have ended, and then it is over") {
    val s = new Scene
    val bodies = Seq(() => throw new IllegalArgumentException("broken"), s.waits("whole", 10))
    assert(intercept[IllegalArgumentException](s.time.play(bodies: _*)).getMessage == "broken")
    s.time.play(s.waits("again", 10))
    assert(s.told == Seq(10 -> "whole", 20 -> "again"))
  }

  test("the same seed gives the same order of what happens at one time, another one another") {
    def order(seed: Long) = {
      val s = new Scene(seed)
      s.time.play((1 to 20).map(i => s.waits(s"$i", 10, 10)): _*)
      s.told.map(_._2)
    }
    assert(order(1) == order(1) && order(1) != order(2))
  }
}
