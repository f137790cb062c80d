"""Logs that others make anew, or checkpoint, beside our transactions."""

import pytest
from pyspark.errors import PySparkException

from transactions import is_one_of

pytestmark = pytest.mark.sliced

ROWS = [(1, "a"), (2, "b")]


def insert(session, name, number):
    session.sql(f"BEGIN; INSERT INTO {name} VALUES ({number}, 'x'); COMMIT")


def recreate(session, name):
    session.sql(f"DROP TABLE {name}")
    session.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")


def test_table_that_was_dropped_and_created_again_is_written_as_any_other(
    spark, other_session, table, rows
):
    name = table("again")
    for number in (3, 4):
        insert(spark, name, number)
    recreate(other_session, name)
    insert(spark, name, 5)
    insert(other_session, name, 6)
    assert rows(spark, name) == [(5, "x"), (6, "x")]
    spark.sql("BEGIN")
    assert rows(spark, name) == [(5, "x"), (6, "x")]
    spark.sql("ROLLBACK")


def test_table_that_is_created_again_under_a_transaction_is_a_conflict(
    spark, other_session, table, rows
):
    name, beside = table("under"), table("beside")
    insert(spark, name, 3)
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {name} VALUES (4, 'x')")
    spark.sql(f"INSERT INTO {beside} VALUES (4, 'x')")
    recreate(other_session, name)
    for _ in range(3):
        other_session.sql(f"INSERT INTO {name} VALUES (9, 'z')")
    with pytest.raises(PySparkException) as raised:
        spark.sql("COMMIT")
    assert is_one_of(raised.value.getCondition(), "LAKESTEP_CONFLICT")
    spark.sql("ROLLBACK")
    assert rows(spark, name) == [(9, "z")] * 3
    assert rows(spark, beside) == ROWS
    insert(spark, beside, 5)
    insert(spark, name, 5)
    assert len(rows(spark, name)) == 4


def test_commit_over_a_checkpoint_of_other_transactions_is_no_conflict(
    spark, other_session, table, rows
):
    name = table("checkpointed")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {name} VALUES (99, 'x')")
    for number in range(3, 15):
        insert(other_session, name, number)
    spark.sql("COMMIT")
    assert len(rows(spark, name)) == 15
    assert (99, "x") in rows(spark, name)


def replaced(session, name, column):
    """Drop a table of one version and make another one of one version."""
    session.sql(f"DROP TABLE {name}")
    session.sql(f"CREATE TABLE {name} USING delta AS SELECT 7 AS id, 'new' AS {column}")


def is_gone(error):
    assert is_one_of(error.value.getCondition(), "LAKESTEP_CONFLICT")
    return error.value.getMessageParameters()["rule"] == "table-is-gone"


@pytest.mark.parametrize("level", ["SNAPSHOT", "SERIALIZABLE"])
def test_table_that_is_created_again_after_it_was_read_is_not_written(
    spark, other_session, table, rows, plain, level
):
    name, beside = table("read_first", rows=()), table("read_beside")
    spark.sql(f"BEGIN ISOLATION LEVEL {level}")
    assert rows(spark, name) == []
    replaced(other_session, name, "w")
    spark.sql(f"INSERT INTO {beside} VALUES (4, 'x')")
    # The names and types are those of now: nothing but the table itself tells.
    spark.sql(f"INSERT INTO {name} VALUES (8, 'x')")
    with pytest.raises(PySparkException) as raised:
        spark.sql("COMMIT")
    assert is_gone(raised)
    spark.sql("ROLLBACK")
    assert rows(spark, beside) == ROWS
    insert(spark, name, 8)
    where = spark.sql(f"DESCRIBE DETAIL {name}").first()["location"]
    told = plain.ask("sql", text=f"SELECT id, w FROM delta.`{where}` ORDER BY id")
    assert told == ['[7, "new"]', '[8, "x"]']


@pytest.mark.parametrize("before", [[], ROWS])
@pytest.mark.parametrize("modes", ["", "READ ONLY"])
def test_table_that_is_created_again_is_not_read_on(
    spark, other_session, table, rows, modes, before
):
    name, beside = table("read_on", rows=before), table("read_on_beside")
    spark.sql(f"BEGIN {modes}")
    assert rows(spark, name) == before
    assert rows(spark, beside) == ROWS
    replaced(other_session, name, "v")
    with pytest.raises(PySparkException) as raised:
        rows(spark, name)
    assert is_gone(raised)
    assert rows(spark, beside) == ROWS
    spark.sql("ROLLBACK")
    assert rows(spark, name) == [(7, "new")]


def test_tables_that_change_their_names_are_written_as_before(spark, table, rows):
    name, fresh = table("swapped"), table("swapped_new")
    for each in (name, fresh):
        insert(spark, each, 3)
    spark.sql(f"ALTER TABLE {name} RENAME TO swapped_old")
    spark.sql(f"ALTER TABLE {fresh} RENAME TO {name}")
    try:
        insert(spark, "swapped_old", 4)
        insert(spark, name, 5)
        assert rows(spark, "swapped_old") == [*ROWS, (3, "x"), (4, "x")]
        assert rows(spark, name) == [*ROWS, (3, "x"), (5, "x")]
    finally:
        spark.sql("DROP TABLE swapped_old")
