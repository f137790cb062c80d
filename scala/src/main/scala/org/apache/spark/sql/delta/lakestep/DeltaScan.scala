package org.apache.spark.sql.delta.lakestep

import org.apache.spark.sql.delta.files.TahoeFileIndex
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.types.StructType

/** The scan of a Delta table, and what lists its files. */
object DeltaScan {

  def unapply(scan: LogicalRelation): Option[TahoeFileIndex] = scan.relation match {
    case files: HadoopFsRelation =>
      files.location match {
        case index: TahoeFileIndex => Some(index)
        case _ => None
      }
    case _ => None
  }

  private[lakestep] def dataSchema(scan: LogicalRelation): Option[StructType] =
    scan.relation match {
      case files: HadoopFsRelation => Some(files.dataSchema)
      case _ => None
    }
}
