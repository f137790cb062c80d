package io.lakestep.log

import com.fasterxml.jackson.databind.node.ObjectNode

/** The small files that a transaction has added to a table, which one file for each partition can replace. */
private[lakestep] object SmallFiles {

  /** As much as is written anew of a table. */
  val MostBytes: Long = 16L * 1024 * 1024

  /**
   * More than one file each, of one partition; the smallest first, as long as all are under `MostBytes`. None where
   * the transaction publishes several commits, and none of a table with row ids that it has also changed rows of:
   * the new files of those hold older ids.
   *
   * @param made the files that its statements have written, beyond doubt
   */
  def of(table: TableRef, changes: NetChanges, made: Set[String]): Vector[Vector[AddFile]] =
    changes.parts match {
      case Vector(part) if !changes.bakesRows && !(hasRowIds(part) && part.removes.nonEmpty) =>
        val older = changes.removedOfOthers.keySet
        part.adds
          .filter(a => a.dataChange && !older(a.path) && made(table.dataFile(a.path)))
          .filter(_.liveRows.exists(_ > 0))
          .groupBy(_.partitionValues).values.toVector
          .sortBy(files => (bytes(files), files.head.path))
          .foldLeft(MostBytes -> Vector.empty[Vector[AddFile]]) { case ((left, groups), files) =>
            val group = smallest(files, left)
            if (group.size > 1) (left - bytes(group), groups :+ group) else (left, groups)
          }._2
      case _ => Vector.empty
    }

  /** As many as are under that together, in their order. */
  private def smallest(files: Vector[AddFile], under: Long): Vector[AddFile] = {
    val bySize = files.sortBy(f => (f.sizeBytes, f.path))
    val sums = bySize.scanLeft(0L)(_ + _.sizeBytes).tail
    val taken = bySize.zip(sums).takeWhile(_._2 < under).map(_._1.path).toSet
    files.filter(f => taken(f.path))
  }

  private def bytes(files: Vector[AddFile]): Long = files.map(_.sizeBytes).sum

  private def hasRowIds(part: NetPart): Boolean = part.adds.exists(_.baseRowId.isDefined)

  /**
   * The same changes with one file in place of each group; nothing where `by` are not those files: one for
   * each partition, with as many rows.
   */
  def replace(
      changes: NetChanges,
      groups: Vector[Vector[AddFile]],
      by: Vector[AddFile]): Option[NetChanges] = {
    val written = by.groupBy(_.partitionValues)
    val pairs = groups.flatMap { group =>
      written.get(group.head.partitionValues) match {
        case Some(Vector(one)) if one.liveRows.contains(group.flatMap(_.liveRows).sum) =>
          Some(group -> placed(one, group))
        case _ => None
      }
    }
    Option.when(pairs.size == groups.size && by.size == groups.size) {
      val instead = pairs.map { case (group, one) => group.head.path -> one }.toMap
      val gone = groups.flatMap(_.map(_.path)).toSet
      changes.copy(parts = changes.parts.map { part =>
        NetPart(
          counted(part.info, gone.size - by.size),
          part.actions.flatMap {
            case a: AddFile if gone(a.path) => instead.get(a.path)
            case other => Some(other)
          }
        )
      })
    }
  }

  /** With the row ids of a file of the transaction, which publishing moves. */
  private def placed(one: AddFile, group: Vector[AddFile]): AddFile = {
    val body = one.body.deepCopy().put("dataChange", true)
    group.flatMap(_.baseRowId).minOption.foreach(body.put("baseRowId", _))
    group.flatMap(_.defaultRowCommitVersion).maxOption
      .foreach(body.put("defaultRowCommitVersion", _))
    AddFile(body)
  }

  private def counted(info: CommitInfo, fewer: Int): CommitInfo = {
    val body = info.body.deepCopy()
    Option(body.get("operationMetrics")).collect {
      case metrics: ObjectNode =>
        for (count <- Option(metrics.get("numFiles")).flatMap(_.asText.toLongOption))
          metrics.put("numFiles", (count - fewer).max(0).toString)
    }
    CommitInfo(body)
  }
}
