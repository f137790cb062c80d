package io.lakestep.sql.command

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.{LongType, StringType}

import io.lakestep.transaction.Lifecycle

/** `FORGET BATCH KEYS`: a streaming query may begin again with any batch. */
final case class ForgetBatchKeys(query: String) extends TransactionCommand {

  override val output: Seq[Attribute] =
    Columns("query" -> StringType, "batch" -> LongType, "entry" -> LongType)

  override def run(session: SparkSession): Seq[Row] =
    Lifecycle.forgetBatches(session, query).toSeq.map(b => Row(query, b.batch, b.entry))
}
