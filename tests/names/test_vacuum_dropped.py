"""VACUUM DROPPED TABLES: what it deletes, and all that it leaves alone."""

import pytest

from name_steps import conflicting, make, names, value
from settings import setting
from transactions import abandon, begin, commit, folder, refused

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]


def drop(spark, *tables):
    begin(spark)
    for name in tables:
        spark.sql(f"DROP TABLE {name}")
    commit(spark)


def vacuum(spark, schema, hours=0):
    """What it has done, by table of the schema."""
    rows = spark.sql(f"VACUUM DROPPED TABLES RETAIN {hours} HOURS").collect()
    return {row["table"]: row["result"] for row in rows if row["schema"] == schema}


@pytest.fixture(autouse=True)
def no_old_transaction(spark):
    """Those that tests left open would need what is dropped later."""
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")


@pytest.mark.parametrize("inside", [False, True])
def test_the_data_of_a_dropped_table_are_deleted(spark, other, schema, inside):
    if inside:
        begin(spark)
    make(spark, "t", 1)
    if inside:
        commit(spark)
    make(spark, "u", 2)
    place, kept = folder(spark, "t"), folder(spark, "u")
    drop(spark, "t")
    assert vacuum(spark, schema, hours=1) == {}
    assert spark.sql("VACUUM DROPPED TABLES").collect() == []
    assert list(place.glob("*.parquet"))
    assert vacuum(other, schema) == {"t": "DELETED"}
    assert not place.exists() and kept.exists()
    assert not inside or not place.parent.exists()
    with refused("LAKESTEP_NO_DROPPED_TABLE", "42P01"):
        spark.sql("UNDROP TABLE t")
    assert vacuum(spark, schema) == {}
    assert names(spark) == ["u"] and value(spark, "u") == [2]
    make(spark, "t", 3)
    assert value(spark, "t") == value(other, f"{schema}.t") == [3]


def test_what_undo_needs_is_kept(spark, schema):
    make(spark, "t", 1)
    drop(spark, "t")
    with setting(spark, "spark.lakestep.undo.retainHours", "1"):
        assert vacuum(spark, schema) == {"t": "KEPT: spark.lakestep.undo.retainHours keeps it"}
    assert vacuum(spark, schema) == {"t": "DELETED"}


def test_what_is_external_undropped_or_dropped_by_spark_stays(spark, schema, tmp_path):
    spark.sql(f"CREATE TABLE e USING delta LOCATION '{tmp_path}/e' AS SELECT 1 AS v")
    make(spark, "t", 1)
    drop(spark, "e", "t")
    spark.sql("UNDROP TABLE t")
    assert vacuum(spark, schema) == {}
    assert value(spark, "t") == [1]
    spark.sql("UNDROP TABLE e")
    assert value(spark, "e") == [1]


def test_what_somebody_needs_is_kept_and_named(spark, other, schema, tmp_path):
    for name in ("open", "named", "around", "inside", "written"):
        make(spark, name, 1)
    places = {name: folder(spark, name) for name in names(spark)}
    spark.sql(f"CREATE TABLE x USING delta LOCATION '{places['around']}/x' AS SELECT 9 AS v")
    reader = begin(other)
    other.sql(f"USE {schema}")
    assert value(other, "open") == [1]
    drop(spark, *places)
    spark.sql(f"CREATE TABLE again USING delta LOCATION '{places['named']}'")
    spark.sql(f"INSERT INTO delta.`{places['written']}` VALUES (2)")
    assert set(vacuum(spark, schema).values()) == {
        f"KEPT: transaction {reader} began before it was dropped"
    }
    assert value(other, "open") == [1]
    abandon(other)
    found = vacuum(spark, schema)
    assert found.pop("open") == found.pop("inside") == "DELETED"
    assert found == {
        "named": f"KEPT: spark_catalog.{schema}.again leads to its folder",
        "around": f"KEPT: spark_catalog.{schema}.x leads to its folder",
        "written": "KEPT: it was written since",
    }
    assert value(spark, "again") == [1] and value(spark, "x") == [9]
    spark.sql("UNDROP TABLE written")
    assert sorted(value(spark, "written")) == [1, 2]


def test_of_vacuum_and_undrop_one_wins(spark, other, schema):
    make(spark, "t", 1)
    drop(spark, "t")
    begin(other)
    other.sql(f"UNDROP TABLE {schema}.t")
    assert value(other, f"{schema}.t") == [1]
    # The transaction of UNDROP began after the DROP, so it is not waited for.
    assert vacuum(spark, schema) == {"t": "DELETED"}
    conflicting(other, "VACUUM DROPPED TABLES")
    assert names(spark) == []


def test_bad_input(spark, schema):
    make(spark, "t", 1)
    drop(spark, "t")
    with refused("LAKESTEP_RETENTION_INVALID", "42601"):
        spark.sql("VACUUM DROPPED TABLES RETAIN never HOURS")
    with refused("LAKESTEP_RETENTION_INVALID", "42601"):
        spark.sql(f"VACUUM DROPPED TABLES RETAIN {2**62} HOURS")
    begin(spark)
    with refused("LAKESTEP_TRANSACTION_ALREADY_ACTIVE", "25001"):
        spark.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS")
    spark.sql("UNDROP TABLE t")
    commit(spark)
    assert value(spark, "t") == [1]
