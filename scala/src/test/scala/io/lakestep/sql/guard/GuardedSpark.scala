package io.lakestep.sql.guard

import java.io.File
import java.nio.file.Files
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.commons.codec.digest.Blake3
import org.apache.commons.io.FileUtils
import org.scalatest.{BeforeAndAfterAll, Suite}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic

import io.lakestep.LakestepException

/** A real Spark with Delta and the guard, and a switch in place of real transactions. */
trait GuardedSpark extends BeforeAndAfterAll { self: Suite =>

  @volatile private var open = false
  private val analysed = new ConcurrentLinkedQueue[LogicalPlan]
  private val folder = Files.createTempDirectory("lakestep guard ").toFile

  lazy val spark: classic.SparkSession = SparkSession.builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    // On by default since 4.1.
    .config("spark.sql.scripting.enabled", "true")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.sql.warehouse.dir", path("warehouse"))
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.procedures", classOf[elsewhere.ProcedureInCatalog].getName)
    .withExtensions { extensions =>
      extensions.injectCheckRule(_ => plan => { analysed.add(plan); () })
      val guard = new TransactionGuard(_ => open, _ => false, _ => false, _ => false)
      extensions.injectHintResolutionRule(guard.atStart(_))
      guard.inject(extensions)
    }
    .getOrCreate()
    .asInstanceOf[classic.SparkSession]

  def path(name: String): String = new File(folder, name).getPath

  def inTransaction[T](body: => T): T = {
    open = true
    try body
    finally open = false
  }

  /** The plans that `body` has analysed, in order, also those that the guard then refused. */
  def plansOf(body: => Any): Seq[LogicalPlan] = {
    analysed.clear()
    body
    analysed.asScala.toSeq
  }

  /** The condition with which `body` is refused inside a transaction, changing nothing at all. */
  def refusal(body: => Any): String = {
    val before = world()
    val thrown =
      try {
        inTransaction(body)
        "not refused"
      } catch {
        case refused: LakestepException => refused.getCondition
      }
    val after = world()
    assert(after == before, s"changed: ${(after -- before) ++ (before -- after)}")
    thrown
  }

  /** Every file with its content's hash, every database, table, view and function. */
  def world(): Set[String] = {
    val files = FileUtils.listFilesAndDirs(
      folder,
      org.apache.commons.io.filefilter.TrueFileFilter.TRUE,
      org.apache.commons.io.filefilter.TrueFileFilter.TRUE
    )
    val onDisk = files.asScala.map { file =>
      val content = if (file.isFile) Blake3.hash(Files.readAllBytes(file.toPath)).toSeq else Nil
      s"${file.getPath} ${content.hashCode}"
    }
    val catalog = spark.sharedState.externalCatalog
    val inMetastore = catalog.listDatabases().flatMap { database =>
      Seq(catalog.getDatabase(database).toString) ++
        catalog.listTables(database).map(t => catalog.getTable(database, t).toString) ++
        catalog.listFunctions(database, "*").map(f => s"$database.$f")
    }
    val global = spark.sharedState.globalTempViewManager.listViewNames("*")
    onDisk.toSet ++ inMetastore ++ global
  }

  override def afterAll(): Unit = {
    spark.stop()
    FileUtils.deleteDirectory(folder)
    super.afterAll()
  }
}
