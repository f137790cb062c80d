package io.lakestep.names

import java.io.IOException
import java.nio.file.{Files, Path => LocalPath, Paths}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogStorageFormat, CatalogTable, CatalogTableType, InMemoryCatalog
}
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

/** DROP SCHEMA of one in whose folder tables lie that have no name, wherever the client fails or dies. */
class SchemaFolderSuite extends AnyFunSuite {

  /** Fails at the k-th change, or its connection is lost; once it is dead it changes nothing more. */
  private class Failing(k: Int, dies: Boolean, isLost: Boolean = false) extends InMemoryCatalog {
    private var changes = 0

    private def changing(): Unit = {
      changes += 1
      if (changes == k || dies && changes > k)
        throw new RuntimeException(if (isLost) new IOException("lost")
        else new Exception("refused"))
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

  /** Says nothing of whether it has dropped a schema, which it does later. */
  private class Late extends InMemoryCatalog {
    private var asked = Option.empty[(String, Boolean)]

    override def dropDatabase(name: String, ignoreIfNotExists: Boolean, cascade: Boolean): Unit = {
      asked = Some((name, cascade))
      val lost = new RuntimeException(new IOException("the connection was lost"))
      throw new AnalysisException(
        "_LEGACY_ERROR_TEMP_3065",
        Map("clazz" -> "TException", "msg" -> "lost"),
        Some(lost)
      )
    }

    def happens(): Unit =
      for ((name, cascade) <- asked)
        super.dropDatabase(name, ignoreIfNotExists = false, cascade)
  }

  private def drop(catalog: InMemoryCatalog, schema: CatalogDatabase, cascade: Boolean): Unit =
    SchemaFolder.drop(catalog, conf, schema, ignoreIfNotExists = false, cascade) {
      Files.exists(Paths.get(schema.locationUri).resolve("dropped"))
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

  /** That it is moved, a table, and the schema. */
  private val Changes = 3

  for (dies <-
      Seq(false, true);
    isLost <- Seq(false, true))
    test(
      s"a client that ${if (dies) "dies" else "fails"} at any change has deleted nothing of others" +
        (if (isLost) ", if its connection is lost" else "")
    ) {
      for (k <- 1 to Changes) {
        val catalog = new Failing(k, dies, isLost)
        val (folder, schema) = scene(catalog)
        intercept[RuntimeException](drop(catalog, schema, cascade = true))
        assert(catalog.databaseExists("s"), k)
        // What it was to drop may be dropped later.
        if (!dies) {
          val isBack = catalog.getDatabase("s").locationUri == schema.locationUri
          assert(isBack == (k < Changes || !isLost), k)
        }
        catalog.revived()
        // The next one meets the schema where that has left it.
        drop(catalog, catalog.getDatabase("s"), cascade = true)
        assert(!catalog.databaseExists("s"), k)
        assert(Files.exists(folder.resolve("dropped/_delta_log/0.json")), k)
      }
    }

  test(
    "who meets a schema that another client has moved, which puts it back then, leaves its folder"
  ) {
    val catalog = new InMemoryCatalog
    val (folder, schema) = scene(catalog)
    val moved = folder.resolve(".dropping-1").toUri
    drop(catalog, schema.copy(locationUri = moved), cascade = true)
    assert(!catalog.databaseExists("s"))
    assert(Files.exists(folder.resolve("dropped/_delta_log/0.json")))
  }

  test("a drop without an answer, which happens late, has deleted nothing of others") {
    for (cascade <- Seq(false, true)) {
      val catalog = new Late
      val (folder, schema) = scene(catalog)
      if (!cascade) catalog.dropTable("s", "live", ignoreIfNotExists = false, purge = false)
      intercept[AnalysisException](drop(catalog, schema, cascade))
      assert(catalog.databaseExists("s"))
      catalog.happens()
      assert(!catalog.databaseExists("s"))
      assert(Files.exists(folder.resolve("dropped/_delta_log/0.json")))
    }
  }

  // Where it was asked later, it would be empty, and its folder would go.
  for (dropped <- Seq(false, true))
    test(
      s"without CASCADE a schema that is not empty stays as it is, emptied meanwhile: $dropped"
    ) {
      val catalog = new Failing(-1, dies = false)
      val (folder, schema) = scene(catalog)
      def emptied() =
        if (dropped) catalog.dropTable("s", "live", ignoreIfNotExists = false, purge = false)
      val refused = intercept[AnalysisException] {
        SchemaFolder.drop(catalog, conf, schema, ignoreIfNotExists = false, cascade = false) {
          emptied()
          false
        }
      }
      assert(refused.getCondition == "SCHEMA_NOT_EMPTY" && catalog.getDatabase("s") == schema)
      assert(catalog.listTables("s") == Seq("live"))
      assert(Files.exists(folder.resolve("dropped")))
    }
}
