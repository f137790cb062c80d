package io.lakestep.sql.guard

import java.io.File
import java.lang.reflect.InvocationTargetException

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{classic, functions, DataFrame}
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}

import elsewhere.{CountingProcedure, UnknownSideEffect}
import io.delta.tables.DeltaTable

import io.lakestep.NeedsSpark

@NeedsSpark
class TransactionGuardSuite extends AnyFunSuite with GuardedSpark {

  private val Unsupported = "LAKESTEP_UNSUPPORTED_IN_TRANSACTION"
  private val Base = "LAKESTEP_BASE_TABLE_IN_TRANSACTION"

  private def sql(text: String): DataFrame = spark.sql(text)
  private def rows(n: Long): DataFrame = spark.range(n).selectExpr("id", "id % 2 AS p")

  // Made outside of the transactions; inside, `forPath` reads the base table and is refused.
  private lazy val byPath = DeltaTable.forPath(spark, path("d"))
  private lazy val byName = DeltaTable.forName(spark, "d")

  override def beforeAll(): Unit = {
    super.beforeAll()
    sql("CREATE TABLE d (id BIGINT, p BIGINT) USING delta PARTITIONED BY (p)" +
      " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    rows(10).write.insertInto("d")
    sql("CREATE TABLE clustered (id BIGINT, p BIGINT) USING delta CLUSTER BY (id)")
    rows(10).write.format("delta").save(path("d"))
    rows(1).write.format("delta").mode("append").save(path("d"))
    sql("CREATE TABLE q (id BIGINT, p BIGINT) USING parquet PARTITIONED BY (p)")
    rows(10).write.insertInto("q")
    rows(10).write.parquet(path("q"))
    sql("CREATE VIEW v AS SELECT 1 AS one")
    sql("CREATE DATABASE other")
    rows(3).createOrReplaceTempView("source")
    byPath.toDF
    byName.toDF
  }

  // What the guard must stop, by the reason it gives.
  private val refused: Seq[(String, String)] = Seq(
    "NOT_DELTA" -> "CREATE TABLE n (id INT) USING delta",
    "NOT_DELTA" -> "CREATE TABLE IF NOT EXISTS n (id INT) USING parquet",
    "NOT_DELTA" -> "CREATE TABLE n USING delta AS SELECT * FROM source",
    "NOT_DELTA" -> "CREATE TABLE n USING parquet AS SELECT * FROM source",
    "CREATE_TABLE" -> "CREATE TABLE n LIKE q",
    "NOT_DELTA" -> "CREATE OR REPLACE TABLE d (id INT) USING delta",
    "NOT_DELTA" -> "REPLACE TABLE d USING delta AS SELECT * FROM source",
    "NOT_DELTA" -> s"CREATE TABLE delta.`/tmp/never/made` (id INT) USING delta",
    "DROP_TABLE" -> "DROP TABLE d",
    "DROP_TABLE" -> "DROP TABLE IF EXISTS q",
    "RENAME" -> "ALTER TABLE q RENAME TO e",
    "LOCATION" -> "ALTER TABLE q SET LOCATION '/tmp/never/made'",
    "NOT_DELTA" -> "ALTER TABLE q ADD COLUMNS (c INT)",
    "NOT_DELTA" -> "ALTER TABLE q SET TBLPROPERTIES ('a' = 'b')",
    "NOT_DELTA" -> "INSERT INTO q SELECT * FROM source",
    "NOT_DELTA" -> "INSERT OVERWRITE q SELECT * FROM source",
    "NOT_DELTA" -> "TRUNCATE TABLE q",
    "PARTITIONS" -> "ALTER TABLE q ADD PARTITION (p = 7)",
    "PARTITIONS" -> "ALTER TABLE q DROP PARTITION (p = 1)",
    "PARTITIONS" -> "ALTER TABLE q RECOVER PARTITIONS",
    "PARTITIONS" -> "MSCK REPAIR TABLE q",
    "STATISTICS" -> "ANALYZE TABLE q COMPUTE STATISTICS",
    "STATISTICS" -> "ANALYZE TABLE d COMPUTE STATISTICS",
    "FILES_ON_STORAGE" -> "INSERT OVERWRITE DIRECTORY '/tmp/never/made' USING parquet SELECT 1",
    "VACUUM" -> "VACUUM d RETAIN 168 HOURS",
    "CONVERT" -> "CONVERT TO DELTA q PARTITIONED BY (p BIGINT)",
    "CREATE_TABLE" -> "CREATE TABLE n SHALLOW CLONE d",
    "GENERATE" -> "GENERATE symlink_format_manifest FOR TABLE d",
    "REORG" -> "REORG TABLE d APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
    "TABLE_FEATURE" -> "ALTER TABLE d DROP FEATURE deletionVectors",
    "TABLE_FEATURE" ->
      "ALTER TABLE d SET TBLPROPERTIES ('delta.universalFormat.enabledFormats' = 'iceberg')",
    "TABLE_FEATURE" -> ("ALTER TABLE d SET TBLPROPERTIES " +
      "('delta.compatibility.symlinkFormatManifest.enabled' = 'true')"),
    "VIEW" -> "CREATE GLOBAL TEMPORARY VIEW g AS SELECT 1 AS one",
    "FUNCTION" -> "CREATE FUNCTION f AS 'org.example.F'",
    "FUNCTION" -> "CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1",
    "NAMESPACE" -> "CREATE DATABASE another",
    "NAMESPACE" -> "DROP DATABASE other",
    "NAMESPACE" -> "ALTER DATABASE other SET DBPROPERTIES ('a' = 'b')",
    "NAMESPACE" -> "COMMENT ON DATABASE other IS 'c'",
    "PROCEDURE" -> "CALL procedures.system.count()"
  )

  refused.foreach { case (reason, text) =>
    test(s"refused, nothing changed: $text") {
      assert(refusal(sql(text)) == s"$Unsupported.$reason")
    }
  }

  // Statements that are staged once the catalog has redirected their table; here it has not.
  private val staged: Seq[String] = Seq(
    "INSERT INTO d SELECT * FROM source",
    "INSERT INTO d VALUES (1, 1)",
    "INSERT OVERWRITE d SELECT * FROM source",
    "INSERT INTO d REPLACE WHERE p = 1 SELECT id, 1 AS p FROM source",
    "INSERT OVERWRITE d PARTITION (p = 1) SELECT id FROM source",
    "WITH s AS (SELECT * FROM source) INSERT INTO d SELECT * FROM s",
    "FROM source INSERT INTO d SELECT id, p INSERT INTO d SELECT id, p + 1",
    "UPDATE d SET p = 3 WHERE id = 1",
    "DELETE FROM d WHERE id = 2",
    "MERGE INTO d USING source s ON d.id = s.id WHEN MATCHED THEN UPDATE SET * " +
      "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "TRUNCATE TABLE d",
    "ALTER TABLE d ADD COLUMNS (c INT)",
    "ALTER TABLE d RENAME COLUMN id TO key",
    "ALTER TABLE d DROP COLUMN id",
    "ALTER TABLE d ALTER COLUMN id COMMENT 'c'",
    "ALTER TABLE d SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    "ALTER TABLE d UNSET TBLPROPERTIES ('a')",
    "ALTER TABLE d ADD CONSTRAINT positive CHECK (id >= 0)",
    "ALTER TABLE d DROP CONSTRAINT IF EXISTS positive",
    "ALTER TABLE clustered CLUSTER BY (p)",
    "COMMENT ON TABLE d IS 'c'",
    "OPTIMIZE d",
    "OPTIMIZE d ZORDER BY (id)",
    "REORG TABLE d APPLY (PURGE)",
    "RESTORE TABLE d TO VERSION AS OF 0",
    "ALTER TABLE d RENAME TO e",
    "ALTER TABLE d SET LOCATION '/tmp/never/made'"
  )

  staged.foreach { text =>
    test(s"staged; refused where the table is not an overlay: $text") {
      val plan = analyse(text)
      assert(writes(plan).map(CommandCatalogue.decide).distinct == Seq(Decision.Staged), plan)
      assert(refusal(sql(text)) == Base)
    }
  }

  test("staged: dynamic partition overwrite") {
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try {
      val text = "INSERT OVERWRITE d SELECT * FROM source"
      assert(writes(analyse(text)).map(CommandCatalogue.decide) == Seq(Decision.Staged))
      assert(refusal(sql(text)) == Base)
    } finally spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
  }

  private val writers: Seq[(String, DataFrame => Any)] = Seq(
    "save append" -> (_.write.format("delta").mode("append").save(path("d"))),
    "save overwrite" -> (_.write.format("delta").mode("overwrite").save(path("d"))),
    "save replaceWhere" -> (_.where("p = 1").write.format("delta").mode("overwrite")
      .option("replaceWhere", "p = 1").save(path("d"))),
    "insertInto" -> (_.write.insertInto("d")),
    "saveAsTable append" -> (_.write.format("delta").mode("append").saveAsTable("d")),
    "writeTo append" -> (_.writeTo("d").append()),
    "writeTo overwrite" -> (_.writeTo("d").overwrite(functions.lit(true))),
    "writeTo overwritePartitions" -> (_.writeTo("d").overwritePartitions()),
    "mergeInto" -> (_.as("s").mergeInto("d", functions.expr("s.id = d.id"))
      .whenMatched().updateAll().merge()),
    "DeltaTable.delete" -> (_ => byPath.delete("id = 77")),
    "DeltaTable.update" -> (_ =>
      byName.updateExpr("id = 77", Map("p" -> "0"))
    ),
    "DeltaTable.merge" -> (df =>
      byName
        .merge(df.as("s"), "s.id = d.id").whenMatched().updateAll().execute()
    ),
    "DeltaTable.optimize" -> (_ =>
      byPath.optimize()
        .executeCompaction()
    ),
    "DeltaTable.restoreToVersion" -> (_ =>
      byPath
        .restoreToVersion(0)
    ),
    "DeltaTable.upgradeTableProtocol" -> (_ =>
      byPath
        .upgradeTableProtocol(1, 4)
    ),
    "DeltaTable.addFeatureSupport" -> (_ =>
      byPath
        .addFeatureSupport("changeDataFeed")
    )
  )

  writers.foreach { case (name, write) =>
    test(s"staged; refused where the table is not an overlay: $name") {
      val input = rows(3)
      val commands = plansOf(assert(refusal(write(input)) == Base))
        .filter(_.isInstanceOf[Command])
      assert(commands.nonEmpty)
      assert(commands.map(CommandCatalogue.decide).distinct == Seq(Decision.Staged), commands)
    }
  }

  private val otherWriters: Seq[(String, String, DataFrame => Any)] = Seq(
    ("NOT_DELTA", "parquet", _.write.parquet(path("n"))),
    ("NOT_DELTA", "parquet overwrite", _.write.mode("overwrite").parquet(path("q"))),
    ("NOT_DELTA", "csv", _.write.csv(path("n"))),
    (
      "NOT_DELTA",
      "jdbc",
      _.write.format("jdbc").option("url", "jdbc:derby:memory:n")
        .option("dbtable", "n").save()
    ),
    ("NOT_DELTA", "insertInto parquet", _.write.insertInto("q")),
    ("NOT_DELTA", "saveAsTable", _.write.format("delta").saveAsTable("n")),
    (
      "NOT_DELTA",
      "saveAsTable overwrite",
      _.write.format("delta").mode("overwrite")
        .saveAsTable("d")
    ),
    ("NOT_DELTA", "saveAsTable parquet", _.write.format("parquet").saveAsTable("n")),
    ("NOT_DELTA", "writeTo create", _.writeTo("n").using("delta").create()),
    ("NOT_DELTA", "writeTo createOrReplace", _.writeTo("d").using("delta").createOrReplace()),
    ("CREATE_TABLE", "save to a new path", _.write.format("delta").save(path("n"))),
    (
      "NOT_DELTA",
      "DeltaTable.create",
      _ =>
        DeltaTable.create(spark).tableName("n")
          .addColumn("id", "INT").execute()
    ),
    (
      "NOT_DELTA",
      "catalog.createTable",
      df =>
        spark.catalog
          .createTable("n", "delta", df.schema, Map.empty[String, String])
    ),
    ("PARTITIONS", "catalog.recoverPartitions", _ => spark.catalog.recoverPartitions("q")),
    ("VIEW", "createGlobalTempView", _.createGlobalTempView("g")),
    ("VACUUM", "DeltaTable.vacuum", _ => byPath.vacuum()),
    (
      "GENERATE",
      "DeltaTable.generate",
      _ =>
        byPath
          .generate("symlink_format_manifest")
    ),
    (
      "CREATE_TABLE",
      "DeltaTable.clone",
      _ =>
        byPath
          .clone(path("n"), true)
    ),
    (
      "TABLE_FEATURE",
      "DeltaTable.dropFeatureSupport",
      _ =>
        byPath
          .dropFeatureSupport("changeDataFeed")
    )
  )

  otherWriters.foreach { case (reason, name, write) =>
    test(s"refused, nothing changed: $name") {
      assert(refusal(write(rows(3))) == s"$Unsupported.$reason")
    }
  }

  /** Methods of the catalog that an older line does not have, with what they are called with. */
  private val newer: Seq[(String, String, Seq[AnyRef])] = Seq(
    ("DROP_TABLE", "dropTable", Seq("d", Boolean.box(false), Boolean.box(false))),
    (
      "NAMESPACE",
      "createDatabase",
      Seq("another", Boolean.box(false), new java.util.HashMap[String, String])
    ),
    ("STATISTICS", "analyzeTable", Seq("q", Boolean.box(false))),
    ("NOT_DELTA", "truncateTable", Seq("q"))
  )

  for {
    (reason, name, arguments) <- newer
    method <- classOf[classic.Catalog].getMethods
      .find(m => m.getName == name && m.getParameterCount == arguments.size)
  } test(s"refused, nothing changed: catalog.$name") {
    def called =
      try method.invoke(spark.catalog, arguments: _*)
      catch { case e: InvocationTargetException => throw e.getCause }
    assert(refusal(called) == s"$Unsupported.$reason")
  }

  test("refused, nothing changed: a stream, whose checkpoint folder Spark makes while analysing") {
    val input = spark.readStream.format("rate").load()
    assert(refusal(input.writeStream.format("delta").option("checkpointLocation", path("c"))
      .start(path("n"))) == s"$Unsupported.STREAMING")
    assert(refusal(input.writeStream.format("noop").option("checkpointLocation", path("c"))
      .start()) == s"$Unsupported.STREAMING")
    assert(refusal(input.writeStream.option("checkpointLocation", path("c"))
      .foreachBatch((_: DataFrame, _: Long) => ()).start()) == s"$Unsupported.STREAMING")
    assert(!new File(path("c")).exists)
  }

  test("a procedure is not called") {
    val before = CountingProcedure.calls.get
    assert(refusal(sql("CALL procedures.system.count()")) == s"$Unsupported.PROCEDURE")
    assert(CountingProcedure.calls.get == before)
    sql("CALL procedures.system.count()")
    assert(CountingProcedure.calls.get == before + 1)
  }

  test("scripts and EXECUTE IMMEDIATE are judged statement by statement") {
    assert(refusal(sql("BEGIN DROP TABLE d; END")) == s"$Unsupported.DROP_TABLE")
    assert(refusal(sql("EXECUTE IMMEDIATE 'DROP TABLE d'")) == s"$Unsupported.DROP_TABLE")
    assert(refusal(sql("BEGIN INSERT INTO d VALUES (1, 1); END")) == Base)
    val result = inTransaction {
      sql("BEGIN DECLARE x INT DEFAULT 3; SET x = x + 1; SELECT x; END").collect()
    }
    assert(result.map(_.getInt(0)).toSeq == Seq(4))
    assert(inTransaction(sql("EXECUTE IMMEDIATE 'SELECT 5'").collect()).head.getInt(0) == 5)
  }

  test("EXPLAIN of a refused statement runs nothing and says why") {
    val before = world()
    val text = inTransaction(sql("EXPLAIN DROP TABLE d").collect())
    assert(text.mkString.contains(s"$Unsupported.DROP_TABLE"))
    assert(world() == before)
  }

  test("a class that nobody has judged is refused") {
    assert(refusal(spark.sessionState.executePlan(UnknownSideEffect()).analyzed) ==
      s"$Unsupported.UNKNOWN_COMMAND")
  }

  test("base tables are refused however they are read") {
    Seq(
      "SELECT * FROM d",
      "SELECT 1 WHERE EXISTS (SELECT * FROM d)",
      "WITH s AS (SELECT * FROM d) SELECT * FROM s",
      "SELECT * FROM d VERSION AS OF 0",
      s"SELECT * FROM delta.`${path("d")}`",
      "CREATE TEMPORARY VIEW n AS SELECT * FROM d",
      "CACHE TABLE d",
      "DESCRIBE HISTORY d",
      "DESCRIBE DETAIL d"
    ).foreach(text => assert(refusal(sql(text).collect()) == Base, text))
    assert(refusal(spark.read.format("delta").load(path("d"))) == Base)
    assert(refusal(rows(2).join(spark.table("d"), "id")) == Base)
  }

  test("a temporary view may name a base table; reading it is refused") {
    inTransaction(sql(s"CREATE TEMPORARY VIEW named USING delta OPTIONS (path '${path("d")}')"))
    assert(refusal(sql("SELECT * FROM named").collect()) == Base)
    assert(sql("SELECT * FROM named").count() > 0)
  }

  test("a DataFrame made before BEGIN is refused when it first runs inside") {
    val lazily = spark.table("d")
    assert(refusal(lazily.collect()) == Base)
    val joined = spark.table("d").join(rows(3), "id")
    assert(refusal(joined.count()) == Base)
    assert(refusal(joined.write.format("noop").mode("overwrite").save()) == Base)
    assert(refusal(joined.rdd.count()) == Base)
    spark.table("d").createOrReplaceTempView("before")
    assert(refusal(sql("SELECT * FROM before").collect()) == Base)
  }

  test("a table cached before BEGIN is refused like any other") {
    val cached = spark.read.format("delta").load(path("d")).cache()
    try {
      cached.count()
      assert(refusal(cached.select("id").collect()) == Base)
    } finally cached.unpersist(blocking = true)
  }

  test("rows of a command that ran before BEGIN can be read inside") {
    val tables = sql("SHOW TABLES")
    assert(inTransaction(tables.where("tableName = 'd'").count()) == 1)
  }

  // Reads, and what changes only this session.
  private val allowed: Seq[String] = Seq(
    "SELECT * FROM q JOIN source USING (id)",
    "SELECT one FROM v",
    "SHOW TABLES",
    "SHOW DATABASES",
    "SHOW VIEWS",
    "SHOW COLUMNS IN q",
    "SHOW TBLPROPERTIES q",
    "SHOW FUNCTIONS",
    "SHOW PARTITIONS q",
    "SHOW CREATE TABLE q",
    "SHOW CATALOGS",
    "SHOW TABLE EXTENDED LIKE 'q'",
    "SHOW CURRENT NAMESPACE",
    "DESCRIBE TABLE q",
    "DESCRIBE EXTENDED q",
    "DESCRIBE q id",
    "DESCRIBE DATABASE default",
    "DESCRIBE FUNCTION abs",
    "DESCRIBE QUERY SELECT 1",
    "EXPLAIN SELECT * FROM q",
    "EXPLAIN EXTENDED SELECT 1",
    "SET a.b = c",
    "RESET a.b",
    "SET",
    "SET TIME ZONE 'UTC'",
    "USE other",
    "USE default",
    "USE NAMESPACE default",
    "CREATE TEMPORARY VIEW inside AS SELECT * FROM source",
    "DROP VIEW inside",
    "CREATE OR REPLACE TEMPORARY VIEW inside AS SELECT 1 AS one",
    "DROP VIEW IF EXISTS inside",
    "CREATE TEMPORARY FUNCTION inside(x INT) RETURNS INT RETURN x + 1",
    "SELECT inside(1)",
    "DROP TEMPORARY FUNCTION inside",
    "DECLARE VARIABLE x INT DEFAULT 1",
    "SET VARIABLE x = 2",
    "DROP TEMPORARY VARIABLE x",
    "CACHE TABLE q",
    "REFRESH TABLE q",
    "UNCACHE TABLE q",
    "CACHE LAZY TABLE c AS SELECT * FROM source",
    "UNCACHE TABLE c",
    "DROP VIEW c",
    "CLEAR CACHE",
    "LIST JARS"
  )

  test("reads and what belongs to the session pass and change nothing else") {
    val before = world()
    inTransaction(allowed.foreach(text => withClue(text)(sql(text).collect())))
    assert(world() == before)
  }

  test("the catalog API's reads, noop writes and checkpoints pass") {
    val before = world()
    inTransaction {
      assert(spark.catalog.tableExists("q"))
      assert(spark.catalog.listDatabases().count() == 2)
      assert(spark.catalog.listColumns("q").count() == 2)
      spark.catalog.cacheTable("q")
      assert(spark.catalog.isCached("q"))
      spark.catalog.uncacheTable("q")
      rows(3).createOrReplaceTempView("inside")
      assert(spark.catalog.dropTempView("inside"))
      rows(3).write.format("noop").mode("overwrite").save()
      assert(rows(3).localCheckpoint().count() == 3)
      assert(rows(3).cache().count() == 3)
      spark.catalog.clearCache()
    }
    assert(world() == before)
  }

  test("outside of a transaction nothing is refused") {
    sql("CREATE TABLE n (id INT) USING delta")
    sql("INSERT INTO n VALUES (1)")
    sql("DROP TABLE n")
    assert(spark.table("d").count() > 0)
  }

  /** Analyses without running. */
  private def analyse(text: String): LogicalPlan =
    spark.sessionState.executePlan(spark.sessionState.sqlParser.parsePlan(text)).analyzed

  private def writes(plan: LogicalPlan): Seq[LogicalPlan] = plan.collect { case c: Command => c }
}
