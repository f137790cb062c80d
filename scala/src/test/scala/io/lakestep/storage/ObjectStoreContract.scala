package io.lakestep.storage

import java.util.concurrent.{Callable, CountDownLatch, Executors}

import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException

/** What every store must do; see the guarantees of `ObjectStore`. */
abstract class ObjectStoreContract extends AnyFunSuite {

  /** A client of the store; each call may make another, as processes are others to each other. */
  protected def client(): ObjectStore

  /** A new folder of the store. */
  protected def folder(): String

  protected def bytes(text: String): Array[Byte] = text.getBytes("UTF-8")

  protected def text(store: ObjectStore, path: String): Option[String] =
    store.get(path).map(new String(_, "UTF-8"))

  protected def condition(body: => Any): String =
    intercept[LakestepException] { body; () }.getCondition

  /** Runs all at once, and returns what each did. */
  protected def atOnce[A](tasks: Seq[() => A]): Seq[A] = {
    val (pool, start) = (Executors.newFixedThreadPool(tasks.size), new CountDownLatch(1))
    try {
      val running = tasks.map { task =>
        val call: Callable[A] = () => {
          start.await()
          task()
        }
        pool.submit(call)
      }
      start.countDown()
      running.map(_.get)
    } finally pool.shutdown()
  }

  test("a file is created once, whole, with its folders") {
    val (store, path) = (client(), s"${folder()}/a/b/c.json")
    assert(store.get(path).isEmpty && !store.exists(path))
    assert(store.putIfAbsent(path, bytes("one")) == PutOutcome.Created)
    assert(store.putIfAbsent(path, bytes("two")) == PutOutcome.AlreadyExists)
    assert(text(client(), path).contains("one"))
    assert(store.sync(path))
    store.delete(path)
    store.delete(path)
    assert(!store.exists(path) && !store.sync(path))
    assert(store.putIfAbsent(path, bytes("three")) == PutOutcome.Created)
  }

  test("of many clients one creates the file, and a reader beside them sees it whole") {
    val dir = folder()
    for (round <- 1 to 5) {
      val path = s"$dir/$round"
      def content(number: Int) = bytes(s"$number " * 100000)
      val reader = () => {
        val store = client()
        Iterator.continually(store.get(path)).collectFirst { case Some(found) => found.toSeq }.get
      }
      val writers = (1 to 6).map(i => () => client().putIfAbsent(path, content(i)))
      val results = atOnce(reader +: writers)
      val seen = results.head.asInstanceOf[Seq[Byte]]
      val winners = (1 to 6).filter(results(_) == PutOutcome.Created)
      assert(results.tail.count(_ == PutOutcome.AlreadyExists) == 5, results.tail)
      assert(winners.size == 1 && seen == content(winners.head).toSeq)
      assert(client().get(path).exists(_.toSeq == seen))
    }
  }

  test("list: files only, from a name on, sorted, with length; nothing for an absent folder") {
    val (store, dir) = (client(), folder())
    val before = System.currentTimeMillis()
    Seq("b", "a", "c").foreach(n => store.putIfAbsent(s"$dir/$n", bytes(n * 2)))
    store.putIfAbsent(s"$dir/d/inner", bytes("x"))
    val found = store.list(dir, "b")
    assert(found.map(f => f.name -> f.sizeBytes) == Vector("b" -> 2L, "c" -> 2L))
    assert(found.forall(f => math.abs(f.modifiedMs - before) < 60000))
    assert(store.list(dir, "").map(_.name) == Vector("a", "b", "c"))
    assert(store.list(s"$dir/none", "").isEmpty && store.folders(s"$dir/none").isEmpty)
    assert(store.folders(dir).contains("d"))
  }

  test("a file is no folder, and a folder no file") {
    val (store, dir) = (client(), folder())
    store.putIfAbsent(s"$dir/d/file", bytes("x"))
    assert(store.list(s"$dir/d/file", "").isEmpty && store.folders(s"$dir/d/file").isEmpty)
    assert(store.get(s"$dir/d").isEmpty && !store.exists(s"$dir/d"))
    assert(store.get(s"$dir/d/file/below").isEmpty && !store.exists(s"$dir/d/file/below"))
    store.delete(s"$dir/d")
    assert(store.exists(s"$dir/d/file"))
  }

  test("temporary files of a log are under _lakestep/tmp and nowhere else, and go") {
    val (store, dir) = (client(), folder())
    val log = s"$dir/t/_delta_log"
    store.putIfAbsent(s"$log/0.json", bytes("x"))
    store.putIfAbsent(s"$log/_lakestep/seg/1.json", bytes("x"))
    assert(store.list(log, "").map(_.name) == Vector("0.json"))
    assert(store.folders(log) == Vector("_lakestep"))
    assert(store.list(s"$log/_lakestep/tmp", "").isEmpty)
    assert(!store.folders(s"$log/_lakestep/seg").contains("tmp"))
  }

  test("what a crashed process left of a put is in nobody's way") {
    val (store, dir) = (client(), folder())
    val log = s"$dir/t/_delta_log"
    store.putIfAbsent(s"$log/0.json", bytes("x"))
    leaveHalf(s"$log/_lakestep/tmp/left.tmp")
    assert(store.list(log, "").map(_.name) == Vector("0.json"))
    assert(store.putIfAbsent(s"$log/1.json", bytes("whole")) == PutOutcome.Created)
    assert(text(store, s"$log/1.json").contains("whole"))
    store.deleteFolder(s"$log/_lakestep/tmp")
    assert(!store.exists(s"$log/_lakestep/tmp/left.tmp"))
  }

  test("what nobody looks for yet is put once, whole when that is answered, with its folders") {
    val (store, path) = (client(), s"${folder()}/a/b/c.json")
    assert(store.putUnannounced(path, bytes("one")) == PutOutcome.Created)
    assert(store.putUnannounced(path, bytes("two")) == PutOutcome.AlreadyExists)
    assert(text(client(), path).contains("one") && store.sync(path))
    assert(client().list(path.stripSuffix("/c.json"), "").map(_.name) == Vector("c.json"))
    val below = s"$path/below"
    assert(condition(store.putUnannounced(below, bytes("x"))).startsWith("LAKESTEP_STORE_"))
  }

  /** Begins to write a temporary file and dies. */
  protected def leaveHalf(path: String): Unit

  test("deleteFolder removes everything below, and only that") {
    val (store, dir) = (client(), folder())
    store.putIfAbsent(s"$dir/a/b/c", bytes("x"))
    store.putIfAbsent(s"$dir/ab", bytes("x"))
    store.deleteFolder(s"$dir/a")
    store.deleteFolder(s"$dir/a")
    assert(store.exists(s"$dir/ab") && !store.exists(s"$dir/a/b/c"))
  }

  /** How many folders, and how many files in each. */
  protected def deletions: Int = 20

  test("a folder that several delete at once is gone, and nobody fails") {
    val store = client()
    for (_ <- 1 to deletions) {
      val dir = s"${folder()}/many"
      (1 to deletions).foreach(i => store.putIfAbsent(s"$dir/${i % 5}/$i", bytes("x")))
      atOnce(Seq.fill(3)(() => client().deleteFolder(dir)))
      assert(store.folders(dir).isEmpty && !store.exists(s"$dir/1/1"))
    }
  }

  test("a name that cannot be written leaves nothing behind and says so") {
    val (store, dir) = (client(), folder())
    store.putIfAbsent(s"$dir/file", bytes("x"))
    val refused = condition(store.putIfAbsent(s"$dir/file/below", bytes("x")))
    assert(refused == "LAKESTEP_STORE_WRITE_FAILED")
    assert(store.list(dir, "").map(_.name) == Vector("file"))
  }

  test("an interrupted thread is told the truth") {
    val path = s"${folder()}/x"
    val (told, interrupted) =
      try {
        Thread.currentThread.interrupt()
        val told =
          try client().putIfAbsent(path, bytes("x"))
          catch { case e: LakestepException => e.getCondition }
        (told, Thread.currentThread.isInterrupted)
      } finally Thread.interrupted()
    assert(interrupted)
    told match {
      case PutOutcome.Created => assert(client().exists(path))
      case PutOutcome.Unknown(_) => ()
      case refused =>
        assert(refused.toString.startsWith("LAKESTEP_STORE_") && !client().exists(path))
    }
  }
}
