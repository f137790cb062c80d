package io.lakestep.catalog

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, NoSuchNamespaceException}
import org.apache.spark.sql.catalyst.catalog.CatalogTableType
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

private[lakestep] object PastTables {

  /**
   * What a query means by a table in an earlier version of the database.
   *
   * @param name as the query has it; `` delta.`path` `` for one without a name
   * @param txn from `reading`, the same for all tables of a query
   *
   * Conditions: LAKESTEP_NOT_THERE_AS_OF, LAKESTEP_NOT_A_TABLE.
   */
  def apply(session: SparkSession, name: Seq[String], txn: BegunTransaction): PastTable =
    name match {
      case Seq(format, path) if DeltaSourceUtils.isDeltaDataSourceName(format) =>
        val (pin, place) = this.pin(session, txn, new Path(path))
        at(pin, place).fold(PastTable(name, pin.version)) { kept =>
          PastTable(kept, pin.version, asked = Some(name))
        }
      case _ => named(session, txn, name)
    }

  /** What a query reads. Condition: LAKESTEP_AS_OF_NOT_FOUND. */
  def reading(session: SparkSession, asOf: AsOf): BegunTransaction = {
    asOf match {
      case AsOf.Version(number) => check(session, number)
      case _ => ()
    }
    val txn = begin(session, asOf)
    check(session, txn.snapshot)
    txn
  }

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

  private def pin(
      session: SparkSession,
      txn: BegunTransaction,
      path: Path): (Pin, Path) = {
    val conf = session.sessionState.newHadoopConf()
    val place = CanonicalPath(path, conf)
    val pin = Databases.of(session).pinned(txn, BasePath.ref(place), notBelow = -1)
    // Above its pin a transaction has versions of its own.
    for {
      open <- Transactions.open(session)
      overlay <- open.overlayOf(place, conf)
      if pin.version > OverlayPath.parse(overlay).chain.pin
    } throw notFound(txn.snapshot, s"this transaction reads $path as it was before")
    (pin, place)
  }

  private def named(
      session: SparkSession,
      txn: BegunTransaction,
      name: Seq[String]): PastTable = {
    def notThere(reason: String): LakestepException = Errors(
      "LAKESTEP_NOT_THERE_AS_OF",
      "table" -> name.mkString("."),
      "version" -> txn.snapshot.toString,
      "reason" -> reason
    )
    val identifier = ofSessionCatalog(session, name)
      .getOrElse(throw notThere(s"it is not in ${SparkInternals.sessionCatalogName}"))
    val database = Databases.of(session)
    val metastore = SparkInternals.metastore(session)
    val called = TableName.of(session.sessionState.catalog.qualifyIdentifier(identifier))
    def tableOf(names: TransactionNames) = names.table(metastore, called)
    val stood = tableOf(new TransactionNames(database.namesBefore(txn, _)))
      .getOrElse(throw notThere("no table had this name then"))
    if (stood.tableType == CatalogTableType.VIEW)
      throw notThere("it was a view; read its tables AS OF that version")
    if (!DeltaTableUtils.isDeltaTable(stood)) throw notThere("it was no Delta table")
    val path = new Path(stood.location)
    val now = Metastore.table(
      session.sessionState.catalog.externalCatalog,
      called.schema,
      called.name
    )
    val isStill = now.exists(_.storage.locationUri.contains(stood.location))
    val (pin, place) = this.pin(session, txn, path)
    val kept = at(pin, place)
    if (isStill && kept.isEmpty) PastTable(name, pin.version)
    else {
      val full = Seq(SparkInternals.sessionCatalogName, called.schema, called.name)
      PastTable(kept.getOrElse(Seq("delta", path.toString)), pin.version, asked = Some(full))
    }
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
