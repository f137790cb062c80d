package io.lakestep

import java.util.Properties

import scala.util.Using

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.internal.SQLConf

/**
 * The versions this JAR was built as and for, from `lakestep-build.properties`.
 *
 * Spark's patch releases of the supported line are accepted; Delta must be exactly the supported
 * version, because the overlay relies on Delta's internals.
 */
object Versions {

  private val build: Properties = {
    val properties = new Properties
    Using.resource(getClass.getClassLoader.getResourceAsStream("lakestep-build.properties")) {
      properties.load
    }
    properties
  }

  /** The version of this JAR; the wheel of the same build has the same. */
  val lakestep: String = build.getProperty("version")

  /** The Spark version this JAR was compiled and tested with. */
  val spark: String = build.getProperty("spark")

  /** The Delta version this JAR was compiled and tested with. */
  val delta: String = build.getProperty("delta")

  /**
   * The setting by which a client, also one of Spark Connect, reads the version of the JAR on the
   * driver. Static, so that no session changes it; a session without Lakestep does not know it.
   */
  val versionKey: String = SQLConf
    .buildStaticConf("spark.lakestep.version")
    .doc("The version of the Lakestep JAR on the driver. Read only.")
    .version("0.1.0")
    .stringConf
    .createWithDefault(lakestep)
    .key

  /**
   * Returns if the Spark and the Delta on the class path are supported; from then on every session
   * of this JVM knows [[versionKey]]. Idempotent.
   *
   * Throws `LAKESTEP_UNSUPPORTED_RUNTIME`, which names what was found and what is supported.
   */
  def checkRuntime(): Unit = check(SPARK_VERSION, deltaOnClassPath)

  /** [[checkRuntime]] for the given versions; `None` for a Delta that is not there. */
  private[lakestep] def check(sparkFound: String, deltaFound: Option[String]): Unit = {
    if (line(sparkFound) != line(spark)) throw unsupported("Spark", sparkFound)
    if (!deltaFound.contains(delta)) throw unsupported("Delta", deltaFound.getOrElse("none"))
  }

  private def deltaOnClassPath: Option[String] =
    try Some(io.delta.VERSION)
    catch { case _: NoClassDefFoundError => None }

  private def line(version: String): String = version.split('.').take(2).mkString(".")

  private def unsupported(component: String, found: String): LakestepException =
    Errors(
      "LAKESTEP_UNSUPPORTED_RUNTIME",
      "component" -> component,
      "found" -> found,
      "version" -> lakestep,
      "spark" -> s"${line(spark)}.x",
      "delta" -> delta
    )
}
