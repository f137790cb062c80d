package io.lakestep.overlay

import java.io.File
import java.nio.file.{Files, Path => JPath}
import java.util.concurrent.TimeUnit
import java.util.jar.{JarEntry, JarOutputStream}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.delta.DeltaLog
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.NeedsSpark

/** The job of `OverlayClusterTest`; prints its last line only if everything held. */
object OverlayClusterJob {

  val Done = "every statement ran on the executor"

  def main(arguments: Array[String]): Unit = {
    val spark = SparkSession.builder().getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    val executors = spark.range(0, 8, 1, 4).rdd.map { _ =>
      Thread.currentThread.getContextClassLoader.loadClass(classOf[OverlayFileSystem].getName)
      (org.apache.spark.SparkEnv.get.executorId, TaskContext.getPartitionId())
    }
    println("the executor has our classes")
    check(!executors.collect().exists(_._1 == "driver"), "tasks run outside the driver")

    val table = new Path(new File(arguments(0)).toURI)
    spark
      .range(0, 20, 1, 4)
      .selectExpr("id", "concat('p ', id % 2) AS part")
      .write
      .format("delta")
      .partitionBy("part")
      .option("delta.enableDeletionVectors", "true")
      .save(table.toString)
    val log = new File(table.toUri.getPath, "_delta_log")
    def names = log.list.toSet.filterNot(n => n.startsWith(".") || n == "_lakestep")
    val before = names
    val over = OverlayPath(Chain(0, Vector("t" + "0" * 32)), table).toPath
    val named = s"delta.`$over`"
    spark
      .range(20, 40, 1, 4)
      .selectExpr("id", "concat('p ', id % 2) AS part")
      .write
      .format("delta")
      .mode("append")
      .save(over.toString)
    spark.sql(s"DELETE FROM $named WHERE id % 10 = 0")
    spark.sql(s"UPDATE $named SET id = id + 100 WHERE id % 10 = 1")
    (0 until 8).foreach(i => spark.sql(s"INSERT INTO $named VALUES (${1000 + i}, 'p 0')"))
    def ids(path: Path) =
      spark.read.format("delta").load(path.toString).collect().map(_.getLong(0)).toSet
    val expected = (0L until 40L).filter(_ % 10 != 0).map(i => if (i % 10 == 1) i + 100 else i) ++
      (1000L until 1008L)
    check(ids(over) == expected.toSet, s"rows: ${ids(over)}")
    DeltaLog.clearCache()
    check(ids(over) == expected.toSet, "rows after opening anew")
    val history = spark.sql(s"DESCRIBE HISTORY $named").select("version").collect()
    check(history.map(_.getLong(0)).toSet == (0L to 11L).toSet, "history")
    check(
      spark.sql(s"SELECT count(*) FROM $named VERSION AS OF 1").head() == Row(40L),
      "time travel"
    )
    check(ids(table) == (0L until 20L).toSet, "the base is as it was")
    check(names == before, s"the base log has $names")
    println(Done)
    spark.stop()
  }

  private def check(holds: Boolean, what: => String): Unit =
    if (!holds) throw new IllegalStateException(what)
}

/**
 * An executor in a process of its own, which knows our classes from `spark.jars` alone.
 *
 * The master `local-cluster` wants a SPARK_HOME. It gets a folder with links to the JARs that this
 * test was started with, except Delta's; those and ours come by `--jars`, as a user gives them.
 */
@NeedsSpark
class OverlayClusterTest extends AnyFunSuite {

  private def pack(classes: JPath, jar: JPath): Unit =
    Using.resource(new JarOutputStream(Files.newOutputStream(jar))) { out =>
      Using.resource(Files.walk(classes)) { files =>
        files.iterator.asScala.filter(Files.isRegularFile(_)).foreach { file =>
          out.putNextEntry(new JarEntry(classes.relativize(file).toString.replace('\\', '/')))
          Files.copy(file, out)
          out.closeEntry()
        }
      }
    }

  test("append, DELETE, UPDATE, history and time travel on local-cluster[1,2,1024]") {
    val folder = Files.createTempDirectory("overlay-cluster")
    val jars = Files.createDirectories(folder.resolve("home/jars"))
    val entries = System.getProperty("java.class.path").split(File.pathSeparator).map(JPath.of(_))
    val (folders, archives) = entries.filter(Files.exists(_)).partition(Files.isDirectory(_))
    val (deltas, others) =
      archives.partition(_.getFileName.toString.matches("(delta-|unitycatalog-).*"))
    others.foreach(a => Files.createSymbolicLink(jars.resolve(a.getFileName), a))
    val (tests, products) = folders.partition(_.getFileName.toString == "test-classes")
    val ours = products.zipWithIndex.map { case (classes, i) =>
      val jar = folder.resolve(s"lakestep-$i.jar")
      pack(classes, jar)
      jar
    }
    val job = folder.resolve("job.jar")
    pack(tests.head, job)

    val opens = java.lang.management.ManagementFactory.getRuntimeMXBean.getInputArguments.asScala
      .filter(a => a.startsWith("--add-opens") || a.startsWith("-Djdk.reflect"))
    val output = folder.resolve("output")
    val command = Seq(JPath.of(System.getProperty("java.home"), "bin", "java").toString) ++ opens ++
      Seq("-Xmx1g", "-cp", s"$jars${File.separator}*", "org.apache.spark.deploy.SparkSubmit") ++
      Seq(
        "--master",
        "local-cluster[1,2,1024]",
        "--class",
        "io.lakestep.overlay.OverlayClusterJob"
      ) ++
      Seq("--jars", (ours ++ deltas).mkString(",")) ++
      Map(
        "spark.ui.enabled" -> "false",
        "spark.sql.shuffle.partitions" -> "2",
        "spark.databricks.delta.snapshotPartitions" -> "2",
        "spark.sql.codegen.factoryMode" -> "NO_CODEGEN",
        "spark.sql.codegen.wholeStage" -> "false",
        "spark.sql.extensions" ->
          s"io.delta.sql.DeltaSparkSessionExtension,${classOf[OverlayTestExtension].getName}",
        "spark.sql.catalog.spark_catalog" -> "org.apache.spark.sql.delta.catalog.DeltaCatalog"
      ).flatMap { case (key, value) => Seq("--conf", s"$key=$value") } ++
      Seq(job.toString, folder.resolve("table é%20+").toString)
    val builder = new ProcessBuilder(command.asJava)
      .directory(folder.toFile)
      .redirectErrorStream(true)
      .redirectOutput(output.toFile)
    builder.environment.put("SPARK_HOME", folder.resolve("home").toString)
    builder.environment.put("SPARK_SCALA_VERSION", "2.13")
    val process = builder.start()
    try assert(process.waitFor(10, TimeUnit.MINUTES), "the job did not end")
    finally process.destroy()
    val printed = Files.readString(output)
    assert(
      process.exitValue == 0 && printed.contains(OverlayClusterJob.Done),
      printed.linesIterator.toVector.takeRight(200).mkString("\n")
    )
  }
}
