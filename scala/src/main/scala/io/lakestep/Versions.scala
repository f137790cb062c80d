package io.lakestep

import org.apache.spark.sql.internal.SQLConf

/** The versions this JAR was built as and for. Whether they fit is asked by [[RuntimeContract]]. */
object Versions {

  private val build = RuntimeContract.build()

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
  lazy val versionKey: String = SQLConf
    .buildStaticConf("spark.lakestep.version")
    .doc("The version of the Lakestep JAR on the driver. Read only.")
    .version("0.1.0")
    .stringConf
    .createWithDefault(lakestep)
    .key

  /** From then on every session of this JVM knows [[versionKey]]. Idempotent. */
  def publish(): Unit = {
    versionKey
    ()
  }
}
