package io.lakestep.sql.listing

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.types.{DataType, LongType, StringType, TimestampType}

import io.lakestep.commit.Holder
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
    snapshots.logOf(table).toSeq.flatMap(snapshots.holders(_, own = None)).map {
      case held: Holder.OfSnapshot =>
        val (files, bytes) = HeldFiles.count(session, held)
        val since = Listing.time(held.snapshot.createdMs)
        Row("SNAPSHOT", held.snapshot.name, held.table.version, since, files, bytes)
      case Holder.OfTransaction(id, sinceMs) =>
        Row("TRANSACTION", id, null, Listing.time(sinceMs), null, null)
    }
  }
}
