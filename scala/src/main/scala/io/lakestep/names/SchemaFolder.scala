package io.lakestep.names

import java.io.IOException
import java.util.UUID
import java.util.regex.Pattern

import scala.annotation.tailrec
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
   * Drops a schema, with CASCADE its tables and their data too. Where its folder holds other tables, it stays, and with
   * it what else is there.
   *
   * Where the metastore does not answer whether it has dropped it, its folder is elsewhere then: it may do that later,
   * and would delete the folder.
   *
   * @param holdsTables whether tables lie there that transactions have dropped
   *
   * Condition: LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY.
   */
  def drop(
      catalog: ExternalCatalog,
      conf: => Configuration,
      schema: CatalogDatabase,
      ignoreIfNotExists: Boolean,
      cascade: Boolean)(holdsTables: => Boolean): Unit = {
    val name = schema.name
    def isInUse =
      try catalog.listTables(name).nonEmpty
      catch { case e: AnalysisException if e.getCondition == "SCHEMA_NOT_FOUND" => false }
    // Before that is asked: what has no name now has been dropped by then.
    if (!cascade && isInUse) {
      val shown = name.replace("`", "``")
      throw new AnalysisException("SCHEMA_NOT_EMPTY", Map("schemaName" -> s"`$shown`"))
    }
    // Whoever has moved it may put it back.
    val isMoved = Moved.matches(schema.locationUri.toString)
    if (isMoved || holdsTables) dropLeaving(catalog, conf, schema, cascade)
    else catalog.dropDatabase(name, ignoreIfNotExists, cascade)
  }

  private def dropLeaving(
      catalog: ExternalCatalog,
      conf: Configuration,
      schema: CatalogDatabase,
      cascade: Boolean): Unit = {
    val name = schema.name
    var isAsked = false
    try {
      // Where it cannot be moved, nothing of it is dropped.
      leave(catalog, conf, schema, s"$Dropping${UUID.randomUUID}")
      if (cascade) {
        catalog.listTables(name)
          .foreach(catalog.dropTable(name, _, ignoreIfNotExists = true, purge = false))
        catalog.listFunctions(name, "*").foreach(catalog.dropFunction(name, _))
      }
      isAsked = true
      catalog.dropDatabase(name, ignoreIfNotExists = true, cascade = cascade)
    } catch {
      case failure: Throwable =>
        if (!isAsked || isAnswer(failure))
          try catalog.alterDatabase(schema)
          catch { case NonFatal(_) => () }
        throw failure
    }
  }

  private val Dropping = ".dropping-"
  private val Moved =
    s".*/(${Pattern.quote(Dropping)}|${Pattern.quote(LeftNames.Elsewhere)})[^/]*/?".r

  /** Not where the connection was lost, or closed as the statement was cancelled. */
  @tailrec
  private def isAnswer(failure: Throwable): Boolean = failure match {
    case null => true
    // Hive's classes are those of a class loader of its own.
    case _: IOException | _: InterruptedException => false
    case e if Unanswered(e.getClass.getSimpleName) => false
    case e => isAnswer(e.getCause)
  }

  private val Unanswered = Set("TTransportException", "TProtocolException")

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
