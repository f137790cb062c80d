package io.lakestep.commit

import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, Executors, ExecutorService}

import scala.jdk.CollectionConverters._

import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimitedTests}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

import io.lakestep.log.TableRef

final class BackgroundSuite extends AnyFunSuite with BeforeAndAfterAll with TimeLimitedTests {

  override val timeLimit: Span = Span(60, Seconds)
  override val defaultTestSignaler: Signaler = ThreadSignaler

  private val pool: ExecutorService = Executors.newFixedThreadPool(4)
  override protected def afterAll(): Unit = { pool.shutdownNow(); () }

  private val (a, b) = (TableRef("file:/a"), TableRef("file:/b"))

  private class Scene(most: Int = 100, carry: Runnable => Runnable = identity) {
    val done = new ConcurrentLinkedQueue[String]
    val background = new Background(pool, most, carry)
    def told: Vector[String] = done.asScala.toVector
    def say(what: String): () => Unit = () => { done.add(what); () }
    def isFlushed: Boolean = background.flush(30000)
  }

  test("nobody waits, and a stage begins when all of the one before it is done") {
    val s = new Scene
    val gate = new CountDownLatch(1)
    s.background(
      Seq(() => gate.await()),
      Seq(s.say("x"), () => throw new IllegalStateException("passed over"), s.say("y")),
      Seq(s.say("last"))
    )
    assert(s.told.isEmpty && !s.background.flush(1))
    gate.countDown()
    assert(s.isFlushed && s.told.toSet == Set("x", "y", "last") && s.told.last == "last")
  }

  test("work on one table is done in its order, on another one beside it") {
    val s = new Scene
    val gate = new CountDownLatch(1)
    s.background.inOrder(a, isAwaited = true)(gate.await())
    (1 to 50).foreach(n => s.background.inOrder(a, isAwaited = true)(s.say(s"a$n")()))
    s.background.inOrder(b, isAwaited = true)(s.say("b")())
    s.background.await(b, 30000)
    assert(s.told == Vector("b"))
    gate.countDown()
    s.background.await(a, 30000)
    assert(s.told == "b" +: (1 to 50).map(n => s"a$n"))
  }

  test("work that ends in an error of the JVM holds nothing up, and takes no room") {
    val s = new Scene(most = 2)
    val gate = new CountDownLatch(1)
    s.background.inOrder(a, isAwaited = true) {
      gate.await()
      throw new StackOverflowError
    }
    s.background.inOrder(a, isAwaited = false)(s.say("next")())
    gate.countDown()
    s.background.await(a, 60000)
    assert(s.isFlushed && s.told == Vector("next"))
    s.background(Seq(() => throw new StackOverflowError), Seq(s.say("stage")))
    assert(s.isFlushed && s.told == Vector("next", "stage"))
  }

  test("who waits for a table does so as long as he likes, not for long work, nor for himself") {
    val s = new Scene
    val gate = new CountDownLatch(1)
    s.background.inOrder(a, isAwaited = true)(gate.await())
    s.background.inOrder(b, isAwaited = false)(gate.await())
    s.background.await(a, 1)
    s.background.await(b, 60000)
    gate.countDown()
    s.background.inOrder(a, isAwaited = true) {
      s.background.await(a, 60000)
      s.say("not held up")()
    }
    assert(s.isFlushed && s.told == Vector("not held up"))
  }

  test("who waits for a table does not wait for what follows, and nobody needs") {
    val s = new Scene
    val gate = new CountDownLatch(1)
    s.background.inOrder(a, isAwaited = true)(s.say("needed")())
    s.background.inOrder(a, isAwaited = false)(gate.await())
    s.background.await(a, 30000)
    assert(s.told == Vector("needed") && !s.background.flush(1))
    gate.countDown()
    assert(s.isFlushed)
  }

  test("work is done with what was its caller's, also when another thread starts it") {
    val session = new ThreadLocal[String]
    val s = new Scene(carry = work => {
      val caller = session.get
      () => {
        session.set(caller)
        try work.run()
        finally session.remove()
      }
    })
    val gate = new CountDownLatch(1)
    for (caller <- Seq("first", "second")) {
      session.set(caller)
      s.background.inOrder(a, isAwaited = true) {
        gate.await()
        s.say(session.get)()
      }
    }
    gate.countDown()
    assert(s.isFlushed && s.told == Vector("first", "second"))
  }

  test("who adds more than there is room for waits until there is") {
    val s = new Scene(most = 2)
    val gate = new CountDownLatch(1)
    val adds = new Thread(() =>
      (1 to 3).foreach(n => s.background(Seq(() => { gate.await(); s.say(n.toString)() })))
    )
    adds.start()
    while (adds.getState != Thread.State.WAITING) Thread.onSpinWait()
    assert(s.told.isEmpty)
    gate.countDown()
    adds.join()
    assert(s.isFlushed && s.told.toSet == Set("1", "2", "3"))
  }
}
