package io.lakestep.storage

import java.io.IOException
import java.nio.file.Files
import java.security.PrivilegedExceptionAction
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.hdfs.{DistributedFileSystem, MiniDFSCluster}
import org.apache.hadoop.security.UserGroupInformation
import org.scalatest.BeforeAndAfterAll

import io.lakestep.{LongTest, NeedsSpark}

/** HDFS: a name node and a data node in this process. */
@NeedsSpark
final class HdfsStoreSuite extends ObjectStoreContract with BeforeAndAfterAll {

  private val base = {
    val made = new Configuration
    made.set("hdfs.minidfs.basedir", Files.createTempDirectory("hdfs").toString)
    // Every client has connections, and so a lease, of its own.
    made.setBoolean("fs.hdfs.impl.disable.cache", true)
    made
  }
  private lazy val cluster = new MiniDFSCluster.Builder(base).numDataNodes(1).build()
  private lazy val admin = cluster.getFileSystem
  private val folders = new AtomicInteger

  override protected def afterAll(): Unit = cluster.shutdown()

  override protected def deletions: Int = 3

  override protected def client(): ObjectStore = new HdfsStore(new Configuration(base))

  override protected def folder(): String = {
    val made = new Path(s"${cluster.getURI}/f${folders.incrementAndGet()}")
    admin.mkdirs(made)
    made.toString
  }

  /** Its writer holds the lease and never closes. */
  override protected def leaveHalf(path: String): Unit = {
    val out = FileSystem.newInstance(cluster.getURI, base).create(new Path(path), false)
    out.write(bytes("half"))
    out.hflush()
  }

  test("a name node in safe mode refuses a put, and shows what is there") {
    val (store, dir) = (client(), folder())
    store.putIfAbsent(s"$dir/before", bytes("x"))
    cluster.getNameNodeRpc.setSafeMode(
      org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction.SAFEMODE_ENTER,
      false
    )
    try {
      assert(condition(store.putIfAbsent(s"$dir/x", bytes("x"))) == "LAKESTEP_STORE_WRITE_FAILED")
      assert(condition(store.delete(s"$dir/before")) == "LAKESTEP_STORE_WRITE_FAILED")
      assert(store.exists(s"$dir/before") && !store.exists(s"$dir/x"))
      assert(store.list(dir, "").map(_.name) == Vector("before"))
    } finally
      cluster.getNameNodeRpc.setSafeMode(
        org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction.SAFEMODE_LEAVE,
        false
      )
    assert(store.putIfAbsent(s"$dir/x", bytes("x")) == PutOutcome.Created)
  }

  test("what was created is there after the name node was killed", LongTest) {
    val dir = folder()
    assert(client().putIfAbsent(s"$dir/x", bytes("x")) == PutOutcome.Created)
    cluster.restartNameNode(true)
    assert(text(client(), s"$dir/x").contains("x"))
    assert(client().putIfAbsent(s"$dir/x", bytes("y")) == PutOutcome.AlreadyExists)
  }

  test("a full quota is a full store") {
    val (store, dir) = (client(), folder())
    admin.setQuota(new Path(dir), 1, 1L << 40)
    assert(condition(store.putIfAbsent(s"$dir/x", bytes("x"))) == "LAKESTEP_STORE_FULL")
    admin.setQuota(new Path(dir), 100, 1)
    assert(condition(store.putIfAbsent(s"$dir/x", bytes("x"))) == "LAKESTEP_STORE_FULL")
    assert(store.list(dir, "").isEmpty)
  }

  private def as[A](user: String)(body: => A): A = {
    val action: PrivilegedExceptionAction[A] = () => body
    UserGroupInformation.createUserForTesting(user, Array(user)).doAs(action)
  }

  test("who may not write is told so, and reads; who may not read is told so") {
    val dir = folder()
    client().putIfAbsent(s"$dir/x", bytes("x"))
    as("reader") {
      assert(text(client(), s"$dir/x").contains("x"))
      assert(condition(client().putIfAbsent(s"$dir/y", bytes("y"))) ==
        "LAKESTEP_STORE_ACCESS_DENIED")
      assert(client().putIfAbsent(s"$dir/x", bytes("y")) == PutOutcome.AlreadyExists)
      assert(condition(client().delete(s"$dir/x")) == "LAKESTEP_STORE_ACCESS_DENIED")
      assert(condition(client().deleteFolder(dir)) == "LAKESTEP_STORE_ACCESS_DENIED")
    }
    admin.setPermission(new Path(dir), new FsPermission("700"))
    as("reader") {
      assert(condition(client().get(s"$dir/x")) == "LAKESTEP_STORE_READ_FAILED")
      assert(condition(client().list(dir, "")) == "LAKESTEP_STORE_READ_FAILED")
    }
  }

  test("a rename that is not permitted is refused, not unknown") {
    val dir = folder()
    val log = s"$dir/t/_delta_log"
    client().putIfAbsent(s"$log/0.json", bytes("x"))
    admin.mkdirs(new Path(s"$log/_lakestep/tmp"))
    admin.setPermission(new Path(s"$log/_lakestep/tmp"), new FsPermission("777"))
    as("stager") {
      assert(condition(client().putIfAbsent(s"$log/1.json", bytes("y"))) ==
        "LAKESTEP_STORE_ACCESS_DENIED")
    }
    assert(client().list(log, "").map(_.name) == Vector("0.json"))
    assert(client().list(s"$log/_lakestep/tmp", "").isEmpty)
  }

  test("an answer that is lost, and a rename that the client repeats, are read back") {
    for (fault <- Seq("lostBefore", "lostAfter", "repeated")) {
      val (dir, conf) = (folder(), new Configuration(base))
      conf.set("fs.hdfs.impl", classOf[UnclearHdfs].getName)
      conf.set(UnclearHdfs.Key, fault)
      val store = new HdfsStore(conf)
      store.putIfAbsent(s"$dir/x", bytes("x")) match {
        case PutOutcome.Unknown(_) => assert(fault == "lostBefore")
        case told => assert(told == PutOutcome.Created && fault != "lostBefore")
      }
      assert(client().exists(s"$dir/x") == (fault != "lostBefore"))
    }
  }

  test("a client that may read from an observer, which can lag behind, is refused") {
    val conf = new Configuration(base)
    val provider = "org.apache.hadoop.hdfs.server.namenode.ha.ObserverReadProxyProvider"
    conf.set("dfs.client.failover.proxy.provider.ns", provider)
    val stores = new HadoopStores(conf)
    assert(condition(stores.forPath("hdfs://ns/a")) == "LAKESTEP_STORE_WITHOUT_PUT_IF_ABSENT")
    assert(stores.forPath("hdfs://other/a").isInstanceOf[HdfsStore])
    conf.set("dfs.client.failover.observer.auto-msync-period.ns", "0")
    assert(stores.forPath("hdfs://ns/a").isInstanceOf[HdfsStore])
  }
}

/** HDFS whose answers to a rename get lost, or come from a second try. */
final class UnclearHdfs extends DistributedFileSystem {

  override def rename(from: Path, to: Path): Boolean =
    getConf.get(UnclearHdfs.Key) match {
      case "lostBefore" => throw new IOException("the request was lost")
      case "lostAfter" =>
        super.rename(from, to)
        throw new IOException("the answer was lost")
      case _ =>
        super.rename(from, to)
        super.rename(from, to)
    }
}

object UnclearHdfs {
  val Key = "lakestep.test.unclear"
}
