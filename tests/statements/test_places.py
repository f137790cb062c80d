"""Wherever a table lies and however it is named, a transaction changes it as plain Delta does."""

import shutil

import pytest

import files_on_disk
import statement_kinds
import table_state
from arena import head
from statement_kinds import Target
from transactions import begin, commit, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]

STATEMENTS = (
    "insert_values",
    "update",
    "merge_schema_evolution",
    "for_name_delete",
    "for_path_update",
    "add_constraint",
    "write_append_merge_schema",
)


def managed(spark, arena, folder):
    path = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:") + "/managed"
    spark.sql("CREATE TABLE managed (id INT) USING delta")
    shutil.rmtree(path)
    arena.copy("plain", path)
    return Target("managed", path)


def external(spark, arena, folder):
    return arena.table("plain")


def other_schema(spark, arena, folder):
    path = arena.copy("plain")
    spark.sql("CREATE SCHEMA IF NOT EXISTS other_schema")
    spark.sql(f"CREATE TABLE other_schema.t USING delta LOCATION '{path}'")
    return Target("other_schema.t", str(path))


def current_schema(spark, arena, folder):
    path = arena.copy("plain")
    spark.sql("CREATE SCHEMA IF NOT EXISTS elsewhere")
    spark.sql(f"CREATE TABLE elsewhere.here USING delta LOCATION '{path}'")
    spark.sql("USE elsewhere")
    return Target("here", str(path))


def full_name(spark, arena, folder):
    table = arena.table("plain")
    return Target(f"spark_catalog.default.{table.sql}", table.path)


def named_catalog(spark, arena, folder):
    spark.conf.set("spark.sql.catalog.lake", "io.lakestep.catalog.TransactionalCatalog")
    table = arena.table("plain")
    return Target(f"lake.default.{table.sql}", table.path)


def path(spark, arena, folder):
    path = arena.copy("plain")
    return Target(f"delta.`{path}`", str(path))


def path_with_scheme(spark, arena, folder):
    path = arena.copy("plain")
    return Target(f"delta.`file:{path}`", f"file://{path}")


def symbolic_link(spark, arena, folder):
    link = folder / "link"
    link.symlink_to(arena.copy("plain"))
    return Target(f"delta.`{link}`", str(link))


def odd_path(spark, arena, folder):
    path = arena.copy("plain", folder / "ä b%20c+d#e=f" / "tä%ble")
    spark.sql(f"CREATE TABLE odd_path USING delta LOCATION '{path}'")
    return Target("odd_path", str(path))


PLACES = [
    managed,
    external,
    other_schema,
    current_schema,
    full_name,
    named_catalog,
    path,
    path_with_scheme,
    symbolic_link,
    odd_path,
]


@pytest.mark.parametrize("place", PLACES)
def test_table_changes_alike_in_every_place(spark, arena, tmp_path, place):
    by_path = place in (path, path_with_scheme, symbolic_link)
    statements = tuple(s for s in STATEMENTS if not (by_path and s.startswith("for_name")))
    expected = arena.expected("plain", *statements)
    target = place(spark, arena, tmp_path)
    folder = target.path.removeprefix("file://")
    try:
        files = files_on_disk.prints(folder)
        before = table_state.view(spark, target.sql)
        since = head(folder)
        for end in (rollback, commit):
            begin(spark)
            for statement in statements:
                statement_kinds.run(spark, statement, target)
            assert table_state.view(spark, target.sql) == expected.result()["view"]
            files_on_disk.assert_log_untouched(folder, files)
            if end is rollback:
                rollback(spark)
                assert table_state.view(spark, target.sql) == before
                files_on_disk.assert_log_untouched(folder, files)
        commit(spark)
        files_on_disk.assert_kept(folder, files)
        assert head(folder) == since + 1
        assert table_state.view(spark, target.sql) == expected.result()["view"]
        assert arena.state(folder, since) == expected.result()["state"]
    finally:
        spark.catalog.setCurrentDatabase("default")


def test_one_table_by_name_and_by_path_is_one_table(spark, arena):
    target = arena.table("plain")
    begin(spark)
    spark.sql(f"DELETE FROM {target.sql} WHERE id = 1")
    spark.sql(f"DELETE FROM delta.`{target.path}` WHERE id = 2")
    spark.sql(f"DELETE FROM delta.`file:{target.path}/` WHERE id = 3")
    assert spark.table(target.sql).count() == 5
    assert commit(spark)["tables"] == 1
    assert spark.table(target.sql).count() == 5


def test_hive_metastore_on_derby(python, tmp_path):
    answer = python(
        """
        import os
        from pathlib import Path
        from pyspark.sql import SparkSession
        folder = Path(os.environ["FOLDER"])
        os.chdir(folder)
        builder = SparkSession.builder.master("local[2]").config(map={
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.warehouse.dir": f"file:{folder}/warehouse",
        }).enableHiveSupport()
        spark = lakestep.configure(builder, root=folder / "timeline").getOrCreate()
        sql = lambda text: [list(row) for row in spark.sql(text).collect()]
        sql("CREATE TABLE managed (id INT, v STRING) USING delta")
        sql("CREATE SCHEMA s")
        sql(f"CREATE TABLE s.external (id INT, v STRING) USING delta LOCATION '{folder}/external'")
        for table in ("managed", "s.external"):
            sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
        for end in ("ROLLBACK", "COMMIT"):
            sql("BEGIN")
            sql("INSERT INTO managed VALUES (3, 'c')")
            sql("UPDATE s.external SET v = 'new' WHERE id = 1")
            sql("ALTER TABLE s.external ADD COLUMN w INT")
            spark.table("managed").write.format("delta").mode("append").saveAsTable("managed")
            read = lambda: [len(sql("SELECT * FROM managed")), sorted(sql("FROM s.external"))]
            inside = read()
            sql(end)
            after = read()
            if end == "ROLLBACK":
                rolled_back = after
        answer({"catalog": spark.conf.get("spark.sql.catalogImplementation"), "inside": inside,
                "rolled_back": rolled_back, "committed": after,
                "stored": str(sql("DESCRIBE EXTENDED s.external"))})
        """,
        FOLDER=str(tmp_path),
    )
    assert answer["catalog"] == "hive"
    assert answer["rolled_back"] == [2, [[1, "a"], [2, "b"]]]
    assert answer["inside"] == [6, [[1, "new", None], [2, "b", None]]]
    assert answer["committed"] == answer["inside"]
    assert "lakestep://" not in answer["stored"]
