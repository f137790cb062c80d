package io.lakestep.transaction

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.unsafe.types.UTF8String

import io.lakestep.Errors
import io.lakestep.commit.AsOf

/** The earlier state that BEGIN names. */
sealed trait AskedAsOf {

  /** Condition: LAKESTEP_AS_OF_INVALID. */
  def in(session: SparkSession): AsOf
}

object AskedAsOf {

  final case class Version(text: String) extends AskedAsOf {
    override def in(session: SparkSession): AsOf =
      AsOf.Version(text.toLongOption.getOrElse(throw invalid(text)))
  }

  final case class Snapshot(name: String) extends AskedAsOf {
    override def in(session: SparkSession): AsOf = AsOf.Named(name)
  }

  final case class Before(transaction: String) extends AskedAsOf {
    override def in(session: SparkSession): AsOf = AsOf.Before(transaction)
  }

  /** Without a zone it is of that of the session. */
  final case class Timestamp(text: String) extends AskedAsOf {
    override def in(session: SparkSession): AsOf = {
      val zone = DateTimeUtils.getZoneId(session.sessionState.conf.sessionLocalTimeZone)
      DateTimeUtils.stringToTimestamp(UTF8String.fromString(text), zone)
        .map(micros => AsOf.Time(Math.floorDiv(micros, 1000L)))
        .getOrElse(throw invalid(text))
    }
  }

  private def invalid(text: String) = Errors("LAKESTEP_AS_OF_INVALID", "asked" -> text)
}
