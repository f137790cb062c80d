package org.apache.spark.sql.delta.lakestep

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.delta.{DeltaTimeTravelSpec, Snapshot}
import org.apache.spark.sql.delta.actions.{AddFile, Metadata, Protocol}
import org.apache.spark.sql.delta.commands.{CloneDeltaSource, CloneSource}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.Clock

/** The source of a CLONE, as a transaction sees it. Its files are those of the table itself. */
final class OverlayCloneSource(inner: CloneDeltaSource, base: Path) extends CloneSource {
  def overlay: Path = inner.dataPath
  override def dataPath: Path = base
  override def name: String =
    if (inner.name.contains(overlay.toString)) s"delta.`$base`" else inner.name
  override def description: String = s"$format table $name"
  override def format: String = inner.format
  override def protocol: Protocol = inner.protocol
  override def clock: Clock = inner.clock
  override def schema: StructType = inner.schema
  override def catalogTable: Option[CatalogTable] = inner.catalogTable
  override def timeTravelOpt: Option[DeltaTimeTravelSpec] = inner.timeTravelOpt
  override def snapshot: Option[Snapshot] = inner.snapshot
  override def metadata: Metadata = inner.metadata
  override def allFiles: Dataset[AddFile] = inner.allFiles
  override def sizeInBytes: Long = inner.sizeInBytes
  override def numOfFiles: Long = inner.numOfFiles
  override def close(): Unit = inner.close()
}
