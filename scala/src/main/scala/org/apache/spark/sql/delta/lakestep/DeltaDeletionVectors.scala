package org.apache.spark.sql.delta.lakestep

import java.net.URI
import java.util.UUID

import scala.util.Using

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor
import org.apache.spark.sql.delta.deletionvectors.{
  DeletionVectorStoredBitmap, RoaringBitmapArray, RoaringBitmapArrayFormat
}
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore
import org.apache.spark.sql.delta.util.JsonUtils

import io.lakestep.Json
import io.lakestep.log.{DeletionVectors, TableRef, VectorChange}

/** Deletion vectors as Delta itself reads and writes them: all of one call in one new file. */
final class DeltaDeletionVectors(conf: Configuration) extends DeletionVectors {

  override def merge(
      table: TableRef,
      changes: Vector[VectorChange]): Either[Vector[VectorChange], Vector[ObjectNode]] = {
    val path = new Path(new URI(table.uri))
    val store = DeletionVectorStore.createInstance(conf)
    val merged = changes.map(union(store, path, _))
    val refused = changes.zip(merged).collect { case (change, None) => change }
    if (refused.nonEmpty) Left(refused) else Right(write(store, path, merged.flatten))
  }

  private def union(
      store: DeletionVectorStore,
      table: Path,
      change: VectorChange): Option[RoaringBitmapArray] = {
    def load(dv: ObjectNode) = {
      val descriptor = JsonUtils.fromJson[DeletionVectorDescriptor](Json.text(dv))
      DeletionVectorStoredBitmap(descriptor, Some(table)).load(store)
    }
    val base = change.base.fold(new RoaringBitmapArray)(load)
    val (ours, theirs) = (load(change.ours), load(change.theirs))
    def without(rows: RoaringBitmapArray, others: RoaringBitmapArray) = {
      val left = rows.copy()
      left.diff(others)
      left
    }
    val own = without(ours, base)
    val common = own.copy()
    common.and(theirs)
    Option.when(common.isEmpty && without(base, ours).isEmpty && without(base, theirs).isEmpty) {
      theirs.or(own)
      theirs
    }
  }

  private def write(
      store: DeletionVectorStore,
      table: Path,
      vectors: Vector[RoaringBitmapArray]): Vector[ObjectNode] = {
    val id = UUID.randomUUID()
    val file = store.generateFileNameInTable(store.pathWithFileSystem(table), id)
    Using.resource(store.createWriter(file)) { writer =>
      vectors.map { rows =>
        rows.runOptimize()
        val range = writer.write(rows.serializeAsByteArray(RoaringBitmapArrayFormat.Portable))
        val descriptor = DeletionVectorDescriptor.onDiskWithRelativePath(
          id,
          sizeInBytes = range.length,
          cardinality = rows.cardinality,
          offset = Some(range.offset)
        )
        Json.parse(JsonUtils.toJson(descriptor))
      }
    }
  }
}
