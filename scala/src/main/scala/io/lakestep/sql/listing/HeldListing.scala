package io.lakestep.sql.listing

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.types.{BooleanType, DataType, LongType, StringType, TimestampType}

import io.lakestep.LakestepConf
import io.lakestep.log.TableRef
import io.lakestep.transaction.{Databases, Held, HeldFiles}

/** Who keeps VACUUM from deleting files of a table that its newest version does not have. */
private[sql] final case class HeldListing(table: TableRef) extends Listing {

  override def name: String = "lakestep_held"

  override def columns: Seq[(String, DataType)] = Seq(
    "holder" -> StringType,
    "name" -> StringType,
    "version" -> LongType,
    "since" -> TimestampType,
    "files" -> LongType,
    "bytes" -> LongType,
    "has_deleted_rows" -> BooleanType
  )

  override def rows(session: SparkSession, keys: KeyRange): Seq[Row] = {
    val snapshots = Databases.of(session).snapshots
    val files = new HeldFiles(session, table)
    def row(kind: String, name: String, version: Option[Long], sinceMs: Long, held: Held) = Row(
      kind,
      name,
      version.map(Long.box).orNull,
      Listing.time(sinceMs),
      held.files,
      held.bytes,
      held.hasDeletedRows
    )
    snapshots.logOf(table).toSeq.flatMap { log =>
      val holders = snapshots.holders(log, table, own = None).map { holder =>
        val kind = if (holder.snapshot.isDefined) "SNAPSHOT" else "TRANSACTION"
        val held = holder.version.fold(Held(0, 0, hasDeletedRows = false))(files.count(holder, _))
        row(kind, holder.name, holder.version, holder.sinceMs, held)
      }
      val undo = for {
        ms <- LakestepConf.undoMs(session.conf.getOption)
        sinceMs = System.currentTimeMillis() - ms
        held = files.countRemoved(sinceMs) if held.files > 0 || held.hasDeletedRows
      } yield row("UNDO", null, None, sinceMs, held)
      holders ++ undo
    }
  }
}
