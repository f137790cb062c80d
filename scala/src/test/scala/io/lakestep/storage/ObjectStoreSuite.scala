package io.lakestep.storage

import java.nio.file.{Files, Path}

import org.apache.hadoop.conf.Configuration

/** The local disk. */
final class ObjectStoreSuite extends ObjectStoreContract {

  private val store = new LocalStore(durable = false)

  override protected def client(): ObjectStore = store
  override protected def folder(): String = Files.createTempDirectory("store").toString

  override protected def leaveHalf(path: String): Unit = {
    Files.createDirectories(Path.of(path).getParent)
    Files.write(Path.of(path), bytes("half"))
    ()
  }

  test("a durable file is created once, and whole") {
    val (durable, path) = (new LocalStore(durable = true), s"${folder()}/a/b/c.json")
    assert(durable.putIfAbsent(path, bytes("one")) == PutOutcome.Created)
    assert(durable.putIfAbsent(path, bytes("two")) == PutOutcome.AlreadyExists)
    assert(text(durable, path).contains("one"))
    assert(durable.sync(path) && !durable.sync(s"$path.not"))
  }

  test("URIs are decoded, plain paths are not") {
    val dir = Path.of(folder())
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

  test("a file that cannot be looked at is not taken for absent; below a file there is nothing") {
    val dir = folder()
    val unreadable = s"$dir/${"x" * 300}"
    assert(condition(store.get(unreadable)) == "LAKESTEP_STORE_READ_FAILED")
    assert(condition(store.exists(unreadable)) == "LAKESTEP_STORE_READ_FAILED")
    assert(store.putIfAbsent(s"$dir/file", bytes("x")) == PutOutcome.Created)
    for (below <- Seq("file/a", "file/a/b", "none/a")) {
      assert(store.get(s"$dir/$below").isEmpty && !store.exists(s"$dir/$below"))
    }
  }

  test("a device that cannot be written says so") {
    for (path <- Seq("/proc/lakestep/x", "/dev/full/x"))
      for (put <- Seq(store.putIfAbsent _, store.putUnannounced _))
        assert(condition(put(path, bytes("x"))).startsWith("LAKESTEP_STORE_"))
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

  test("an interrupted thread gets its files") {
    val path = s"${folder()}/x"
    Thread.currentThread.interrupt()
    assert(new LocalStore(durable = true).putIfAbsent(path, bytes("x")) == PutOutcome.Created)
    assert(store.get(path).isDefined && Thread.interrupted())
  }

  test("stores by scheme: local disk and HDFS; others are refused") {
    val stores = new HadoopStores(new Configuration(false), durable = false)
    assert(stores.forPath("/a").isInstanceOf[LocalStore])
    assert(stores.forPath("file:/a:b").isInstanceOf[LocalStore])
    assert(stores.forPath("hdfs://host/a").isInstanceOf[HdfsStore])
    assert(condition(stores.forPath("s3a://bucket/a")) == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT")
  }
}
