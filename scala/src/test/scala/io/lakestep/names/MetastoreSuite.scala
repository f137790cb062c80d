package io.lakestep.names

import java.nio.file.{Files, Path => JPath}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkConf
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogStorageFormat, CatalogTable, CatalogTableType, ExternalCatalog,
  InMemoryCatalog
}
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.LakestepException
import io.lakestep.catalog.ExternalCatalogCalls
import io.lakestep.timeline.{CommitEntry, NameChange, NameKey, NamedObject, Requested}

/** What entries have made of names, in Spark's own catalog; every call of it may be the last of a client. */
final class MetastoreSuite extends AnyFunSuite {

  private class Killed extends RuntimeException

  /** A client that dies before its n-th change of the metastore. */
  private class Dying(base: ExternalCatalog, var left: Int) extends ExternalCatalogCalls(base) {
    private def spend(): Unit = {
      if (left == 0) throw new Killed
      left -= 1
    }
    override def createDatabase(schema: CatalogDatabase, ignoreIfExists: Boolean): Unit = {
      spend()
      super.createDatabase(schema, ignoreIfExists)
    }
    override def dropDatabase(name: String, ignore: Boolean, cascade: Boolean): Unit = {
      spend()
      super.dropDatabase(name, ignore, cascade)
    }
    override def alterDatabase(schema: CatalogDatabase): Unit = {
      spend()
      super.alterDatabase(schema)
    }
    override def createTable(table: CatalogTable, ignoreIfExists: Boolean): Unit = {
      spend()
      super.createTable(table, ignoreIfExists)
    }
    override def dropTable(schema: String, table: String, ignore: Boolean, purge: Boolean): Unit = {
      spend()
      super.dropTable(schema, table, ignore, purge)
    }
    override def alterTable(table: CatalogTable): Unit = {
      spend()
      super.alterTable(table)
    }
    override def renameTable(schema: String, from: String, to: String): Unit =
      fail("renameTable moves folders")
  }

  /** A schema `s` with the managed tables `a` and `b`, and an empty one, `e`. */
  private class Scene {
    val folder: JPath = Files.createTempDirectory("metastore")
    val conf = new Configuration
    val catalog = new InMemoryCatalog(new SparkConf, conf)
    private def schemaOf(name: String) =
      CatalogDatabase(name, "", folder.resolve(name).toUri, Map.empty)
    for (name <- Seq("default", "s", "e"))
      catalog.createDatabase(schemaOf(name), ignoreIfExists = false)

    def table(name: String, file: String): CatalogTable = CatalogTable(
      TableIdentifier(name, Some("s")),
      CatalogTableType.MANAGED,
      CatalogStorageFormat.empty.copy(locationUri = Some(folder.resolve("s").resolve(file).toUri)),
      new StructType,
      provider = Some("delta")
    )
    def view: CatalogTable = table("a", "a").copy(
      tableType = CatalogTableType.VIEW,
      storage = CatalogStorageFormat.empty,
      provider = None,
      viewText = Some("SELECT 1")
    )
    for (name <- Seq("a", "b")) {
      catalog.createTable(table(name, name), ignoreIfExists = false)
      Files.createDirectories(folder.resolve("s").resolve(name))
      Files.createFile(folder.resolve("s").resolve(name).resolve("rows"))
    }
    val id: String = new Metastore(catalog, conf).id

    def key(name: String): NameKey = NameKey(id, "s", Some(name))
    def at(file: String, name: String = "x"): Option[NamedObject] =
      Some(Definition.of(table(name, file)))
    def schema(name: String): Option[NamedObject] = Some(Definition.of(schemaOf(name)))

    def entry(changes: NameChange*): CommitEntry = CommitEntry(
      1,
      "",
      0,
      1,
      Requested("t1", None, "me", "app", "SNAPSHOT", 0, 0),
      None,
      Vector.empty,
      Vector.empty,
      changes.toVector
    )

    def places: Map[String, String] = catalog.listTables("s").map { name =>
      val table = catalog.getTable("s", name)
      name -> table.storage.locationUri.fold("view")(_.getPath.split('/').last)
    }.toMap

    def files: Boolean =
      Seq("a", "b").forall(n => Files.exists(folder.resolve("s").resolve(n).resolve("rows")))
  }

  private val cases: Seq[(String, Scene => Seq[NameChange], Map[String, String])] = Seq(
    (
      "a table is made",
      s => Seq(NameChange(s.key("n"), None, s.at("n"))),
      Map("a" -> "a", "b" -> "b", "n" -> "n")
    ),
    ("a table is dropped", s => Seq(NameChange(s.key("a"), s.at("a"), None)), Map("b" -> "b")),
    (
      "a table is renamed",
      s => Seq(NameChange(s.key("a"), s.at("a"), None), NameChange(s.key("n"), None, s.at("a"))),
      Map("n" -> "a", "b" -> "b")
    ),
    (
      "two tables change places",
      s =>
        Seq(
          NameChange(s.key("a"), s.at("a"), s.at("b")),
          NameChange(s.key("b"), s.at("b"), s.at("a"))
        ),
      Map("a" -> "b", "b" -> "a")
    ),
    (
      "a table is replaced by another one",
      s => Seq(NameChange(s.key("a"), s.at("a"), s.at("other"))),
      Map("a" -> "other", "b" -> "b")
    ),
    (
      "a table is replaced by a view",
      s => Seq(NameChange(s.key("a"), s.at("a"), Some(Definition.of(s.view)))),
      Map("a" -> "view", "b" -> "b")
    ),
    (
      "a schema is dropped with its tables",
      s =>
        Seq(
          NameChange(NameKey(s.id, "s", None), s.schema("s"), None),
          NameChange(s.key("a"), s.at("a"), None),
          NameChange(s.key("b"), s.at("b"), None)
        ),
      Map.empty
    )
  )

  for ((what, changes, expected) <- cases)
    test(s"$what, whoever dies at whichever call: the next one ends it, and no file goes") {
      // More calls than any of these takes.
      (0 to 8).foreach { calls =>
        val s = new Scene
        val entry = s.entry(changes(s): _*)
        try new Metastore(new Dying(s.catalog, calls), s.conf)(entry)
        catch { case _: Killed => Vector.empty }
        // What becomes of another kind is not altered.
        if (expected.get("a").exists(_ != "view"))
          assert(s.catalog.tableExists("s", "a"), s"after $calls calls")
        assert(new Metastore(s.catalog, s.conf)(entry).isEmpty)
        if (s.catalog.databaseExists("s")) assert(s.places == expected, s"after $calls calls")
        assert(s.catalog.databaseExists("s") == expected.nonEmpty, s"after $calls calls")
        assert(s.files, s"after $calls calls")
        assert(new Metastore(s.catalog, s.conf)(entry).isEmpty)
      }
    }

  test("a name that somebody else has taken is reported, and left alone") {
    val s = new Scene
    val entry =
      s.entry(NameChange(s.key("n"), None, s.at("n")), NameChange(s.key("a"), s.at("a"), None))
    s.catalog.createTable(s.table("n", "theirs"), ignoreIfExists = false)
    new Metastore(s.catalog, s.conf)(entry) match {
      case Vector(taken: LakestepException) => assert(taken.getCondition == "LAKESTEP_NAME_TAKEN")
      case other => fail(other.toString)
    }
    assert(s.places == Map("b" -> "b", "n" -> "theirs"))
  }

  /** As Hive before 3.0, which keeps where a schema lies, and one that keeps no property. */
  private class Forgetful(base: ExternalCatalog) extends ExternalCatalogCalls(base) {
    override def alterDatabase(schema: CatalogDatabase): Unit = ()
  }

  test("a schema that would take files along stays, until its folder is empty") {
    val s = new Scene
    val entry = s.entry(
      NameChange(NameKey(s.id, "e", None), s.schema("e"), None)
    )
    val file = Files.createFile(Files.createDirectories(s.folder.resolve("e")).resolve("kept"))
    new Metastore(new Forgetful(s.catalog), s.conf)(entry) match {
      case Vector(refused: LakestepException) =>
        assert(refused.getCondition == "LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY")
      case other => fail(other.toString)
    }
    assert(Files.exists(file) && s.catalog.databaseExists("e"))
    Files.delete(file)
    assert(new Metastore(new Forgetful(s.catalog), s.conf)(entry).isEmpty)
    assert(!s.catalog.databaseExists("e"))
  }

  test("a metastore that keeps no id takes part in no transaction that changes names") {
    val catalog = new InMemoryCatalog(new SparkConf, new Configuration)
    val folder = Files.createTempDirectory("metastore").toUri
    catalog.createDatabase(
      CatalogDatabase("default", "", folder, Map.empty),
      ignoreIfExists = false
    )
    val refused = intercept[LakestepException] {
      new Metastore(new Forgetful(catalog), new Configuration).id
    }
    assert(refused.getCondition == "LAKESTEP_METASTORE_WITHOUT_ID")
  }

  test("a metastore is known by what is stored in it") {
    val (one, other) = (new Scene, new Scene)
    assert(one.id != other.id)
    assert(new Metastore(new Dying(one.catalog, 0), one.conf).has(one.id))
    assert(!new Metastore(one.catalog, one.conf).has(other.id))
    assert(
      one.catalog.getDatabase("default").properties.get(Definition.IdProperty).contains(one.id)
    )
  }

  /** One that is away for the first questions. */
  private class Away(base: ExternalCatalog, var left: Int) extends ExternalCatalogCalls(base) {
    override def getDatabase(name: String): CatalogDatabase = {
      left -= 1
      if (left >= 0) throw new IllegalStateException("away")
      super.getDatabase(name)
    }
  }

  test("the id of a metastore that was away for a moment stays, and is no other one") {
    val s = new Scene
    val catalog = new Away(s.catalog, 3)
    val away = new Metastore(catalog, s.conf)
    assert(!away.has(s.id))
    intercept[IllegalStateException](away.isStill(s.id))
    intercept[IllegalStateException](away.id)
    assert(away.id == s.id && away.has(s.id))
  }

  test("what an entry holds of a table, a view or a schema is all that there is to make it again") {
    val s = new Scene
    val full = s.table("t", "t").copy(
      schema = StructType.fromDDL("a INT COMMENT 'c', b STRING"),
      properties = Map("k" -> "v", "transient_lastDdlTime" -> "1"),
      comment = Some("it's"),
      partitionColumnNames = Seq("a")
    )
    val view = full.copy(
      tableType = CatalogTableType.VIEW,
      storage = CatalogStorageFormat.empty,
      provider = None,
      partitionColumnNames = Nil,
      viewText = Some("SELECT 1"),
      viewOriginalText = Some("select 1")
    )
    for (one <- Seq(full, view)) {
      val again = Definition.table(one.identifier, Definition.of(one))
      assert(Definition.of(again) == Definition.of(one))
      assert(again.viewText == one.viewText && again.comment == one.comment)
      assert(again.schema == one.schema && again.properties == Map("k" -> "v"))
    }
    val schema = CatalogDatabase("s", "words", s.folder.toUri, Map("p" -> "q"))
    assert(Definition.schema("s", Definition.of(schema)) == schema)
  }
}
