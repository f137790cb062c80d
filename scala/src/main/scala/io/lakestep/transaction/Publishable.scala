package io.lakestep.transaction

import java.util.Locale

import org.apache.spark.sql.delta.lakestep.StagingObserver
import io.lakestep.Errors
import io.lakestep.log.{ForeignWriters, OneCommit, StagedEffect}

/** Whether COMMIT can publish what is staged of a table: asked of each statement, never at COMMIT. */
private[transaction] object Publishable {

  /**
   * Refuses the statement that has staged the last commits of a table, where COMMIT could not publish
   * them all. Nothing else of the table's content can keep COMMIT from it.
   */
  def check(table: TransactionTable, staged: Vector[StagedEffect]): Unit = {
    // Not by a Delta transaction, so nobody has looked at what it read.
    if (!table.isKnown)
      throw Errors(
        "LAKESTEP_OVERLAY_CHANGE_REFUSED",
        "path" -> table.overlay.toString,
        "change" -> "stage a commit that no transaction of Delta's has made"
      )
    val pinned = table.pinnedHeader
    OneCommit.fault(OneCommit.tracksRows(pinned, staged), staged)
      .foreach(fault => throw fault.error(table.name))
    pinned.foreach(ForeignWriters.checkMode(_, staged))
    if (table.isNew) checkNew(table, staged)
  }

  /** What a statement gives a table that it makes, and Delta would have to act upon after the commit. */
  private def checkNew(table: TransactionTable, staged: Vector[StagedEffect]): Unit = {
    val properties =
      staged.flatMap(_.metaData).lastOption.fold(Map.empty[String, String])(_.properties)
    if (properties.keys.exists(key => key.equalsIgnoreCase(ForeignWriters.Property)))
      throw Errors(
        "LAKESTEP_FOREIGN_WRITERS_OF_NEW_TABLE",
        "property" -> ForeignWriters.Property,
        "table" -> table.base.toString
      )
    val features = staged.flatMap(_.protocol).flatMap(_.writerFeatures).flatten.toSet
    val reason =
      if (properties.keys.exists(_.toLowerCase(Locale.ROOT).startsWith("delta.universalformat.")))
        Some("UNIFORM")
      else if (properties.get("delta.compatibility.symlinkFormatManifest.enabled").contains("true"))
        Some("SYMLINK_MANIFEST")
      else Option.when(features.exists(StagingObserver.ManagedCommits))("CATALOG_MANAGED")
    reason.foreach { subclass =>
      throw Errors(s"LAKESTEP_UNSUPPORTED_TABLE.$subclass", "table" -> table.base.toString)
    }
  }
}
