package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

/** The two ways of `WarmOverlay.forget`, each by itself. */
object ForgettingOverlays {
  def inOnePass(session: SparkSession, overlays: Seq[Path]): Unit =
    WarmOverlay.inOnePass(session, overlays)

  /** As in a Delta whose cache of logs is not the one that is known here. */
  def oneByOne(session: SparkSession, overlays: Seq[Path]): Unit =
    WarmOverlay.forget(session, overlays, _ => throw new NoSuchMethodError("getOrCreateCache"))
}
