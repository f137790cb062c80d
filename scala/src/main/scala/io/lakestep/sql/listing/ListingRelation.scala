package io.lakestep.sql.listing

import java.util

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.{LocalScan, Scan, ScanBuilder, SupportsPushDownFilters}
import org.apache.spark.sql.execution.datasources.v2.{
  DataSourceV2Relation, DataSourceV2ScanRelation
}
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A listing as a table of a query. */
private[sql] object ListingRelation {

  def apply(listing: Listing): LogicalPlan =
    DataSourceV2Relation.create(new ListingTable(listing), None, None)

  /** Whether a leaf of a plan is one. */
  def is(leaf: LogicalPlan): Boolean = leaf match {
    case relation: DataSourceV2Relation => relation.table.isInstanceOf[ListingTable]
    case scan: DataSourceV2ScanRelation => is(scan.relation)
    case _ => false
  }
}

private final class ListingTable(listing: Listing) extends Table with SupportsRead {
  override def name: String = listing.name

  override def schema: StructType = listing.schema

  override def capabilities: util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new ListingScanBuilder(listing)
}

/** Spark applies all conditions itself; some also keep rows from being read. */
private final class ListingScanBuilder(listing: Listing)
    extends ScanBuilder
    with SupportsPushDownFilters {
  private var keys = KeyRange.All
  private var used = Array.empty[Filter]

  override def pushFilters(filters: Array[Filter]): Array[Filter] = {
    for (filter <- filters) {
      val byKey = listing.key.fold(keys)(keys.where(_, filter))
      val narrower = listing.endedAt.fold(byKey)(byKey.ended(_, filter))
      if (narrower != keys) {
        keys = narrower
        used = used :+ filter
      }
    }
    filters
  }

  override def pushedFilters: Array[Filter] = used

  override def build(): Scan = new ListingScan(listing, keys)
}

private final class ListingScan(listing: Listing, keys: KeyRange) extends LocalScan {
  override def readSchema: StructType = listing.schema

  override def rows(): Array[InternalRow] = {
    val convert = CatalystTypeConverters.createToCatalystConverter(listing.schema)
    listing.rows(SparkSession.active, keys)
      .map(convert(_).asInstanceOf[InternalRow]).toArray
  }

  override def description: String = keys match {
    case KeyRange.All => listing.name
    case KeyRange(from, to, ended) =>
      s"${listing.name}, ${listing.key.mkString} from $from to $to" +
        ended.fold("")(ms => s", ended from ${Listing.time(ms)}")
  }
}
