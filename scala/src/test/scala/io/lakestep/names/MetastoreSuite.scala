package io.lakestep.names

import java.nio.file.{Files, Path => JPath}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.{SparkConf, SparkException}
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{
  CatalogDatabase, CatalogStorageFormat, CatalogTable, CatalogTableType, ExternalCatalog,
  InMemoryCatalog
}
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

import io.lakestep.{Errors, LakestepException}
import io.lakestep.catalog.ExternalCatalogCalls
import io.lakestep.commit.Catalogs
import io.lakestep.timeline.{CommitEntry, Making, NameChange, NameKey, NamedObject, Requested}

/** What entries have made of names, in Spark's own catalog; every call of it may be the last of a client. */
final class MetastoreSuite extends AnyFunSuite {

  private class Killed extends RuntimeException

  private val making = Making(1, "f" * 32)
  private val next = Making(1, "e" * 32)

  /** A client that dies before its n-th change of the metastore, or sleeps there while others do something. */
  private class Dying(base: ExternalCatalog, private var left: Int)
      extends ExternalCatalogCalls(base) {
    protected def end(): Unit = throw new Killed
    private def spend(): Unit = {
      left -= 1
      if (left == -1) end()
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
    override def renameTable(schema: String, from: String, to: String): Unit = {
      val isManaged = base.getTable(schema, from).tableType == CatalogTableType.MANAGED
      assert(!isManaged || from.startsWith("lakestep"), "its folder would be moved")
      spend()
      super.renameTable(schema, from, to)
    }
  }

  /** One that sleeps there while others do something; what comes later they do at the end. */
  private class Sleeping(base: ExternalCatalog, calls: Int, others: () => Unit)
      extends Dying(base, calls) {
    private var isDue = true
    override protected def end(): Unit = if (isDue) {
      isDue = false
      others()
    }
    def makes(s: Scene, entry: CommitEntry): Unit = {
      try new Metastore(this, s.conf)(entry, making)
      catch { case _: AnalysisException => () }
      end()
    }
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
      Vector.empty,
      Vector.empty,
      changes.toVector
    )

    def places: Map[String, String] = catalog.listTables("s").map { name =>
      val table = catalog.getTable("s", name)
      name -> table.storage.locationUri.fold("view")(_.getPath.split('/').last)
    }.toMap

    /** Where what has a name lies. */
    def now: Map[String, String] =
      if (!catalog.databaseExists("s")) Map.empty
      else
        catalog.listTables("s").map { name =>
          name -> catalog.getTable("s", name).storage.locationUri.fold("view")(_.getPath)
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
        try new Metastore(new Dying(s.catalog, calls), s.conf)(entry, making)
        catch { case _: Killed => Vector.empty }
        // What becomes of another kind is not altered.
        if (expected.get("a").exists(_ != "view"))
          assert(s.catalog.tableExists("s", "a"), s"after $calls calls")
        val metastore = new Metastore(s.catalog, s.conf)
        assert(metastore(entry, next).isEmpty)
        assert(metastore.repair(Vector(entry), Set.empty, making, next).isEmpty)
        if (s.catalog.databaseExists("s")) assert(s.places == expected, s"after $calls calls")
        assert(s.catalog.databaseExists("s") == expected.nonEmpty, s"after $calls calls")
        assert(s.files, s"after $calls calls")
        assert(metastore(entry, next).isEmpty)
      }
    }

  private val places: Seq[(String, Scene => Option[NamedObject])] = Seq(
    "nothing" -> (_ => None),
    "another table" -> (_.at("other")),
    "the same table" -> (_.at("a")),
    "a view" -> (s => Some(Definition.of(s.view)))
  )

  // Nobody makes a schema again while one may be about to drop it.
  for ((what, changes, result) <- cases if result.nonEmpty; (then, last) <- places)
    test(s"$what, and then `a` stands for $then, while one sleeps at whichever call") {
      (0 to 8).foreach { calls =>
        val s = new Scene
        val first = s.entry(changes(s): _*)
        val metastore = new Metastore(s.catalog, s.conf)
        val key = s.key("a")
        val before = first.names.filter(_.key == key).lastOption.fold(s.at("a"))(_.after)
        val second =
          s.entry(NameChange(key, before, last(s).map(_.asExternal))).copy(number = 2)
        def others(): Unit = {
          assert(metastore(first, next).isEmpty)
          assert(metastore(second, Making(2, "d" * 32)).isEmpty)
        }
        new Sleeping(s.catalog, calls, () => others()).makes(s, first)
        val done = s.now
        if (metastore.repair(
            Vector(first, second),
            Set.empty,
            making,
            Making(1, "c" * 32)
          ).nonEmpty)
          fail(done.toString)
        val expected = (first.names ++ second.names).map(c => c.key -> c.after).toMap
        for ((k, o) <- expected)
          assert(
            NamedObject.areSame(metastore.find(k), o),
            s"$k after $calls calls, which left $done"
          )
        assert(s.now.keySet.forall(!_.startsWith("lakestep")), s"after $calls calls")
        assert(s.files, s"after $calls calls")
      }
    }

  test("a foreign table that has the name by then keeps its files, and mostly the name") {
    (0 to 4).foreach { calls =>
      val s = new Scene
      def rows(folder: String) = s.folder.resolve("s").resolve(folder).resolve("rows")
      def give(file: String): Unit = {
        s.catalog.createTable(s.table("x", file), ignoreIfExists = false)
        Files.createFile(Files.createDirectories(rows(file).getParent).resolve("rows"))
        ()
      }
      give("ours")
      val entry = s.entry(NameChange(s.key("x"), s.at("ours"), None))
      def others(): Unit = {
        assert(new Metastore(s.catalog, s.conf)(entry, next).isEmpty)
        give("x")
      }
      new Sleeping(s.catalog, calls, () => others()).makes(s, entry)
      val metastore = new Metastore(s.catalog, s.conf)
      assert(metastore.repair(Vector(entry), Set.empty, making, Making(1, "c" * 32)).isEmpty)
      assert(Files.exists(rows("x")) && Files.exists(rows("ours")), s"after $calls calls")
      // Where its definition was about to be changed, that is lost.
      assert(s.now.get("x").map(_.split('/').last) == Some("x").filter(_ => calls > 0))
    }
  }

  test("a table that cannot be made in the place of a view yet is made by whoever comes next") {
    val s = new Scene
    s.catalog.dropTable("s", "a", ignoreIfNotExists = false, purge = false)
    s.catalog.createTable(s.view, ignoreIfExists = false)
    val key = s.key("a")
    val entry = s.entry(NameChange(key, Some(Definition.of(s.view)), s.at("a")))
    val metastore = new Metastore(s.catalog, s.conf)
    val refused = Errors("LAKESTEP_STORE_ACCESS_DENIED", "path" -> "makings", "reason" -> "test")
    assert(intercept[LakestepException](metastore(entry, making, _ => throw refused)) == refused)
    assert(metastore.find(key).isEmpty)
    assert(metastore(entry, next).isEmpty && NamedObject.areSame(metastore.find(key), s.at("a")))
  }

  test("a name that somebody else has taken is reported, and left alone") {
    val s = new Scene
    val entry =
      s.entry(NameChange(s.key("n"), None, s.at("n")), NameChange(s.key("a"), s.at("a"), None))
    s.catalog.createTable(s.table("n", "theirs"), ignoreIfExists = false)
    new Metastore(s.catalog, s.conf)(entry, making) match {
      case Vector(taken: LakestepException) => assert(taken.getCondition == "LAKESTEP_NAME_TAKEN")
      case other => fail(other.toString)
    }
    assert(s.places == Map("b" -> "b", "n" -> "theirs"))
  }

  test("what can never be made, as its schema is gone, is reported, and the rest is made") {
    val s = new Scene
    val lost = NameChange(NameKey(s.id, "e", Some("n")), None, Some(Definition.of(s.view)))
    val entry = s.entry(lost, NameChange(s.key("n"), None, s.at("n")))
    s.catalog.dropDatabase("e", ignoreIfNotExists = false, cascade = false)
    new Metastore(s.catalog, s.conf)(entry, making) match {
      case Vector(taken: LakestepException) => assert(taken.getCondition == "LAKESTEP_NAME_TAKEN")
      case other => fail(other.toString)
    }
    assert(s.places.contains("n") && !s.catalog.databaseExists("e"))
  }

  test("a schema that somebody else has made meanwhile is not taken for ours") {
    val s = new Scene
    val theirs = CatalogDatabase("x", "theirs", s.folder.resolve("y").toUri, Map.empty)
    val quick = new ExternalCatalogCalls(s.catalog) {
      override def createDatabase(schema: CatalogDatabase, ignoreIfExists: Boolean): Unit = {
        s.catalog.createDatabase(theirs, ignoreIfExists = true)
        super.createDatabase(schema, ignoreIfExists)
      }
    }
    val entry = s.entry(NameChange(NameKey(s.id, "x", None), None, s.schema("x")))
    // Whoever comes next tells it.
    intercept[AnalysisException](new Metastore(quick, s.conf)(entry, making))
    assert(new Metastore(s.catalog, s.conf)(entry, next).size == 1)
    assert(s.catalog.getDatabase("x").description == "theirs")
  }

  test("who makes names or puts them right knows whether anything may have been changed") {
    for (isAsked <- Seq(true, false)) {
      val s = new Scene
      val entries = Vector("a", "b").map(f => s.entry(NameChange(s.key("x"), None, s.at(f))))
      def answer() = throw new IllegalStateException("no answer")
      val away = new ExternalCatalogCalls(s.catalog) {
        override def getTable(schema: String, name: String): CatalogTable =
          if (isAsked) answer() else super.getTable(schema, name)
        override def createTable(table: CatalogTable, ignoreIfExists: Boolean): Unit = answer()
        override def alterTable(table: CatalogTable): Unit = answer()
      }
      val metastore = new Metastore(away, s.conf)
      def fails(work: => Any) = {
        val failure = intercept[RuntimeException](work)
        assert(failure.isInstanceOf[Catalogs.NothingChanged] == isAsked, failure)
      }
      fails(metastore(entries.head, making))
      s.catalog.createTable(s.table("x", "a"), ignoreIfExists = false)
      fails(metastore.repair(entries, Set.empty, making, next))
      assert(s.places("x") == "a")
    }
  }

  /** As Hive before 3.0, which keeps where a schema lies, and one that keeps no property. */
  private class Forgetful(base: ExternalCatalog) extends ExternalCatalogCalls(base) {
    override def alterDatabase(schema: CatalogDatabase): Unit =
      if (schema.locationUri != base.getDatabase(schema.name).locationUri)
        throw new AnalysisException("_LEGACY_ERROR_TEMP_1219", Map.empty[String, String])
  }

  test("a schema that would take files along stays, until its folder is empty") {
    val s = new Scene
    val entry = s.entry(
      NameChange(NameKey(s.id, "e", None), s.schema("e"), None)
    )
    val file = Files.createFile(Files.createDirectories(s.folder.resolve("e")).resolve("kept"))
    new Metastore(new Forgetful(s.catalog), s.conf)(entry, making) match {
      case Vector(refused: LakestepException) =>
        assert(refused.getCondition == "LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY")
      case other => fail(other.toString)
    }
    assert(Files.exists(file) && s.catalog.databaseExists("e"))
    Files.delete(file)
    assert(new Metastore(new Forgetful(s.catalog), s.conf)(entry, making).isEmpty)
    assert(!s.catalog.databaseExists("e"))
  }

  /** It gives no answer to a drop, which happens later. */
  private class Delaying(base: ExternalCatalog) extends ExternalCatalogCalls(base) {
    override def dropDatabase(name: String, ignore: Boolean, cascade: Boolean): Unit =
      throw new IllegalStateException("no answer")
  }

  test("a drop of a schema that happens late takes no files along") {
    for (isUsed <- Seq(false, true)) {
      val s = new Scene
      val entry = s.entry(NameChange(NameKey(s.id, "e", None), s.schema("e"), None))
      val file = Files.createFile(Files.createDirectories(s.folder.resolve("e")).resolve("kept"))
      intercept[IllegalStateException](
        new Metastore(new Delaying(s.catalog), s.conf)(entry, making)
      )
      def drop(): Unit =
        s.catalog.dropDatabase("e", ignoreIfNotExists = true, cascade = false)
      if (isUsed) {
        val used = s.table("x", "x").copy(identifier = TableIdentifier("x", Some("e")))
        s.catalog.createTable(used, ignoreIfExists = false)
        new Metastore(s.catalog, s.conf)(entry, making) match {
          case Vector(taken: LakestepException) =>
            assert(taken.getCondition == "LAKESTEP_NAME_TAKEN")
          case other => fail(other.toString)
        }
        assert(Some(Definition.of(s.catalog.getDatabase("e"))) == s.schema("e"))
        intercept[AnalysisException](drop())
      } else drop()
      assert(Files.exists(file) && s.catalog.databaseExists("e") == isUsed)
    }
  }

  test("who puts a schema right drops it, and makes none, though others may be about to drop it") {
    for (isHeld <- Seq(true, false); isLast <- Seq(true, false)) {
      val s = new Scene
      val key = NameKey(s.id, "e", None)
      val (made, dropped) =
        (NameChange(key, None, s.schema("e")), NameChange(key, s.schema("e"), None))
      val steps = if (isLast) Seq(dropped, made) else Seq(made, dropped)
      val entries = steps.zipWithIndex.map { case (c, n) => s.entry(c).copy(number = n + 1L) }
      // A late client has made the first entry again.
      val metastore = new Metastore(s.catalog, s.conf)
      if (isLast) assert(metastore(entries.head, making).isEmpty)
      val atRisk = Set(key).filter(_ => isHeld)
      assert(metastore.repair(entries.toVector, atRisk, making, next).isEmpty)
      assert(s.catalog.databaseExists("e") == (isLast && !isHeld))
    }
  }

  /** As the client of Glue, which renames no table. */
  private class Unrenaming(base: ExternalCatalog) extends ExternalCatalogCalls(base) {
    override def renameTable(schema: String, from: String, to: String): Unit =
      throw new SparkException("no", new UnsupportedOperationException("rename"))
  }

  for ((what, changes, expected) <- cases if what != "a schema is dropped with its tables")
    test(s"$what, in a metastore whose client renames no table") {
      val s = new Scene
      val entry = s.entry(changes(s): _*)
      val metastore = new Metastore(new Unrenaming(s.catalog), s.conf)
      assert(metastore(entry, making).isEmpty && s.places == expected && s.files)
      assert(metastore.repair(Vector(entry), Set.empty, making, next).isEmpty)
      assert(s.places == expected && s.files)
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
