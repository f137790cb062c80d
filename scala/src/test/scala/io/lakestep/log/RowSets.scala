package io.lakestep.log

import com.fasterxml.jackson.databind.node.ObjectNode

import io.lakestep.Json

/** Deletion vectors whose "file" names the rows themselves: `3.7` holds rows 3 and 7. */
object RowSets extends DeletionVectors {

  def of(dv: ObjectNode): Set[String] = dv.path("pathOrInlineDv").asText.split('.').toSet

  override def merge(
      table: TableRef,
      changes: Vector[VectorChange]): Either[Vector[VectorChange], Vector[ObjectNode]] = {
    val (refused, merged) = changes.partitionMap { change =>
      val base = change.base.fold(Set.empty[String])(of)
      val (ours, theirs) = (of(change.ours), of(change.theirs))
      val fits =
        (ours -- base).intersect(theirs).isEmpty && base.subsetOf(ours) && base.subsetOf(theirs)
      val all = ours ++ theirs
      Either.cond(
        fits,
        Json.obj().put("storageType", "u").put("pathOrInlineDv", all.toSeq.sorted.mkString("."))
          .put("cardinality", all.size),
        change
      )
    }
    if (refused.isEmpty) Right(merged) else Left(refused)
  }
}
