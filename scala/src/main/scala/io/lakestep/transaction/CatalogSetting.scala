package io.lakestep.transaction

import org.apache.spark.SparkConf
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.catalog.DeltaCatalog

import io.lakestep.Errors

/** `spark.sql.catalog.spark_catalog`: must be Lakestep's for a transaction to see named tables. */
object CatalogSetting {

  private val Key = "spark.sql.catalog.spark_catalog"
  private val Ours = "io.lakestep.catalog.TransactionalCatalog"

  /** Takes the place of no catalog and of Delta's own, which ours extends; leaves any other. */
  def install(conf: SparkConf): Unit =
    if (conf.get(Key, classOf[DeltaCatalog].getName) == classOf[DeltaCatalog].getName) {
      conf.set(Key, Ours)
    }

  /** Called at BEGIN: refuses a session whose named tables would go past the transaction. */
  def check(session: SparkSession): Unit = {
    val found = session.conf.get(Key, "none")
    if (found != Ours) throw Errors("LAKESTEP_CATALOG_NOT_SET", "key" -> Key, "found" -> found)
  }
}
