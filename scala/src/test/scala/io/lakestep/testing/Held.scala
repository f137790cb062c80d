package io.lakestep.testing

import java.lang.management.ManagementFactory

import org.apache.hadoop.fs.FileSystem
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.DeltaLog

/** What this JVM holds on to, and a leak would make it hold more of. */
object Held {

  /** Cached file systems, cached Delta logs, threads, and bytes of heap after a collection. */
  def now(session: SparkSession): Array[Long] =
    Array(fileSystems, deltaLogs(session), threads, heapBytes)

  private def fileSystems: Long = {
    val cache = classOf[FileSystem].getDeclaredField("CACHE")
    cache.setAccessible(true)
    val map = cache.get(null).getClass.getDeclaredField("map")
    map.setAccessible(true)
    map.get(cache.get(null)).asInstanceOf[java.util.Map[_, _]].size.toLong
  }

  private def deltaLogs(session: SparkSession): Long = {
    val cache = DeltaLog.getClass.getDeclaredMethods.find(_.getName.endsWith("getOrCreateCache"))
    cache.fold(throw new NoSuchMethodError("DeltaLog.getOrCreateCache")) { method =>
      method.setAccessible(true)
      method
        .invoke(DeltaLog, session.sessionState.conf)
        .asInstanceOf[com.google.common.cache.Cache[_, _]]
        .size
    }
  }

  /** Without Delta's own pool for checkpoints, which grows up to a bound with every checkpoint. */
  private def threads: Long = {
    val all = ManagementFactory.getThreadMXBean
    all
      .getThreadInfo(all.getAllThreadIds)
      .count(thread => Option(thread).exists(!_.getThreadName.startsWith("checkpointV")))
      .toLong
  }

  private def heapBytes: Long = {
    System.gc()
    ManagementFactory.getMemoryMXBean.getHeapMemoryUsage.getUsed
  }
}
