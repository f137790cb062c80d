package io.lakestep.names

import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogStorageFormat, CatalogTable, CatalogTableType, InMemoryCatalog
}
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

/** DROP SCHEMA of one in whose folder tables lie that have no name, wherever the client fails or dies. */
class SchemaFolderSuite extends AnyFunSuite {

  /** Fails at the k-th change; once it is dead it changes nothing more. */
  private class Failing(k: Int, dies: Boolean) extends InMemoryCatalog {
    private var changes = 0

    private def changing(): Unit = {
      changes += 1
      if (changes == k || dies && changes > k) throw new IllegalStateException(s"change $changes")
    }

    def revived(): Unit = changes = Int.MinValue

    override def alterDatabase(schema: CatalogDatabase): Unit = {
      changing()
      super.alterDatabase(schema)
    }

    override def dropTable(
        schema: String,
        table: String,
        ignoreIfNotExists: Boolean,
        purge: Boolean): Unit = {
      changing()
      super.dropTable(schema, table, ignoreIfNotExists, purge)
    }

    override def dropDatabase(name: String, ignoreIfNotExists: Boolean, cascade: Boolean): Unit = {
      changing()
      super.dropDatabase(name, ignoreIfNotExists, cascade)
    }
  }

  private def scene(catalog: InMemoryCatalog): (LocalPath, CatalogDatabase) = {
    val folder = Files.createTempDirectory("schema")
    val schema = CatalogDatabase("s", "", folder.toUri, Map.empty)
    catalog.createDatabase(schema, ignoreIfExists = false)
    Files.createDirectories(folder.resolve("dropped/_delta_log"))
    Files.write(folder.resolve("dropped/_delta_log/0.json"), "{}".getBytes)
    catalog.createTable(
      CatalogTable(
        TableIdentifier("live", Some("s")),
        CatalogTableType.MANAGED,
        CatalogStorageFormat.empty,
        new StructType().add("v", "int"),
        provider = Some("delta")
      ),
      ignoreIfExists = false
    )
    (folder, catalog.getDatabase("s"))
  }

  private val conf = new Configuration(false)

  /** Two to see that it can be moved, a table, one more, and the schema. */
  private val Changes = 5

  for (dies <- Seq(false, true))
    test(
      s"a client that ${if (dies) "dies" else "fails"} at any change has deleted nothing of others"
    ) {
      for (k <- 1 to Changes) {
        val catalog = new Failing(k, dies)
        val (folder, schema) = scene(catalog)
        intercept[IllegalStateException](SchemaFolder.drop(catalog, conf, schema, cascade = true))
        assert(catalog.databaseExists("s"), k)
        if (!dies) assert(catalog.getDatabase("s").locationUri == schema.locationUri, k)
        catalog.revived()
        // The next one meets the schema where that has left it.
        val left = catalog.getDatabase("s")
        if (left.locationUri == schema.locationUri)
          SchemaFolder.drop(catalog, conf, left, cascade = true)
        else catalog.dropDatabase("s", ignoreIfNotExists = false, cascade = true)
        assert(!catalog.databaseExists("s"), k)
        assert(Files.exists(folder.resolve("dropped/_delta_log/0.json")), k)
      }
    }

  test("without CASCADE a schema that is not empty stays as it is") {
    val catalog = new Failing(-1, dies = false)
    val (folder, schema) = scene(catalog)
    intercept[org.apache.spark.sql.AnalysisException] {
      SchemaFolder.drop(catalog, conf, schema, cascade = false)
    }
    assert(catalog.getDatabase("s") == schema && catalog.listTables("s") == Seq("live"))
    assert(Files.exists(folder.resolve("dropped")))
  }
}
