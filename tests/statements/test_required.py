"""`spark.lakestep.requireTransaction`: nothing is committed by itself."""

import pytest
from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException

import files_on_disk
import lakestep
import statement_kinds
from transactions import begin, commit, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]

REQUIRED = ("LAKESTEP_TRANSACTION_REQUIRED", "25P01")


@pytest.fixture
def require(spark):
    """Puts the setting on, once the tables are made."""
    yield lambda: spark.conf.set("spark.lakestep.requireTransaction", "true")
    spark.conf.unset("spark.lakestep.requireTransaction")


def test_every_statement_is_refused_outside_before_it_acts(spark, arena, require):
    tables = {kind.table for kind in statement_kinds.KINDS.values()}
    targets = {table: arena.table(table) for table in tables}
    require()
    for name, kind in statement_kinds.KINDS.items():
        target = targets[kind.table]
        files = files_on_disk.prints(target.path)
        with refused(*REQUIRED):
            statement_kinds.run(spark, name, target)
        assert files_on_disk.prints(target.path) == files, name


OTHERS = {
    "table": "CREATE TABLE required_new (id INT) USING delta",
    "table of rows": "CREATE TABLE required_new USING delta AS SELECT 1 AS id",
    "table that is not Delta": "CREATE TABLE required_new USING parquet AS SELECT 1 AS id",
    "drop": "DROP TABLE {t}",
    "rename": "ALTER TABLE {t} RENAME TO required_other",
    "schema": "CREATE SCHEMA required_schema",
    "view": "CREATE VIEW required_view AS SELECT 1 AS id",
    "files": "INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT 1 AS id",
    "vacuum": "VACUUM {t}",
    "statistics": "ANALYZE TABLE {t} COMPUTE STATISTICS",
    "multi-insert": "FROM {t} INSERT INTO {t} SELECT * INSERT INTO {t} SELECT *",
    "execute immediate": "EXECUTE IMMEDIATE 'DELETE FROM {t}'",
    "script": "BEGIN DELETE FROM {t}; END",
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_statement_over_rows_is_refused_too(spark, table, tmp_path, require, kind):
    name, path = table("required"), tmp_path / "files"
    require()
    with refused(*REQUIRED):
        spark.sql(OTHERS[kind].format(t=name, path=path)).collect()
    assert spark.table(name).count() == 2 and not path.exists()
    assert spark.sql("SHOW TABLES LIKE 'required_*'").count() == 0


def test_frames_and_delta_tables_are_refused(spark, table, tmp_path, require):
    name, frame = table("required_frames"), spark.range(1).selectExpr("1 AS id", "'x' AS v")
    parquet = tmp_path / "converted"
    frame.write.parquet(str(parquet))
    require()
    writes = (
        lambda: frame.write.format("delta").save(str(tmp_path / "t")),
        lambda: frame.write.parquet(str(tmp_path / "p")),
        lambda: frame.write.saveAsTable("required_new"),
        lambda: frame.writeTo(name).append(),
        lambda: DeltaTable.forName(spark, name).delete(),
        lambda: DeltaTable.createOrReplace(spark).tableName("required_new").execute(),
        lambda: DeltaTable.convertToDelta(spark, f"parquet.`{parquet}`"),
        lambda: DeltaTable.forName(spark, name).upgradeTableProtocol(3, 7),
        lambda: DeltaTable.forName(spark, name).addFeatureSupport("deletionVectors"),
        lambda: DeltaTable.forName(spark, name).optimize().executeCompaction(),
        lambda: DeltaTable.forName(spark, name).restoreToVersion(0),
    )
    for write in writes:
        with refused(*REQUIRED):
            write()
    assert list(tmp_path.iterdir()) == [parquet]
    assert not (parquet / "_delta_log").exists()
    assert spark.table(name).count() == 2


def test_streams_that_commit_by_themselves_are_refused(spark, table, tmp_path, require):
    source, target = table("required_source"), table("required_sink", ())

    def stream():
        writer = spark.readStream.table(source).writeStream.trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "c"))

    require()
    for start in (
        lambda: stream().format("delta").toTable(target),
        lambda: stream().format("delta").start(str(tmp_path / "t")),
        lambda: stream().format("parquet").start(str(tmp_path / "p")),
    ):
        with refused(*REQUIRED):
            start()
    assert spark.table(target).count() == 0
    assert list(tmp_path.rglob("*.parquet")) == []
    stream().format("noop").start().awaitTermination()


def test_what_takes_back_is_refused(spark, table, require):
    name = table("required_undo")
    with lakestep.transaction(spark) as txn:
        spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    require()
    for statement in (
        f"REVERT TRANSACTION '{txn.id}'",
        f"RESTORE TABLES ({name}) TO VERSION {txn.entry}",
        f"UNDROP TABLE {name}",
    ):
        with refused(*REQUIRED):
            spark.sql(statement)
    assert spark.table(name).count() == 3
    spark.sql(f"REVERT TRANSACTION '{txn.id}' DRY RUN")


def test_what_only_reads_or_changes_the_session_is_not(spark, table, require):
    name = table("required_reads")
    require()
    spark.table(name).createOrReplaceTempView("required_view")
    for statement in (
        f"SELECT * FROM {name}",
        f"DESCRIBE HISTORY {name}",
        f"EXPLAIN DELETE FROM {name}",
        "SHOW TABLES",
        "USE default",
        "SET spark.sql.shuffle.partitions",
        f"CACHE TABLE {name}",
        f"UNCACHE TABLE {name}",
        "DROP VIEW required_view",
        "SHOW TRANSACTIONS",
        "RECOVER",
    ):
        spark.sql(statement).collect()
    spark.table(name).write.format("noop").mode("overwrite").save()


def test_inside_a_transaction_all_is_as_ever_and_after_it_is_refused_again(spark, table, require):
    name = table("required_inside")
    require()
    begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    commit(spark)
    with refused(*REQUIRED):
        spark.sql(f"INSERT INTO {name} VALUES (4, 'd')")
    begin(spark)
    spark.sql(f"INSERT INTO {name} VALUES (4, 'd')")
    rollback(spark)
    spark.sql(f"BEGIN ATOMIC INSERT INTO {name} VALUES (5, 'e'); END")
    assert sorted(row["id"] for row in spark.table(name).collect()) == [1, 2, 3, 5]


def test_other_sessions_do_as_they_like(spark, table, require):
    name = table("required_elsewhere")
    require()
    spark.newSession().sql(f"INSERT INTO {name} VALUES (3, 'c')")
    assert spark.table(name).count() == 3


def test_batch_of_a_stream_needs_a_transaction(spark, table, tmp_path, require):
    source, target = table("required_source"), table("required_target", ())
    require()

    def run(function):
        query = spark.readStream.table(source).writeStream.foreachBatch(function)
        query = query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        query.start().awaitTermination()

    def alone(batch, _):
        batch.write.format("delta").mode("append").saveAsTable(target)

    def inside(batch, number):
        with lakestep.transaction(batch.sparkSession):
            alone(batch, number)

    with pytest.raises(StreamingQueryException, match="LAKESTEP_TRANSACTION_REQUIRED"):
        run(alone)
    assert spark.table(target).count() == 0
    run(inside)
    assert spark.table(target).count() == 2
