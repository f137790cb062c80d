package io.lakestep.storage

import java.nio.file.{Files, Path}
import java.util.concurrent.{CountDownLatch, Executors}

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException

final class ObjectStoreSuite extends AnyFunSuite {

  private def folder(): Path = Files.createTempDirectory("store")
  private def bytes(text: String): Array[Byte] = text.getBytes("UTF-8")
  private def condition(body: => Any): String =
    intercept[LakestepException] { body; () }.getCondition

  for (durable <- Seq(true, false)) {
    val store = new LocalStore(durable)

    test(s"a file is created once, whole, with its folders (durable = $durable)") {
      val path = s"${folder()}/a/b/c.json"
      assert(store.get(path).isEmpty && !store.exists(path))
      assert(store.putIfAbsent(path, bytes("one")) == PutOutcome.Created)
      assert(store.putIfAbsent(path, bytes("two")) == PutOutcome.AlreadyExists)
      assert(store.get(path).map(new String(_)).contains("one"))
      store.sync(path)
      store.delete(path)
      store.delete(path)
      assert(!store.exists(path))
    }
  }

  private val store = new LocalStore(durable = false)

  test("of many threads one creates the file") {
    val path = s"${folder()}/x"
    val (threads, start) = (8, new CountDownLatch(1))
    val pool = Executors.newFixedThreadPool(threads)
    val results = (1 to threads).map(i =>
      pool.submit { () =>
        start.await()
        store.putIfAbsent(path, bytes(i.toString))
      }
    )
    start.countDown()
    assert(results.map(_.get).count(_ == PutOutcome.Created) == 1)
    pool.shutdown()
  }

  test("list: files only, from a name on, sorted, with length; nothing for an absent folder") {
    val dir = folder()
    Seq("b", "a", "c").foreach(n => store.putIfAbsent(s"$dir/$n", bytes(n * 2)))
    store.putIfAbsent(s"$dir/d/inner", bytes("x"))
    assert(store.list(s"$dir", "b").map(f => f.name -> f.sizeBytes) == Vector("b" -> 2L, "c" -> 2L))
    assert(store.list(s"$dir/none", "").isEmpty)
  }

  test("temporary files of a log are under _lakestep/tmp and nowhere else") {
    val dir = folder()
    store.putIfAbsent(s"$dir/t/_delta_log/0.json", bytes("x"))
    store.putIfAbsent(s"$dir/t/_delta_log/_lakestep/seg/1.json", bytes("x"))
    val log = dir.resolve("t/_delta_log")
    assert(Files.list(log).map(_.getFileName.toString).toArray.toSet == Set("0.json", "_lakestep"))
    assert(Files.list(log.resolve("_lakestep/tmp")).count() == 0)
    assert(!Files.exists(log.resolve("_lakestep/seg/tmp")))
  }

  test("URIs are decoded, plain paths are not") {
    val dir = folder()
    val name = "a b%+é"
    assert(store.putIfAbsent(s"$dir/$name", bytes("x")) == PutOutcome.Created)
    val uri = dir.resolve(name).toUri.toString
    assert(store.get(uri).isDefined && store.get(uri.replace("file:///", "file:/")).isDefined)
    assert(store.get(s"file:$dir/a b%25+é").isDefined)
    assert(condition(store.get(s"file:$dir/a%2")) == "LAKESTEP_STORE_PATH_INVALID")
    assert(condition(store.get(s"file:$dir/a%zz")) == "LAKESTEP_STORE_PATH_INVALID")
    assert(condition(store.get("file://elsewhere/a")) == "LAKESTEP_STORE_PATH_INVALID")
    assert(condition(store.get("relative")) == "LAKESTEP_STORE_PATH_INVALID")
  }

  test("deleteFolder removes everything below, and only that") {
    val dir = folder()
    store.putIfAbsent(s"$dir/a/b/c", bytes("x"))
    store.putIfAbsent(s"$dir/ab", bytes("x"))
    store.deleteFolder(s"$dir/a")
    store.deleteFolder(s"$dir/a")
    assert(store.exists(s"$dir/ab") && !store.exists(s"$dir/a/b/c"))
  }

  test("a folder that several delete at once is gone, and nobody fails") {
    val (threads, rounds) = (3, 20)
    val pool = Executors.newFixedThreadPool(threads)
    try
      (1 to rounds).foreach { _ =>
        val dir = s"${folder()}/many"
        (1 to 100).foreach(i => store.putIfAbsent(s"$dir/${i % 5}/$i", bytes("x")))
        val start = new CountDownLatch(1)
        val all = (1 to threads).map(_ =>
          pool.submit { () =>
            start.await()
            store.deleteFolder(dir)
            true
          }
        )
        start.countDown()
        all.foreach(_.get)
        assert(!Files.exists(Path.of(dir)))
      }
    finally pool.shutdown()
  }

  test("a name that cannot be written leaves nothing behind and says so") {
    val dir = folder()
    store.putIfAbsent(s"$dir/file", bytes("x"))
    assert(condition(store.putIfAbsent(
      s"$dir/file/below",
      bytes("x")
    )) == "LAKESTEP_STORE_WRITE_FAILED")
    assert(condition(store.putIfAbsent(
      "/proc/lakestep/x",
      bytes("x")
    )).startsWith("LAKESTEP_STORE_"))
    assert(condition(store.putIfAbsent("/dev/full/x", bytes("x"))).startsWith("LAKESTEP_STORE_"))
  }

  test("a full disk, a forbidden and a read-only one are told apart by what the system says") {
    def said(reason: String) =
      LocalStore.explain(
        "/x",
        new java.nio.file.FileSystemException("/x", null, reason)
      ).getCondition
    assert(said("No space left on device") == "LAKESTEP_STORE_FULL")
    assert(said("Disk quota exceeded") == "LAKESTEP_STORE_FULL")
    assert(said("Permission denied") == "LAKESTEP_STORE_ACCESS_DENIED")
    assert(said("Read-only file system") == "LAKESTEP_STORE_ACCESS_DENIED")
    assert(said("Input/output error") == "LAKESTEP_STORE_WRITE_FAILED")
  }

  test("what a crashed process left of a put is in nobody's way") {
    val dir = folder()
    val slot = s"$dir/t/_delta_log/1.json"
    store.putIfAbsent(s"$dir/t/_delta_log/0.json", bytes("x"))
    val left = dir.resolve("t/_delta_log/_lakestep/tmp/left.tmp")
    Files.write(left, bytes("half"))
    assert(store.list(s"$dir/t/_delta_log", "").map(_.name) == Vector("0.json"))
    assert(store.putIfAbsent(slot, bytes("whole")) == PutOutcome.Created)
    assert(store.get(slot).map(new String(_)).contains("whole") && Files.exists(left))
  }

  test("an interrupted thread gets its files, and stays interrupted") {
    val path = s"${folder()}/x"
    Thread.currentThread.interrupt()
    assert(new LocalStore(durable = true).putIfAbsent(path, bytes("x")) == PutOutcome.Created)
    assert(store.get(path).isDefined && Thread.interrupted())
  }

  test("stores by scheme: local disk and HDFS; others are refused") {
    val stores = new HadoopObjectStores(new Configuration(false), durable = false)
    assert(stores.forPath("/a").isInstanceOf[LocalStore])
    assert(stores.forPath("file:/a:b").isInstanceOf[LocalStore])
    assert(stores.forPath("hdfs://host/a").isInstanceOf[HdfsStore])
    assert(condition(stores.forPath("s3a://bucket/a")) == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT")
  }
}
