package io.lakestep.names

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.catalog.{CatalogDatabase, ExternalCatalog}

import io.lakestep.Errors

/**
 * The folder of a schema. Metastores delete it with the schema, and with it the tables in it that transactions have
 * dropped.
 */
private[lakestep] object SchemaFolder {

  val NotEmpty = "LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY"

  /**
   * Drops a schema, with CASCADE its tables and their data too; other files in its folder stay.
   *
   * Condition: LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY.
   */
  def drop(
      catalog: ExternalCatalog,
      conf: Configuration,
      schema: CatalogDatabase,
      cascade: Boolean): Unit = {
    val name = schema.name
    def isEmpty = catalog.listTables(name).isEmpty && catalog.listFunctions(name, "*").isEmpty
    def elsewhere() = leave(catalog, conf, schema, s".dropping-${UUID.randomUUID}")
    try {
      if (cascade) {
        // Where it cannot be moved, nothing of it is dropped.
        elsewhere()
        catalog.alterDatabase(schema)
        catalog.listTables(name)
          .foreach(catalog.dropTable(name, _, ignoreIfNotExists = true, purge = false))
        catalog.listFunctions(name, "*").foreach(catalog.dropFunction(name, _))
      }
      if (cascade || isEmpty) elsewhere()
      catalog.dropDatabase(name, ignoreIfNotExists = true, cascade = cascade)
    } catch {
      case failure: Throwable =>
        try catalog.alterDatabase(schema)
        catch { case NonFatal(_) => () }
        throw failure
    }
  }

  /** Gives a schema another folder, so that its own is not deleted with it. Condition: LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY. */
  def leave(
      catalog: ExternalCatalog,
      conf: Configuration,
      schema: CatalogDatabase,
      place: String): Unit = {
    val folder = new Path(schema.locationUri)
    val elsewhere = new Path(folder, place).toUri
    try catalog.alterDatabase(schema.copy(locationUri = elsewhere))
    catch { case _: AnalysisException => () }
    val fs = folder.getFileSystem(conf)
    def isEmpty = !fs.exists(folder) || fs.listStatus(folder).isEmpty
    def isThere =
      try catalog.getDatabase(schema.name).locationUri == elsewhere
      catch { case _: AnalysisException => false }
    if (!isThere && !isEmpty)
      throw Errors(NotEmpty, "schema" -> schema.name, "folder" -> folder.toString)
  }
}
