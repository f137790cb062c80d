package io.lakestep.catalog

import java.net.URI

import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase

import io.lakestep.Errors
import io.lakestep.storage.{CanonicalPath, HadoopStores, TemporaryFiles}
import io.lakestep.transaction.Databases

/**
 * A table that a transaction has renamed or dropped stays where it is: in the folder where Spark would put a new
 * one of its old name, and where Delta takes over a table that it finds.
 */
object FolderOfAnother {

  /**
   * Whether tables that transactions have dropped, or given a name that may not be made yet, lie in the folder of a
   * schema, which Spark deletes when it drops that outside a transaction.
   */
  def holdsTables(session: SparkSession, schema: CatalogDatabase): Boolean = {
    val tables = Databases.of(session).claimed()
    tables.nonEmpty && {
      val conf = session.sessionState.newHadoopConf()
      val folder = new Path(schema.locationUri)
      // A store that this client does not have holds none that it could look for.
      val place = Try(CanonicalPath(folder, conf)).getOrElse(folder).toUri.toString
      val outer = CanonicalPath.place(place)
      tables.exists { table =>
        CanonicalPath.isInside(CanonicalPath.place(table.uri), outer) && {
          val log = new Path(new URI(table.log))
          Try(HadoopStores.hasFolder(log.getFileSystem(conf), log)).getOrElse(true)
        }
      }
    }
  }

  /**
   * Before a managed table is made outside a transaction. Condition: LAKESTEP_FOLDER_OF_ANOTHER_TABLE.
   */
  def refuse(session: SparkSession, name: TableIdentifier): Unit = {
    val catalog = session.sessionState.catalog
    val conf = session.sessionState.newHadoopConf()
    val schema = catalog.qualifyIdentifier(name).database.get
    if (catalog.databaseExists(schema) && !catalog.tableExists(name)) {
      val folder = new Path(catalog.defaultTablePath(name))
      lazy val place = CanonicalPath(folder, conf)
      def isThere(location: Path) = CanonicalPath(location, conf) == place
      def named = catalog.externalCatalog
        .getTablesByName(schema, catalog.listTables(schema).map(_.table))
        .find(_.storage.locationUri.exists(l => isThere(new Path(l))))
        .map(_.identifier.unquotedString)
      def dropped = DroppedTables.at(session, isThere).map(d => s"the dropped table ${d.key}")
      val log = new Path(folder, TemporaryFiles.LogFolder)
      if (HadoopStores.hasFolder(folder.getFileSystem(conf), log))
        for (other <- named.orElse(dropped)) throw Errors(
          "LAKESTEP_FOLDER_OF_ANOTHER_TABLE",
          "table" -> name.unquotedString,
          "folder" -> folder.toString,
          "other" -> other
        )
    }
  }
}
