package io.lakestep.catalog

import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogFunction, CatalogStatistics, CatalogTable, CatalogTablePartition,
  CatalogTypes, ExternalCatalog
}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.StructType

import CatalogTypes.TablePartitionSpec

/** Hands every call on. */
abstract class ExternalCatalogCalls(protected val base: ExternalCatalog)
    extends AlterTableSchemaCall {
  override def createDatabase(schema: CatalogDatabase, ignoreIfExists: Boolean): Unit =
    base.createDatabase(schema, ignoreIfExists)
  override def dropDatabase(name: String, ignoreIfNotExists: Boolean, cascade: Boolean): Unit =
    base.dropDatabase(name, ignoreIfNotExists, cascade)
  override def alterDatabase(schema: CatalogDatabase): Unit = base.alterDatabase(schema)
  override def getDatabase(name: String): CatalogDatabase = base.getDatabase(name)
  override def databaseExists(name: String): Boolean = base.databaseExists(name)
  override def listDatabases(): Seq[String] = base.listDatabases()
  override def listDatabases(pattern: String): Seq[String] = base.listDatabases(pattern)
  override def setCurrentDatabase(name: String): Unit = base.setCurrentDatabase(name)
  override def createTable(table: CatalogTable, ignoreIfExists: Boolean): Unit =
    base.createTable(table, ignoreIfExists)
  override def dropTable(
      schema: String,
      table: String,
      ignoreIfNotExists: Boolean,
      purge: Boolean): Unit = base.dropTable(schema, table, ignoreIfNotExists, purge)
  override def renameTable(schema: String, from: String, to: String): Unit =
    base.renameTable(schema, from, to)
  override def alterTable(table: CatalogTable): Unit = base.alterTable(table)
  override def alterTableDataSchema(schema: String, table: String, data: StructType): Unit =
    base.alterTableDataSchema(schema, table, data)
  override def alterTableStats(
      schema: String,
      table: String,
      stats: Option[CatalogStatistics]): Unit = base.alterTableStats(schema, table, stats)
  override def getTable(schema: String, table: String): CatalogTable = base.getTable(schema, table)
  override def getTablesByName(schema: String, tables: Seq[String]): Seq[CatalogTable] =
    base.getTablesByName(schema, tables)
  override def tableExists(schema: String, table: String): Boolean = base.tableExists(schema, table)
  override def listTables(schema: String): Seq[String] = base.listTables(schema)
  override def listTables(schema: String, pattern: String): Seq[String] =
    base.listTables(schema, pattern)
  override def listViews(schema: String, pattern: String): Seq[String] =
    base.listViews(schema, pattern)
  override def loadTable(
      schema: String,
      table: String,
      path: String,
      isOverwrite: Boolean,
      isSrcLocal: Boolean): Unit = base.loadTable(schema, table, path, isOverwrite, isSrcLocal)
  override def loadPartition(
      schema: String,
      table: String,
      path: String,
      partition: TablePartitionSpec,
      isOverwrite: Boolean,
      inheritTableSpecs: Boolean,
      isSrcLocal: Boolean): Unit = base.loadPartition(
    schema,
    table,
    path,
    partition,
    isOverwrite,
    inheritTableSpecs,
    isSrcLocal
  )
  override def loadDynamicPartitions(
      schema: String,
      table: String,
      path: String,
      partition: TablePartitionSpec,
      replace: Boolean,
      numDP: Int): Unit =
    base.loadDynamicPartitions(schema, table, path, partition, replace, numDP)
  override def createPartitions(
      schema: String,
      table: String,
      parts: Seq[CatalogTablePartition],
      ignoreIfExists: Boolean): Unit = base.createPartitions(schema, table, parts, ignoreIfExists)
  override def dropPartitions(
      schema: String,
      table: String,
      parts: Seq[TablePartitionSpec],
      ignoreIfNotExists: Boolean,
      purge: Boolean,
      retainData: Boolean): Unit =
    base.dropPartitions(schema, table, parts, ignoreIfNotExists, purge, retainData)
  override def renamePartitions(
      schema: String,
      table: String,
      specs: Seq[TablePartitionSpec],
      newSpecs: Seq[TablePartitionSpec]): Unit =
    base.renamePartitions(schema, table, specs, newSpecs)
  override def alterPartitions(
      schema: String,
      table: String,
      parts: Seq[CatalogTablePartition]): Unit = base.alterPartitions(schema, table, parts)
  override def getPartition(
      schema: String,
      table: String,
      spec: TablePartitionSpec): CatalogTablePartition = base.getPartition(schema, table, spec)
  override def getPartitionOption(
      schema: String,
      table: String,
      spec: TablePartitionSpec): Option[CatalogTablePartition] =
    base.getPartitionOption(schema, table, spec)
  override def listPartitionNames(
      schema: String,
      table: String,
      partialSpec: Option[TablePartitionSpec]): Seq[String] =
    base.listPartitionNames(schema, table, partialSpec)
  override def listPartitions(
      schema: String,
      table: String,
      partialSpec: Option[TablePartitionSpec]): Seq[CatalogTablePartition] =
    base.listPartitions(schema, table, partialSpec)
  override def listPartitionsByFilter(
      schema: String,
      table: String,
      predicates: Seq[Expression],
      timeZone: String): Seq[CatalogTablePartition] =
    base.listPartitionsByFilter(schema, table, predicates, timeZone)
  override def createFunction(schema: String, function: CatalogFunction): Unit =
    base.createFunction(schema, function)
  override def dropFunction(schema: String, function: String): Unit =
    base.dropFunction(schema, function)
  override def alterFunction(schema: String, function: CatalogFunction): Unit =
    base.alterFunction(schema, function)
  override def renameFunction(schema: String, from: String, to: String): Unit =
    base.renameFunction(schema, from, to)
  override def getFunction(schema: String, function: String): CatalogFunction =
    base.getFunction(schema, function)
  override def functionExists(schema: String, function: String): Boolean =
    base.functionExists(schema, function)
  override def listFunctions(schema: String, pattern: String): Seq[String] =
    base.listFunctions(schema, pattern)
}
