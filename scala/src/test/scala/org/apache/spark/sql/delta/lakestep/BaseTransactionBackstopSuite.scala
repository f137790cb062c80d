package org.apache.spark.sql.delta.lakestep

import java.io.File
import java.nio.file.Files

import scala.util.Try

import org.apache.commons.io.FileUtils
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{
  DeltaLog, DeltaOperations, NoOpTransactionExecutionObserver, OptimisticTransaction,
  TransactionExecutionObserver
}

import io.delta.tables.DeltaTable
import io.lakestep.{LakestepException, NeedsSpark}

/** The contract with Delta's `TransactionExecutionObserver`, without the guard. */
@NeedsSpark
class BaseTransactionBackstopSuite extends AnyFunSuite with BeforeAndAfterAll {

  private val Stopped = "LAKESTEP_DELTA_TRANSACTION_ON_BASE_TABLE"
  private val folder = Files.createTempDirectory("lakestep backstop ").toFile
  private val path = new File(folder, "t").getPath
  @volatile private var open: Option[SparkSession] = None
  @volatile private var bound: Option[SparkSession] = None

  private lazy val spark = SparkSession.builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.sql.warehouse.dir", new File(folder, "warehouse").getPath)
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .getOrCreate()

  override def beforeAll(): Unit = {
    super.beforeAll()
    spark.range(5).write.format("delta").save(path)
    spark.range(5).write.parquet(new File(folder, "p").getPath)
    install()
    install()
  }

  private def install(): Unit =
    BaseTransactionBackstop.install(
      session => open.contains(session),
      session => bound.contains(session),
      (_, _) => false
    )

  override def afterAll(): Unit = {
    BaseTransactionBackstop.uninstall()
    spark.stop()
    FileUtils.deleteDirectory(folder)
    super.afterAll()
  }

  private def inTransaction[T](body: => T): T = {
    open = Some(spark)
    try body
    finally open = None
  }

  private def log: DeltaLog = DeltaLog.forTable(spark, path)

  private def version: Long = log.update().version

  private def files: Set[String] =
    FileUtils.listFiles(folder, null, true).toArray.map(_.toString).toSet

  /** Stopped, and not a file more. */
  private def assertStopped(body: => Any): Unit = {
    val before = files
    val stopped = intercept[LakestepException](inTransaction(body))
    assert(stopped.getCondition == Stopped)
    assert(files == before)
  }

  private def onNewThread[T](body: => T): Try[T] = {
    var result: Try[T] = Try(throw new IllegalStateException("did not run"))
    val thread = new Thread(() => result = Try(body))
    thread.start()
    thread.join()
    result
  }

  test("a Delta transaction on a base table is stopped inside and allowed outside") {
    assertStopped(log.startTransaction(None))
    assert(log.startTransaction(None).readVersion == version)
  }

  test("upgradeTableProtocol is stopped inside and allowed outside") {
    val table = DeltaTable.forPath(spark, path)
    assertStopped(table.upgradeTableProtocol(1, 3))
    val before = version
    table.upgradeTableProtocol(1, 3)
    assert(version == before + 1)
  }

  test("whatever else begins a Delta transaction is stopped") {
    val table = DeltaTable.forPath(spark, path)
    assertStopped(table.delete("id = 1"))
    assertStopped(table.optimize().executeCompaction())
    assertStopped(table.restoreToVersion(0))
    assertStopped(table.addFeatureSupport("changeDataFeed"))
    assertStopped(spark.range(1).write.format("delta").mode("append").save(path))
    assertStopped(spark.sql(s"ALTER TABLE delta.`$path` ADD COLUMNS (c INT)"))
    // It runs without analysis, so that no rule sees it.
    assertStopped(DeltaTable.convertToDelta(spark, s"parquet.`${new File(folder, "p").getPath}`"))
  }

  test("what a session without a transaction may not write is stopped; another session writes") {
    val (before, there) = (version, files)
    bound = Some(spark)
    try {
      val stopped = intercept[LakestepException](DeltaTable.forPath(spark, path).delete("id = 3"))
      assert(stopped.getCondition == "LAKESTEP_TRANSACTION_REQUIRED")
      assert(files == there)
      DeltaTable.forPath(spark.newSession(), path).delete("id = 3")
    } finally bound = None
    assert(version == before + 1)
  }

  test("another session's Delta transactions go on") {
    val other = spark.newSession()
    val before = version
    inTransaction {
      DeltaTable.forPath(other, path).updateExpr("id = 0", Map("id" -> "0"))
    }
    assert(version == before + 1)
  }

  test("a thread that never ran a statement is protected") {
    val stopped = inTransaction(onNewThread(log.startTransaction(None)))
    assert(stopped.failed.get.asInstanceOf[LakestepException].getCondition == Stopped)
    assert(onNewThread(log.startTransaction(None)).isSuccess)
    val detached = inTransaction(onNewThread {
      SparkSession.clearActiveSession()
      log.startTransaction(None)
    })
    assert(detached.failed.get.asInstanceOf[LakestepException].getCondition == Stopped)
  }

  test("the observer that was there sees everything, and can be followed by another") {
    val first = new Recording
    val second = new Recording
    first.setNextObserver(second)
    TransactionExecutionObserver.withObserver(first) {
      assertStopped(log.startTransaction(None))
      log.startTransaction(None).commit(Nil, DeltaOperations.ManualUpdate)
      TransactionExecutionObserver.advanceToNextObserver()
      assertStopped(log.startTransaction(None))
      TransactionExecutionObserver.advanceToNextObserver()
      assertStopped(log.startTransaction(None))
    }
    assert(first.seen == Seq("start", "start", "prepare", "commit", "backfill", "post", "done"))
    assert(second.seen == Seq("start"))
    assertStopped(log.startTransaction(None))
  }

  test("installing twice wraps once, and uninstalling restores Delta's own") {
    val observer = TransactionExecutionObserver.getObserver
    assert(observer.isInstanceOf[BaseTransactionBackstop])
    TransactionExecutionObserver.setObserver(observer)
    TransactionExecutionObserver.getObserver match {
      case backstop: BaseTransactionBackstop =>
        assert(backstop.inner eq NoOpTransactionExecutionObserver)
      case other => fail(other.toString)
    }
    BaseTransactionBackstop.uninstall()
    try {
      assert(TransactionExecutionObserver.getObserver eq NoOpTransactionExecutionObserver)
      assert(inTransaction(log.startTransaction(None)).readVersion == version)
    } finally install()
  }

  private final class Recording extends TransactionExecutionObserver {
    @volatile var seen: Seq[String] = Nil

    override def createChild(): TransactionExecutionObserver = this
    override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction = {
      seen :+= "start"
      f
    }
    override def preparingCommit[T](f: => T): T = {
      seen :+= "prepare"
      f
    }
    override def beginDoCommit(): Unit = seen :+= "commit"
    override def beginBackfill(): Unit = seen :+= "backfill"
    override def beginPostCommit(): Unit = seen :+= "post"
    override def transactionCommitted(): Unit = seen :+= "done"
    override def transactionAborted(): Unit = seen :+= "aborted"
  }
}
