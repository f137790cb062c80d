package io.lakestep.overlay

import org.apache.hadoop.conf.Configuration
import org.apache.spark.{SparkConf, SparkContext, SparkEnv}

import io.lakestep.{Errors, LakestepException}

/**
 * What Spark, Hadoop and Delta must know to open an overlay.
 *
 * Delta looks log stores up in `SparkEnv.get.conf`, the one SparkConf of the running driver, and
 * executors get the Hadoop settings with every job. Both can therefore still be set when a session
 * is built, and a user needs to give `spark.sql.extensions` only.
 *
 * `fs.AbstractFileSystem.lakestep.impl` is left out on purpose: Hadoop keeps statistics for every
 * authority that is opened that way, for ever, and Spark falls back to the FileSystem without it.
 */
object OverlaySettings {

  private val LogStoreClassKeys = Seq("spark.delta.logStore.class", "delta.logStore.class")

  private def isSet(conf: SparkConf, key: String) =
    conf.contains(key) || conf.contains(key.stripPrefix("spark."))

  /** `install` for the driver that runs in this JVM; its SparkContext must have been started. */
  def installInDriver(): Unit =
    install(SparkEnv.get.conf, SparkContext.getOrCreate().hadoopConfiguration)

  /**
   * Sets what is not set, in both; what the user set stays. Idempotent.
   *
   * Condition: LAKESTEP_LOG_STORE_CLASS_CONFLICT, before anything is set.
   */
  def install(conf: SparkConf, hadoop: Configuration): Unit = {
    conflict(conf).foreach(throw _)
    val overlayStore = classOf[OverlayLogStore].getName
    val baseStore = classOf[BaseLogStore].getName
    val stores = (OverlayPath.Scheme -> overlayStore) +: BaseLogStore.Schemes.map(_ -> baseStore)
    stores.foreach { case (scheme, store) =>
      if (!isSet(conf, BaseLogStore.key(scheme))) conf.set(BaseLogStore.key(scheme), store)
    }
    Seq(
      s"fs.${OverlayPath.Scheme}.impl" -> classOf[OverlayFileSystem].getName,
      s"fs.${OverlayPath.Scheme}.impl.disable.cache" -> "true",
      s"io.delta.kernel.logStore.${OverlayPath.Scheme}.impl" -> overlayStore
    ).foreach { case (key, value) =>
      hadoop.setIfUnset(key, value)
      conf.setIfMissing(s"spark.hadoop.$key", value)
    }
  }

  /**
   * A log store for every path, which cannot go with ours for one scheme: Delta refuses both.
   * `install` throws it.
   */
  def conflict(conf: SparkConf): Option[LakestepException] =
    LogStoreClassKeys.find(conf.contains).map { key =>
      Errors("LAKESTEP_LOG_STORE_CLASS_CONFLICT", "key" -> key, "value" -> conf.get(key))
    }
}
