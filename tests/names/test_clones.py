"""Shallow clones inside a transaction: of what it sees, and of files that stay."""

from pathlib import Path

import pytest

import files_on_disk
from name_steps import names, value
from transactions import abandon, begin, commit, flush, refused, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]


def make(spark, name, *values, properties="'delta.enableDeletionVectors' = 'true'"):
    spark.sql(f"CREATE TABLE {name} (v INT) USING delta TBLPROPERTIES ({properties})")
    rows = ", ".join(f"({one})" for one in values)
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ v FROM VALUES {rows} AS s(v)")


def rows(spark, name):
    return sorted(value(spark, name))


def log(spark, name):
    location = spark.sql(f"DESCRIBE DETAIL {name}").first()["location"]
    folder = Path(location.removeprefix("file:")) / "_delta_log"
    return "".join(file.read_text() for file in sorted(folder.glob("*.json")))


def test_a_clone_is_of_what_the_transaction_sees_and_names_no_path_of_it(
    spark, other, schema, tmp_path
):
    make(spark, "t", 1, 2, 3)
    begin(spark)
    spark.sql("DELETE FROM t WHERE v = 2")
    spark.sql("CREATE TABLE c SHALLOW CLONE t")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/p` SHALLOW CLONE t")
    spark.sql("CREATE TABLE made USING delta AS SELECT 9 AS v")
    spark.sql("CREATE TABLE m SHALLOW CLONE made")
    # Both sides go on by themselves.
    spark.sql("INSERT INTO t VALUES (4)")
    spark.sql("DELETE FROM c WHERE v = 1")
    spark.sql("ALTER TABLE made RENAME TO renamed")
    begin(other)
    assert rows(other, f"{schema}.t") == [1, 2, 3]
    other.sql(f"INSERT INTO {schema}.t VALUES (5)")
    commit(other)
    commit(spark)
    for session in (spark, other):
        assert rows(session, f"{schema}.t") == [1, 3, 4, 5]
        assert rows(session, f"{schema}.c") == [3]
        assert rows(session, f"{schema}.m") == rows(session, f"{schema}.renamed") == [9]
        assert rows(session, f"delta.`{tmp_path}/p`") == [1, 3]
    for table in ("c", "m", f"delta.`{tmp_path}/p`"):
        assert "lakestep:" not in log(spark, table)
        assert spark.sql(f"DESCRIBE HISTORY {table}").first()["operation"] is not None
    spark.sql("OPTIMIZE c")
    assert rows(spark, "c") == [3]


def test_a_clone_that_is_taken_back_takes_no_file_of_its_source(spark, schema):
    make(spark, "t", 1, 2)
    place = spark.sql("DESCRIBE DETAIL t").first()["location"].removeprefix("file:")
    files = files_on_disk.prints(place)
    begin(spark)
    spark.sql("SAVEPOINT here")
    spark.sql("CREATE TABLE c SHALLOW CLONE t")
    spark.sql("DELETE FROM c")
    spark.sql("ROLLBACK TO here")
    spark.sql("CREATE TABLE c SHALLOW CLONE t")
    spark.sql("DELETE FROM c WHERE v = 1")
    spark.sql("DROP TABLE c")
    spark.sql("CREATE TABLE e SHALLOW CLONE t")
    rollback(spark)
    flush(spark)
    assert names(spark) == ["t"] and rows(spark, "t") == [1, 2]
    assert files_on_disk.prints(place) == files


def test_files_of_a_source_that_is_made_and_dropped_in_the_transaction_stay(spark, other, schema):
    begin(spark)
    spark.sql("CREATE TABLE tmp USING delta AS SELECT 9 AS v")
    spark.sql("CREATE TABLE c SHALLOW CLONE tmp")
    spark.sql("UPDATE c SET v = 8")
    spark.sql("CREATE TABLE d SHALLOW CLONE c")
    spark.sql("DROP TABLE tmp")
    spark.sql("DROP TABLE c")
    commit(spark)
    flush(spark)
    assert names(spark) == ["d"] and rows(spark, "d") == rows(other, f"{schema}.d") == [8]


def test_a_clone_has_read_its_source(spark, other, schema):
    make(spark, "t", 1)
    for isolation, fails in (("SNAPSHOT", False), ("SERIALIZABLE", True)):
        spark.sql(f"BEGIN ISOLATION LEVEL {isolation}")
        spark.sql(f"CREATE TABLE {isolation} SHALLOW CLONE t")
        other.sql(f"INSERT INTO {schema}.t VALUES (2)")
        if fails:
            with refused("LAKESTEP_CONFLICT.READ_DATA_CHANGED", "40001"):
                spark.sql("COMMIT")
            abandon(spark)
        else:
            commit(spark)
    assert rows(spark, "snapshot") == [1]
    assert names(spark) == ["snapshot", "t"]


def test_a_clone_of_an_older_version_or_onto_itself_is_as_without_a_transaction(spark, schema):
    make(spark, "t", 1)
    spark.sql("INSERT INTO t VALUES (2)")
    begin(spark)
    spark.sql("INSERT INTO t VALUES (3)")
    spark.sql("CREATE TABLE old SHALLOW CLONE t VERSION AS OF 1")
    assert rows(spark, "old") == [1]
    with pytest.raises(Exception, match="already exists"):
        spark.sql("CREATE TABLE old SHALLOW CLONE t")
    with pytest.raises(Exception, match=r"SNAPSHOT|REPLACE|[Cc]lon"):
        spark.sql("CREATE OR REPLACE TABLE old SHALLOW CLONE t")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("CREATE TABLE x SHALLOW CLONE nothing")
    commit(spark)
    assert names(spark) == ["old", "t"] and rows(spark, "old") == [1]
