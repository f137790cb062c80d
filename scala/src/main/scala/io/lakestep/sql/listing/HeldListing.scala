package io.lakestep.sql.listing

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.types.{DataType, LongType, StringType, TimestampType}

import io.lakestep.log.TableRef
import io.lakestep.transaction.{Databases, HeldFiles}

/** Who keeps VACUUM from deleting files of a table that its newest version does not have. */
private[sql] final case class HeldListing(table: TableRef) extends Listing {

  override def name: String = "lakestep_held"

  override def columns: Seq[(String, DataType)] = Seq(
    "holder" -> StringType,
    "name" -> StringType,
    "version" -> LongType,
    "since" -> TimestampType,
    "files" -> LongType,
    "bytes" -> LongType
  )

  override def rows(session: SparkSession, keys: KeyRange): Seq[Row] = {
    val snapshots = Databases.of(session).snapshots
    val files = new HeldFiles(session, table)
    snapshots.logOf(table).toSeq.flatMap(snapshots.holders(_, table, own = None)).map { holder =>
      val kind = if (holder.snapshot.isDefined) "SNAPSHOT" else "TRANSACTION"
      val since = Listing.time(holder.sinceMs)
      holder.version match {
        case None => Row(kind, holder.name, null, since, 0L, 0L)
        case Some(version) =>
          val (number, bytes) = files.count(holder, version)
          Row(kind, holder.name, version, since, number, bytes)
      }
    }
  }
}
