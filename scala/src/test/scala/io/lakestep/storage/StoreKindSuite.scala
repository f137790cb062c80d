package io.lakestep.storage

import java.io.{ByteArrayOutputStream, FilterOutputStream}
import java.net.URI
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  FSDataOutputStream, FileAlreadyExistsException, Path, RawLocalFileSystem
}
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException

/** Which store serves a path, and how those behave that are not tested against their service. */
final class StoreKindSuite extends AnyFunSuite {

  private def configured(settings: (String, String)*): Configuration = {
    val conf = new Configuration(false)
    settings.foreach { case (key, value) => conf.set(key, value) }
    conf
  }

  private def condition(body: => Any): String =
    intercept[LakestepException] { body; () }.getCondition

  private val Refused = "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT"

  test("a scheme is served when its file system is the one that the store was made for") {
    for (scheme <- Seq("s3a", "s3", "abfs", "abfss", "gs", "wasb", "viewfs", "ftp")) {
      val local = configured(s"fs.$scheme.impl" -> classOf[RawLocalFileSystem].getName)
      assert(condition(new HadoopStores(local).forPath(s"$scheme://x/a")) == Refused)
    }
  }

  test("one spelling for a path that has several") {
    val conf = configured()
    def spelt(path: String) = StoreKind.withoutAlias(new Path(path), conf).toString
    assert(spelt("hdfs://host:8020/a b") == "hdfs://host/a b")
    assert(spelt("hdfs://host:9000/a") == "hdfs://host:9000/a")
    assert(spelt("abfs://c@account.dfs.core.windows.net/a") ==
      "abfss://c@account.dfs.core.windows.net/a")
    // Another file system may keep other files under that scheme.
    assert(spelt("s3://bucket/a") == "s3://bucket/a")
  }

  private def store(fault: String): (GcsStore, String) = {
    val conf = configured(
      "fs.gs.impl" -> classOf[CreatesAtClose].getName,
      "fs.gs.impl.disable.cache" -> "true",
      CreatesAtClose.Fault -> fault
    )
    (new GcsStore(conf), s"gs://bucket-$fault${Files.createTempDirectory("gs")}/timeline/1.json")
  }

  test(
    "a store that creates at close, as GCS: one of two creates, and an interrupt changes nothing"
  ) {
    val (gcs, path) = store("")
    Thread.currentThread.interrupt()
    assert(gcs.putIfAbsent(path, "one".getBytes) == PutOutcome.Created)
    assert(Thread.interrupted())
    assert(gcs.putIfAbsent(path, "two".getBytes) == PutOutcome.AlreadyExists)
    assert(gcs.get(path).map(new String(_)).contains("one"))
  }

  test("a store that looks when a stream is opened, and not when it is closed, is refused") {
    val (gcs, path) = store("looksOnly")
    assert(condition(gcs.putIfAbsent(path, "one".getBytes)) == Refused)
    assert(!gcs.exists(path))
  }

  test("streams that show an object before it is whole are refused") {
    val conf = configured("fs.gs.outputstream.type" -> "SYNCABLE_COMPOSITE")
    assert(condition(new GcsStore(conf).putIfAbsent("gs://b/x", Array.emptyByteArray)) == Refused)
  }

  test("Azure without a hierarchical namespace is refused") {
    val conf = configured(
      "fs.abfss.impl" -> classOf[CreatesAtClose].getName,
      "fs.abfss.impl.disable.cache" -> "true"
    )
    val path = s"abfss://c@a${Files.createTempDirectory("abfs")}/x"
    assert(condition(new AbfsStore(conf).putIfAbsent(path, "x".getBytes)) == Refused)
    assert(!new AbfsStore(conf).exists(path))
  }
}

/** A local folder whose files appear, whole, when their stream is closed. */
final class CreatesAtClose extends RawLocalFileSystem {

  private var uri: URI = _

  override def initialize(name: URI, conf: Configuration): Unit = {
    uri = name
    super.initialize(name, conf)
    setConf(conf)
  }

  override def getUri: URI = uri

  // Whatever the scheme and authority are.
  override def checkPath(path: Path): Unit = ()
  override def makeQualified(path: Path): Path = path

  override def create(path: Path, overwrite: Boolean): FSDataOutputStream = {
    val file = pathToFile(path).toPath
    if (Files.exists(file)) throw new FileAlreadyExistsException(path.toString)
    val looksOnly = getConf.get(CreatesAtClose.Fault, "") == "looksOnly"
    val content = new ByteArrayOutputStream
    val out = new FilterOutputStream(content) {
      override def close(): Unit = {
        if (!looksOnly && Files.exists(file))
          throw new java.io.IOException("412 Precondition Failed")
        Files.createDirectories(file.getParent)
        Files.write(file, content.toByteArray)
        ()
      }
    }
    new FSDataOutputStream(out, null)
  }
}

object CreatesAtClose {
  val Fault = "lakestep.test.fault"
}
