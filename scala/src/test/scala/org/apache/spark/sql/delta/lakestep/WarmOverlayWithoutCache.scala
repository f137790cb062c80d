package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

/** As in a Delta whose cache of logs is not the one that is known here. */
object WarmOverlayWithoutCache {
  def forget(session: SparkSession, overlays: Seq[Path]): Unit =
    WarmOverlay.forget(session, overlays, _ => throw new NoSuchMethodError("getOrCreateCache"))
}
