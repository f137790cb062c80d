package io.lakestep.catalog

import scala.collection.mutable
import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, NoSuchNamespaceException}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.delta.DeltaTableUtils
import org.apache.spark.sql.delta.sources.DeltaSourceUtils

import org.apache.spark.sql.delta.lakestep.SparkInternals
import io.lakestep.{Errors, LakestepException}
import io.lakestep.commit.{AsOf, BeginRequest, BegunTransaction, IsolationLevel, Pin}
import io.lakestep.names.{Metastore, TableName, TransactionNames}
import io.lakestep.storage.CanonicalPath
import io.lakestep.overlay.{Chain, OverlayPath}
import io.lakestep.transaction.{BasePath, Databases, Transactions}

/**
 * Where a table is, by a name that leads there today, and which of its versions was that of a database version.
 *
 * @param asked what it is called in the query, where that is another name
 */
private[lakestep] final case class PastTable(
    name: Seq[String],
    version: Long,
    asked: Option[Seq[String]] = None)

/** The tables of one query in earlier versions of the database, all of a version at one point. */
private[lakestep] final class PastTables(session: SparkSession) {
  import PastTables.{at, begin, check, notFound, ofSessionCatalog}

  private lazy val database = Databases.of(session)
  private lazy val conf = session.sessionState.newHadoopConf()

  private val begun = mutable.Map.empty[AsOf, BegunTransaction]
  private val names = mutable.Map.empty[AsOf, TransactionNames]
  private val pins = mutable.Map.empty[(AsOf, Path), Pin]

  /**
   * What the query means by a table.
   *
   * @param name as the query has it; `` delta.`path` `` for one without a name
   *
   * Conditions: LAKESTEP_AS_OF_NOT_FOUND, LAKESTEP_NOT_THERE_AS_OF, LAKESTEP_NOT_A_TABLE.
   */
  def apply(name: Seq[String], asOf: AsOf): PastTable = pathOf(name) match {
    case Some(path) =>
      val place = CanonicalPath(path, conf)
      val pin = this.pin(place, asOf)
      at(pin, place).fold(PastTable(name, pin.version)) { kept =>
        PastTable(kept, pin.version, asked = Some(name))
      }
    case _ => named(name, asOf)
  }

  /**
   * Looks for the versions of several tables at once; what cannot be found is told by `apply`.
   *
   * @param tables as of `apply`
   */
  def ahead(tables: Seq[(Seq[String], AsOf)]): Unit = {
    val places = tables.distinct.flatMap { case (name, asOf) =>
      Try {
        reading(asOf)
        val path = pathOf(name).orElse(stood(name, asOf).map(t => new Path(t.location)))
        path.map(p => (asOf, CanonicalPath(p, conf)))
      }.toOption.flatten
    }.distinct
    if (places.size > 1) database.together(places.toVector) { case (asOf, place) =>
      Try(found(begun(asOf), place)).toOption
    }.zip(places).foreach { case (pin, asked) => pin.foreach(pins.update(asked, _)) }
  }

  private def pathOf(name: Seq[String]): Option[Path] = name match {
    case Seq(format, path) if DeltaSourceUtils.isDeltaDataSourceName(format) =>
      Some(new Path(path))
    case _ => None
  }

  private def reading(asOf: AsOf): BegunTransaction = begun.getOrElseUpdate(
    asOf, {
      asOf match {
        case AsOf.Version(number) => check(session, number)
        case _ => ()
      }
      val txn = begin(session, asOf)
      check(session, txn.snapshot)
      txn
    }
  )

  private def pin(place: Path, asOf: AsOf): Pin = {
    val txn = reading(asOf)
    val pin = pins.getOrElseUpdate((asOf, place), found(txn, place))
    // Above its pin a transaction has versions of its own.
    for {
      open <- Transactions.open(session)
      overlay <- open.overlayOf(place, conf)
      if pin.version > OverlayPath.parse(overlay).chain.pin
    } throw notFound(txn.snapshot, s"this transaction reads $place as it was before")
    pin
  }

  private def found(txn: BegunTransaction, place: Path): Pin =
    database.pinned(txn, BasePath.ref(place), notBelow = -1)

  private def called(identifier: TableIdentifier): TableName =
    TableName.of(session.sessionState.catalog.qualifyIdentifier(identifier))

  /** What a name of the session catalog stood for. */
  private def stood(name: Seq[String], asOf: AsOf): Option[CatalogTable] =
    ofSessionCatalog(session, name).flatMap { identifier =>
      val txn = reading(asOf)
      names.getOrElseUpdate(asOf, new TransactionNames(database.namesBefore(txn, _)))
        .table(SparkInternals.metastore(session), called(identifier))
    }

  private def named(name: Seq[String], asOf: AsOf): PastTable = {
    def notThere(reason: String): LakestepException = Errors(
      "LAKESTEP_NOT_THERE_AS_OF",
      "table" -> name.mkString("."),
      "version" -> reading(asOf).snapshot.toString,
      "reason" -> reason
    )
    val identifier = ofSessionCatalog(session, name)
      .getOrElse(throw notThere(s"it is not in ${SparkInternals.sessionCatalogName}"))
    val table = stood(name, asOf).getOrElse(throw notThere("no table had this name then"))
    if (table.tableType == CatalogTableType.VIEW)
      throw notThere("it was a view; read its tables AS OF that version")
    if (!DeltaTableUtils.isDeltaTable(table)) throw notThere("it was no Delta table")
    val here = called(identifier)
    val now =
      Metastore.table(session.sessionState.catalog.externalCatalog, here.schema, here.name)
    val isStill = now.exists(_.storage.locationUri.contains(table.location))
    val place = CanonicalPath(new Path(table.location), conf)
    val pin = this.pin(place, asOf)
    val kept = at(pin, place)
    if (isStill && kept.isEmpty) PastTable(name, pin.version)
    else {
      val full = Seq(SparkInternals.sessionCatalogName, here.schema, here.name)
      val path = new Path(table.location).toString
      PastTable(kept.getOrElse(Seq("delta", path)), pin.version, asked = Some(full))
    }
  }
}

private[lakestep] object PastTables {

  /**
   * The open transaction must read what is read of an earlier version.
   *
   * Condition: LAKESTEP_AS_OF_NOT_FOUND.
   */
  def check(session: SparkSession, number: Long): Unit =
    for (open <- Transactions.open(session) if number > open.begun.snapshot)
      throw notFound(number, s"this transaction reads version ${open.begun.snapshot}")

  /** It puts nothing. */
  def begin(session: SparkSession, asOf: AsOf): BegunTransaction =
    Databases.of(session).begin(
      BeginRequest(
        name = None,
        user = session.sparkContext.sparkUser,
        application = session.sparkContext.applicationId,
        isolation = IsolationLevel.Snapshot,
        readOnly = true,
        notBefore = 0,
        asOf = Some(asOf)
      )
    )

  private def notFound(number: Long, reason: String): LakestepException =
    Errors("LAKESTEP_AS_OF_NOT_FOUND", "asked" -> s"VERSION $number", "reason" -> reason)

  /** The table by the copy of its log, where there is one. */
  private def at(pin: Pin, place: Path): Option[Seq[String]] = pin.kept.map { _ =>
    val path = OverlayPath(Chain(pin.version, Vector.empty, pin.kept), place).toPath
    Seq("delta", path.toString)
  }

  /** The name of a schema of the session catalog, in its letter case. Condition: SCHEMA_NOT_FOUND. */
  def schema(session: SparkSession, name: Seq[String]): String = {
    val inside = ofSessionCatalog(session, name :+ "any").filter(_ => name.size < 3)
      .getOrElse(throw new NoSuchNamespaceException(name.toArray))
    session.sessionState.catalog.qualifyIdentifier(inside).database.getOrElse("")
  }

  /** Inside a view a name means what it meant where the view was made. */
  def ofSessionCatalog(
      session: SparkSession,
      name: Seq[String]): Option[TableIdentifier] = {
    val own = SparkInternals.sessionCatalogName
    val (catalog, schema) = AnalysisContext.get.catalogAndNamespace match {
      case catalog +: namespace if namespace.nonEmpty => (catalog, namespace.last)
      case _ => (session.catalog.currentCatalog(), session.catalog.currentDatabase)
    }
    val isCurrent = catalog.equalsIgnoreCase(own)
    name match {
      case Seq(table) if isCurrent => Some(TableIdentifier(table, Some(schema)))
      case Seq(named, schema, table) if named.equalsIgnoreCase(own) =>
        Some(TableIdentifier(table, Some(schema)))
      case Seq(named, table) if isCurrent => Some(TableIdentifier(table, Some(named)))
      case _ => None
    }
  }
}
