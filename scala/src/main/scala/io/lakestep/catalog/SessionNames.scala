package io.lakestep.catalog

import java.lang.ref.WeakReference
import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  AnalysisContext, DatabaseAlreadyExistsException, NoSuchDatabaseException, NoSuchTableException,
  TableAlreadyExistsException
}
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogStatistics, CatalogTable, CatalogTableType, ExternalCatalog
}
import org.apache.spark.sql.catalyst.util.StringUtils
import org.apache.spark.sql.delta.DeltaTableUtils
import org.apache.spark.sql.types.StructType

import io.lakestep.{Errors, LakestepConf}
import io.lakestep.commit.Database
import io.lakestep.names.{Metastore, NameState, SchemaFolder, TableName, TransactionNames}
import io.lakestep.overlay.OverlayPath
import io.lakestep.transaction.{Databases, SessionState, Transaction, Transactions}

/**
 * The metastore of a session, with the names of its open transaction in front of it. Whatever of Spark
 * or Delta looks a name up, or changes one, comes through here; the metastore itself is changed by COMMIT
 * alone. Outside a transaction it is the metastore.
 */
final class SessionNames(session: SparkSession, base: ExternalCatalog)
    extends ExternalCatalogCalls(base) {

  private def open: Option[Transaction] = Transactions.state(session) match {
    case SessionState.Open(transaction) => Some(transaction)
    case _ => None
  }

  private def names: Option[TransactionNames] = open.map(_.names)

  private val limits = new MetastoreLimits(session)

  /** Names that one query outside a transaction looks up: all at one point. */
  private val ofQuery = new ThreadLocal[(WeakReference[AnyRef], NamesOfQuery)]

  /** The session's database, by the settings that tell where it is. */
  private val found =
    new AtomicReference(Option.empty[((Option[String], String), Option[Database])])

  /**
   * Nothing where it cannot be read, which is tried once: no statement without a transaction waits for a
   * store that it does not need.
   */
  private def database: Option[Database] = {
    val place =
      (session.conf.getOption(LakestepConf.Root.key), session.sessionState.conf.warehousePath)
    found.get.filter(_._1 == place).map(_._2).getOrElse {
      val readable =
        try {
          val database = Databases.of(session)
          database.lookForNames()
          Some(database)
        } catch { case NonFatal(_) => None }
      found.set(Some(place -> readable))
      readable
    }
  }

  /** A plan is about to be analysed, with what is in force for it and for the views in it. */
  private[catalog] def analysing(context: AnyRef): Unit =
    if (open.isEmpty && ofThisQuery(context).isEmpty)
      database.flatMap(_.namesOfQuery()) match {
        case Some(query) =>
          ofQuery.set((new WeakReference(context), new NamesOfQuery(base, query)))
        case None => ofQuery.remove()
      }

  private def ofThisQuery(context: AnyRef): Option[NamesOfQuery] =
    Option(ofQuery.get).filter(_._1.get eq context).map(_._2)

  /** The names of the query that this thread analyses, if it is outside a transaction. */
  private[catalog] def ofAnalysis: Option[NamesOfQuery] =
    if (open.isDefined) None else ofThisQuery(AnalysisContext.get.relationCache)

  private def read[T](inside: TransactionNames => T)(outside: => T): T =
    names.orElse(ofAnalysis.map(_.names)).fold(outside)(inside)

  private def in[T](inside: TransactionNames => T)(outside: => T): T =
    names.fold(outside)(inside)

  private def change(names: TransactionNames)(next: NameState => NameState): Unit = {
    limits.refuseUnfit(base)
    names.change { before =>
      val after = next(before)
      def spelled = after.tables.keys.flatMap(t => Seq(t.schema, t.name))
      limits.refuseSpelling(after.schemas.keys ++ spelled)
      after
    }
  }

  // Schemas.

  override def createDatabase(schema: CatalogDatabase, ignoreIfExists: Boolean): Unit =
    in { n =>
      if (n.schema(base, schema.name).isEmpty) {
        limits.refuse(schema)
        change(n)(_.set(schema.name, Some(schema)))
      } else if (!ignoreIfExists)
        throw new DatabaseAlreadyExistsException(schema.name)
    }(super.createDatabase(schema, ignoreIfExists))

  override def dropDatabase(name: String, ignoreIfNotExists: Boolean, cascade: Boolean): Unit =
    in { n =>
      if (n.schema(base, name).isEmpty) {
        if (!ignoreIfNotExists) throw new NoSuchDatabaseException(name)
      } else {
        val inside = listTables(name)
        val functions = if (isOfBase(name)) base.listFunctions(name, "*") else Nil
        if (functions.nonEmpty || inside.nonEmpty && !cascade)
          throw Errors(
            "LAKESTEP_SCHEMA_NOT_EMPTY",
            "schema" -> name,
            "objects" -> (inside ++ functions.map(_ + "()")).sorted.take(10).mkString(", ")
          )
        val tables = inside.map(t => TableName(name, t) -> getTable(name, t))
        tables.foreach { case (_, table) => refuseOther(table) }
        change(n)(state =>
          tables.foldLeft(state) { case (s, (t, table)) => s.drop(t, table) }.set(name, None)
        )
      }
    } {
      Metastore.schema(base, name) match {
        case Some(schema) =>
          def conf = session.sessionState.newHadoopConf()
          SchemaFolder.drop(base, conf, schema, ignoreIfNotExists, cascade)(
            FolderOfAnother.holdsTables(session, schema)
          )
        case None => super.dropDatabase(name, ignoreIfNotExists, cascade)
      }
    }

  override def alterDatabase(schema: CatalogDatabase): Unit =
    in { n =>
      requireDbExists(schema.name)
      limits.refuse(schema)
      change(n)(_.set(schema.name, Some(schema)))
    }(super.alterDatabase(schema))

  override def getDatabase(name: String): CatalogDatabase =
    read { n =>
      val schema = n.schema(base, name).getOrElse(throw new NoSuchDatabaseException(name))
      MakingTable.folder.fold(schema)(f => schema.copy(locationUri = f(schema.locationUri)))
    }(super.getDatabase(name))

  override def databaseExists(name: String): Boolean =
    read(_.schema(base, name).isDefined)(super.databaseExists(name))

  override def listDatabases(): Seq[String] =
    read(_.schemas(base, base.listDatabases()))(super.listDatabases())

  override def listDatabases(pattern: String): Seq[String] =
    read(_ => StringUtils.filterPattern(listDatabases(), pattern))(super.listDatabases(pattern))

  override def setCurrentDatabase(name: String): Unit =
    if (names.isEmpty || isOfBase(name)) super.setCurrentDatabase(name)

  private def isOfBase(schema: String) = base.databaseExists(schema)

  // Tables and views.

  override def createTable(table: CatalogTable, ignoreIfExists: Boolean): Unit =
    in { n =>
      val name = TableName(table.database, table.identifier.table)
      requireDbExists(name.schema)
      if (n.table(base, name).isEmpty) {
        refuseOther(table)
        limits.refuse(table)
        change(n)(_.set(name, Some(ofBase(table))))
      } else if (!ignoreIfExists) throw new TableAlreadyExistsException(name.schema, name.name)
    }(super.createTable(table, ignoreIfExists))

  override def dropTable(
      schema: String,
      table: String,
      ignoreIfNotExists: Boolean,
      purge: Boolean): Unit =
    in { n =>
      n.table(base, TableName(schema, table)) match {
        case Some(there) =>
          refuseOther(there)
          change(n)(_.drop(TableName(schema, table), there))
        case None if ignoreIfNotExists =>
        case None => throw new NoSuchTableException(schema, table)
      }
    }(super.dropTable(schema, table, ignoreIfNotExists, purge))

  override def renameTable(schema: String, from: String, to: String): Unit =
    in { n =>
      val there = required(n, schema, from)
      if (n.table(base, TableName(schema, to)).isDefined)
        throw new TableAlreadyExistsException(schema, to)
      refuseOther(there)
      limits.renamed(there, to)
      val named = there.copy(identifier = TableIdentifier(to, Some(schema)))
      change(n)(_.set(TableName(schema, from), None).set(TableName(schema, to), Some(named)))
    }(super.renameTable(schema, from, to))

  override def alterTable(table: CatalogTable): Unit =
    in { n =>
      val name = TableName(table.database, table.identifier.table)
      refuseOther(required(n, name.schema, name.name))
      limits.refuse(table)
      change(n)(_.set(name, Some(ofBase(table))))
    }(super.alterTable(table))

  override def alterTableDataSchema(schema: String, table: String, data: StructType): Unit =
    in(alter(_, schema, table)(_.copy(schema = data))) {
      super.alterTableDataSchema(schema, table, data)
    }

  override def alterTableSchema(schema: String, table: String, data: StructType): Unit =
    in(alter(_, schema, table)(_.copy(schema = data)))(super.alterTableSchema(schema, table, data))

  /** What Spark counts of a table is not worth a change of a name. */
  override def alterTableStats(
      schema: String,
      table: String,
      stats: Option[CatalogStatistics]): Unit =
    in(_ => ())(super.alterTableStats(schema, table, stats))

  private def alter(names: TransactionNames, schema: String, table: String)(
      next: CatalogTable => CatalogTable): Unit =
    change(names)(_.set(
      TableName(schema, table),
      Some(next(required(names, schema, table)))
    ))

  override def getTable(schema: String, table: String): CatalogTable =
    read(n => MakingTable.overlaid(required(n, schema, table)))(super.getTable(schema, table))

  private def required(names: TransactionNames, schema: String, table: String): CatalogTable =
    names.table(base, TableName(schema, table))
      .getOrElse(throw new NoSuchTableException(schema, table))

  override def getTablesByName(schema: String, tables: Seq[String]): Seq[CatalogTable] =
    read(n => tables.flatMap(t => n.table(base, TableName(schema, t)))) {
      super.getTablesByName(schema, tables)
    }

  override def tableExists(schema: String, table: String): Boolean =
    read(_.table(base, TableName(schema, table)).isDefined)(super.tableExists(schema, table))

  override def listTables(schema: String): Seq[String] =
    read { n =>
      requireDbExists(schema)
      n.tables(base, schema, base.listTables(schema))
    }(super.listTables(schema))

  override def listTables(schema: String, pattern: String): Seq[String] =
    read(_ => StringUtils.filterPattern(listTables(schema), pattern)) {
      super.listTables(schema, pattern)
    }

  override def listViews(schema: String, pattern: String): Seq[String] =
    read { n =>
      listTables(schema, pattern).filter { name =>
        n.table(base, TableName(schema, name)).exists(_.tableType == CatalogTableType.VIEW)
      }
    }(super.listViews(schema, pattern))

  /** The overlay is the transaction's; the name is of the table itself. */
  private def ofBase(table: CatalogTable): CatalogTable =
    table.storage.locationUri.map(new Path(_)).filter(OverlayPath.isOverlay(_)).fold(table) {
      overlay =>
        for (t <- open.flatMap(_.table(overlay))) t.call(table.identifier)
        val location = OverlayPath.parse(overlay).base.toUri
        table.copy(storage = table.storage.copy(locationUri = Some(location)))
    }

  private def refuseOther(table: CatalogTable): Unit =
    if (table.tableType != CatalogTableType.VIEW && !DeltaTableUtils.isDeltaTable(table))
      throw Errors(
        "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.NOT_DELTA",
        "statement" -> "Changing its name",
        "target" -> table.identifier.unquotedString
      )
}
