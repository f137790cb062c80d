package io.lakestep.commit

import java.util.concurrent.{Executor, Executors, TimeUnit}

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

final class PublishExecutorSuite extends AnyFunSuite {

  private def onPool[A](threads: Int)(work: PublishExecutor => A): A = {
    val pool = Executors.newFixedThreadPool(threads)
    val caller = Executors.newSingleThreadExecutor()
    try caller.submit(() => work(PublishExecutor.on(pool))).get(60, TimeUnit.SECONDS)
    finally Seq(pool, caller).foreach(_.shutdownNow())
  }

  test("tasks that run tasks themselves end, however small the pool is") {
    for (threads <- 1 to 3) onPool(threads) { executor =>
      def count(depth: Int): Int =
        if (depth == 0) 1 else executor.all(Vector(1, 2, 3))(_ => count(depth - 1)).sum
      assert(count(5) == 243)
    }
  }

  test("each task runs once, and an executor that never does anything keeps nobody from an end") {
    val idle = mutable.Buffer.empty[Runnable]
    val executor = PublishExecutor.on(new Executor {
      override def execute(task: Runnable): Unit = { idle += task; () }
    })
    var ran = Vector.empty[Int]
    assert(executor.all(Vector(1, 2, 3)) { i => ran :+= i; 10 * i } == Vector(10, 20, 30))
    idle.foreach(_.run())
    assert(ran == Vector(1, 2, 3))
  }

  test("a failure keeps no task from its end") {
    onPool(2) { executor =>
      val failed = executor.run(Vector(1, 2, 3).map { i => () =>
        if (i == 2) throw new IllegalArgumentException("two")
        i
      })
      assert(failed.map(_.left.map(_.getMessage)) == Vector(Right(1), Left("two"), Right(3)))
    }
  }
}
