package io.lakestep.overlay

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => JPath}
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, Row, SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.delta.DeltaLog
import org.scalatest.{BeforeAndAfterAll, Suite}

/** What the session layer does when a session is built, as far as overlays need it. */
class OverlayTestExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = OverlaySettings.installInDriver()
}

/** One Spark session with Delta for a suite, to which only the extension was given. */
trait OverlaySession extends BeforeAndAfterAll { self: Suite =>

  lazy val folder: JPath = Files.createTempDirectory("overlay")

  lazy val spark: SparkSession = {
    val session = started
    session.sparkContext.setLogLevel("ERROR")
    session
  }

  private def started: SparkSession = SparkSession
    .builder()
    .master("local[2]")
    .appName(suiteName)
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    // Half of the time of a small statement goes into the texts of programs that run once.
    .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    .config("spark.sql.codegen.wholeStage", "false")
    .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toUri.toString)
    .config(
      "spark.sql.extensions",
      s"io.delta.sql.DeltaSparkSessionExtension,${classOf[OverlayTestExtension].getName}"
    )
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()

  override protected def afterAll(): Unit = {
    spark.stop()
    super.afterAll()
    delete(folder)
  }

  private def delete(path: JPath): Unit = {
    if (Files.isDirectory(path)) children(path).foreach(delete)
    Files.delete(path)
  }

  private def children(path: JPath): Vector[JPath] = {
    val stream = Files.list(path)
    try stream.iterator.asScala.toVector
    finally stream.close()
  }

  def newSegment(): String = "t" + UUID.randomUUID().toString.replace("-", "")

  def newTable(name: String = UUID.randomUUID().toString): Path =
    new Path(folder.resolve(name).toUri)

  /** A table's newest version, as plain Delta sees it. */
  def head(table: Path): Long = DeltaLog.forTable(spark, table).update().version

  /** The table through a new transaction that is pinned at `pin`. */
  def overlay(table: Path, pin: Long, segment: String = newSegment()): Path =
    OverlayPath(Chain(pin, Vector(segment)), table).toPath

  def sql(text: String): DataFrame = spark.sql(text)

  /** The table as SQL names it. */
  def named(path: Path): String = s"delta.`$path`"

  def rows(path: Path): Set[Row] = rows(spark.read.format("delta").load(path.toString))

  def rows(data: DataFrame): Set[Row] = {
    val found = data.collect()
    assert(found.toSet.size == found.length, "rows of these tables are distinct")
    found.toSet
  }

  private def local(path: Path): JPath = JPath.of(path.toUri.getPath)

  /** Every file below the base log but ours, with its content. */
  def logFiles(table: Path): Map[String, String] = {
    val log = local(new Path(table, "_delta_log"))
    def below(path: JPath): Vector[JPath] =
      if (path.getFileName.toString == "_lakestep") Vector.empty
      else if (Files.isDirectory(path)) path +: children(path).flatMap(below)
      else Vector(path)
    below(log).map { file =>
      val content =
        if (Files.isDirectory(file)) "folder"
        else s"${Files.getLastModifiedTime(file)} " + new String(Files.readAllBytes(file), UTF_8)
      log.relativize(file).toString -> content
    }.toMap
  }

  /** Names in the staging folders of a table, by segment. */
  def staged(table: Path): Map[String, Vector[String]] = {
    val own = local(new Path(table, "_delta_log/_lakestep"))
    if (!Files.exists(own)) Map.empty
    else
      children(own)
        .filterNot(_.getFileName.toString == "tmp")
        .map(s => s.getFileName.toString -> children(s).map(_.getFileName.toString).sorted)
        .toMap
  }

  /** Runs `body` and proves that it left the base log, and what plain Delta reads, as they were. */
  def leavesBase[A](table: Path)(body: => A): A = {
    val before = logFiles(table)
    val seen = rows(table)
    val result = body
    assert(logFiles(table) == before, "the base log changed")
    DeltaLog.forTable(spark, table).update()
    assert(rows(table) == seen, "what plain Delta reads changed")
    result
  }
}
