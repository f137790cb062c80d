"""Names that several clients change: what a transaction has met stays, or COMMIT conflicts."""

from typing import Any

import pytest

from name_steps import conflicting, make, names, value
from transactions import abandon, begin, commit, condition_of, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


@pytest.mark.parametrize("isolation", ["SNAPSHOT", "SERIALIZABLE"])
def test_of_two_that_make_one_name_the_second_conflicts(spark, other, schema, isolation):
    for session, number in ((spark, 1), (other, 2)):
        session.sql(f"BEGIN ISOLATION LEVEL {isolation}")
        make(session, "t", number)
        assert value(session, "t") == [number]
    commit(other)
    conflicting(spark, f"`{schema}`.`t`", "CREATE TABLE")
    assert value(spark, "t") == value(other, "t") == [2]


def test_rows_for_a_table_that_was_dropped_conflict_and_say_who_did_it(spark, other, schema):
    make(spark, "t", 1)
    begin(spark)
    spark.sql("INSERT INTO t VALUES (2)")
    dropped = begin(other)
    other.sql("DROP TABLE t")
    commit(other)
    conflicting(spark, "DROP TABLE", dropped)
    assert names(spark) == []


def test_rows_that_come_before_the_drop_go_with_the_table(spark, other, schema):
    make(spark, "t", 1)
    begin(other)
    other.sql("DROP TABLE t")
    begin(spark)
    spark.sql("INSERT INTO t VALUES (2)")
    commit(spark)
    commit(other)
    assert names(spark) == names(other) == []


def test_rows_for_a_table_that_was_renamed_conflict(spark, other, schema):
    make(spark, "t", 1)
    begin(spark)
    spark.sql("DELETE FROM t")
    begin(other)
    other.sql("ALTER TABLE t RENAME TO u")
    commit(other)
    conflicting(spark)
    assert value(spark, "u") == [1]


def test_a_read_of_what_was_dropped_conflicts_where_reads_count(spark, other, schema):
    make(spark, "t", 1)
    make(spark, "u", 1)
    for isolation, fails in (("SNAPSHOT", False), ("SERIALIZABLE", True)):
        spark.sql(f"BEGIN ISOLATION LEVEL {isolation}")
        spark.sql("INSERT INTO u SELECT v FROM t")
        begin(other)
        other.sql("ALTER TABLE t RENAME TO moved")
        commit(other)
        if fails:
            conflicting(spark)
        else:
            commit(spark)
        begin(other)
        other.sql("ALTER TABLE moved RENAME TO t")
        commit(other)
    assert value(spark, "u") == [1, 1]


def test_a_name_keeps_its_meaning_while_a_transaction_is_open(spark, other, schema):
    for name, number in (("a", 1), ("b", 2), ("gone", 3)):
        make(spark, name, number)
    begin(spark)
    begin(other)
    other.sql("ALTER TABLE a RENAME TO c")
    other.sql("ALTER TABLE b RENAME TO a")
    other.sql("ALTER TABLE c RENAME TO b")
    other.sql("DROP TABLE gone")
    make(other, "new", 4)
    other.sql("CREATE VIEW w AS SELECT v FROM a")
    commit(other)
    assert names(spark) == ["a", "b", "gone"]
    assert [value(spark, name) for name in ("a", "b", "gone")] == [[1], [2], [3]]
    assert not spark.catalog.tableExists("new")
    with refused("TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM w")
    commit(spark)
    assert names(spark) == ["a", "b", "new", "w"]
    assert [value(spark, name) for name in ("a", "b", "new", "w")] == [[2], [1], [4], [2]]


def test_a_name_that_somebody_without_a_transaction_makes_first_conflicts(spark, other, schema):
    begin(spark)
    make(spark, "t", 1)
    make(other, "t", 2)
    conflicting(spark)
    assert value(spark, "t") == [2]


def test_a_schema_conflicts_with_what_is_made_inside(spark, other, schema):
    for first, second in (
        (f"DROP SCHEMA {schema}_s CASCADE", f"CREATE TABLE {schema}_s.t (v INT) USING delta"),
        (f"CREATE TABLE {schema}_s.t (v INT) USING delta", f"DROP SCHEMA {schema}_s CASCADE"),
        (f"CREATE VIEW {schema}_s.w AS SELECT 1 AS v", f"DROP SCHEMA {schema}_s CASCADE"),
    ):
        spark.sql(f"CREATE SCHEMA {schema}_s")
        begin(spark)
        begin(other)
        spark.sql(second)
        other.sql(first)
        commit(other)
        conflicting(spark)
        spark.sql(f"DROP SCHEMA IF EXISTS {schema}_s CASCADE")


def test_names_of_a_failed_commit_are_as_they_were(spark, other, schema):
    make(spark, "t", 1)
    begin(spark)
    spark.sql("ALTER TABLE t RENAME TO u")
    make(spark, "n", 5)
    spark.sql("UPDATE u SET v = 7")
    other.sql("UPDATE t SET v = 8")
    with refused("LAKESTEP_CONFLICT"):
        spark.sql("COMMIT")
    abandon(spark)
    assert names(spark) == names(other) == ["t"]
    assert value(spark, "t") == [8]


def test_two_tables_that_change_places_are_never_seen_as_one(spark, other, schema):
    make(spark, "a", 1)
    make(spark, "b", 2)
    query = "SELECT a.v, b.v FROM a CROSS JOIN b"
    for turn in range(6):
        reader = other if turn % 2 else spark.newSession()
        reader.sql(f"USE {schema}")
        begin(spark)
        spark.sql("ALTER TABLE a RENAME TO c")
        spark.sql("ALTER TABLE b RENAME TO a")
        spark.sql("ALTER TABLE c RENAME TO b")
        seen = [tuple(row) for row in reader.sql(query).collect()]
        assert seen == [(1, 2) if turn % 2 == 0 else (2, 1)]
        commit(spark)
        assert [tuple(row) for row in reader.sql(query).collect()] == [seen[0][::-1]]


def dropped(spark, schema):
    rows = spark.sql("SHOW DROPPED TABLES").collect()
    return [row["table"] for row in rows if row["schema"] == schema]


def test_undrop_brings_the_table_back_that_was_dropped_last(spark, other, schema):
    make(spark, "t", 1)
    with refused("LAKESTEP_NO_DROPPED_TABLE", "42P01"):
        spark.sql("UNDROP TABLE t_nothing")
    with refused("TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("UNDROP TABLE t")
    for number in (2, 3):
        begin(spark)
        spark.sql("DROP TABLE t")
        make(spark, "t", number)
        commit(spark)
    begin(spark)
    spark.sql("DROP TABLE t")
    spark.sql("UNDROP TABLE t")
    assert value(spark, "t") == [3]
    spark.sql("DROP TABLE t")
    commit(spark)
    assert dropped(other, schema) == ["t", "t", "t"]
    other.sql(f"UNDROP TABLE {schema}.t")
    assert value(spark, "t") == value(other, "t") == [3]
    assert dropped(spark, schema) == ["t", "t"]

    begin(spark)
    spark.sql("ALTER TABLE t RENAME TO u")
    spark.sql("UNDROP TABLE t")
    assert (value(spark, "t"), value(spark, "u")) == ([2], [3])
    assert names(other) == ["t"]
    rollback(spark)
    assert names(spark) == ["t"]
    assert dropped(spark, schema) == ["t", "t"]


def test_undrop_brings_back_what_the_transaction_has_dropped_last(spark, schema):
    make(spark, "t", 1)
    make(spark, "u", 2)
    begin(spark)
    spark.sql("DROP TABLE t")
    commit(spark)
    begin(spark)
    make(spark, "t", 3)
    spark.sql("DROP TABLE t")
    spark.sql("UNDROP TABLE t")
    assert value(spark, "t") == [3]
    spark.sql("DROP TABLE t")
    spark.sql("ALTER TABLE u RENAME TO t")
    spark.sql("SAVEPOINT s")
    spark.sql("DROP TABLE t")
    spark.sql(f"UNDROP TABLE spark_catalog.{schema}.t")
    assert value(spark, "t") == [2]
    spark.sql("ROLLBACK TO s")
    for name in (f"elsewhere.{schema}.t", f"spark_catalog.a.{schema}.t"):
        with refused("LAKESTEP_NO_DROPPED_TABLE", "42P01"):
            spark.sql(f"UNDROP TABLE {name}")
    spark.sql(f"ALTER TABLE {schema.upper()}.t RENAME TO {schema}.w")
    commit(spark)
    assert names(spark) == ["w"] and value(spark, "w") == [2]


def test_of_two_that_bring_a_table_back_one_does(spark, other, schema):
    make(spark, "t", 1)
    begin(spark)
    spark.sql("DROP TABLE t")
    commit(spark)
    begin(spark)
    begin(other)
    spark.sql("UNDROP TABLE t")
    other.sql("UNDROP TABLE t")
    commit(other)
    conflicting(spark)
    spark.sql("BEGIN READ ONLY")
    with refused("LAKESTEP_READ_ONLY_TRANSACTION"):
        spark.sql("UNDROP TABLE t2")
    rollback(spark)
    assert value(spark, "t") == [1]
    # What was dropped outside a transaction is Spark's to delete.
    spark.sql("DROP TABLE t")
    with refused("LAKESTEP_NO_DROPPED_TABLE"):
        spark.sql("UNDROP TABLE t")


def test_bad_input_changes_nothing_and_the_transaction_goes_on(spark, other, schema):
    make(spark, "t", 1)
    begin(spark)
    make(spark, "u", 2)
    spark.sql(f"CREATE SCHEMA {schema}_s")
    spark.sql(f"CREATE VIEW {schema}_s.w AS SELECT 1 AS v")
    for statement, condition in (
        (f"DROP SCHEMA {schema}_s", "LAKESTEP_SCHEMA_NOT_EMPTY"),
        (f"ALTER TABLE t RENAME TO {schema}_s.t", "LAKESTEP_RENAME_TO_OTHER_SCHEMA"),
        ("ALTER TABLE t RENAME TO u", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE TABLE t (v INT) USING delta", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("DROP TABLE nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("DROP VIEW t", None),
        ("DROP SCHEMA nothing", "SCHEMA_NOT_FOUND"),
        (f"CREATE SCHEMA {schema}_s", "SCHEMA_ALREADY_EXISTS"),
        ("CREATE TABLE nothing.t (v INT) USING delta", "SCHEMA_NOT_FOUND"),
        ("REPLACE TABLE nothing (v INT) USING delta", "TABLE_OR_VIEW_NOT_FOUND"),
        ("CREATE VIEW t AS SELECT 1 AS v", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE VIEW w AS SELECT * FROM nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("CREATE TABLE `../t` (v INT) USING delta", "LAKESTEP_NAME_IS_NO_FOLDER"),
        ("CREATE TABLE `a\u0000b` (v INT) USING delta", "LAKESTEP_NAME_IS_NO_FOLDER"),
        ("CREATE TABLE `a``b` (v INT) USING delta", "INVALID_ATTRIBUTE_NAME_SYNTAX"),
        ("CREATE VIEW `a``b` AS SELECT 1 AS v", "INVALID_ATTRIBUTE_NAME_SYNTAX"),
        ("CREATE SCHEMA `../s`", "INVALID_ATTRIBUTE_NAME_SYNTAX"),
        ("CREATE SCHEMA `a\u0000b`", "INVALID_SCHEMA_OR_RELATION_NAME"),
        ("CREATE TABLE T (v INT) USING delta", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("ALTER TABLE t RENAME TO T", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        *(
            (f"ALTER TABLE t RENAME TO `{name}`", "INVALID_SCHEMA_OR_RELATION_NAME")
            for name in ("a\u0000b", "wi th", "a'b", "a``b", "a.b", "../t", "\U0001f600")
        ),
        (f"CREATE SCHEMA {schema.upper()}_S", "SCHEMA_ALREADY_EXISTS"),
    ):
        with pytest.raises(Exception) as raised:
            spark.sql(statement)
        failure: Any = raised.value
        found = condition_of(failure)
        assert found is not None and found == (condition or found), statement
        assert len(failure.getSqlState()) == 5, statement
    assert names(spark) == ["t", "u"]
    commit(spark)
    assert names(other) == ["t", "u"]
    assert (value(other, "t"), value(other, "u")) == ([1], [2])
    spark.sql(f"DROP SCHEMA {schema}_s CASCADE")


def test_odd_names_are_names_or_leave_nothing(spark, other, schema):
    odd = ["x" * 200, "select", "T_1", "1"]
    begin(spark)
    for number, name in enumerate(odd):
        make(spark, f"`{name}`", number)
    for name in ("wi th", "a'b", "a.b", "a/b", "../a", "\U0001f600", "a\tb"):
        with pytest.raises(Exception) as raised:
            make(spark, f"`{name}`", 0)
        failure: Any = raised.value
        assert failure.getSqlState() == "42602", name
    assert [value(spark, f"`{name}`") for name in odd] == [[n] for n in range(len(odd))]
    assert names(other) == []
    commit(spark)
    assert names(other) == sorted(name.lower() for name in odd)
    assert [value(other, f"`{name}`") for name in odd] == [[n] for n in range(len(odd))]


def test_a_table_that_others_make_later_is_not_there_yet(spark, other, schema):
    begin(spark)
    begin(other)
    make(other, "later", 1)
    make(other, "swapped", 1)
    commit(other)
    for _ in range(2):
        with refused("TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql("SELECT * FROM later")
    with refused("TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("INSERT INTO swapped VALUES (2)")
    assert names(spark) == []
    commit(spark)
    assert value(spark, "later") == [1]


BOTH = "SELECT (SELECT count(*) FROM few), (SELECT count(*) FROM t)"


@pytest.fixture
def few(spark, other, schema):
    """A view of one of the two rows of `t`; what changes it and the table in one transaction."""
    spark.sql("CREATE TABLE t USING delta AS SELECT explode(array(1, 2)) AS v")
    begin(other)
    other.sql("CREATE VIEW few AS SELECT v FROM t WHERE v < 2")
    commit(other)

    def change():
        begin(other)
        other.sql("CREATE OR REPLACE VIEW few AS SELECT v FROM t")
        other.sql("INSERT INTO t VALUES (3)")
        commit(other)

    return change


def only(frame):
    (row,) = frame.collect()
    return tuple(row)


def test_rows_of_a_query_are_those_of_its_names(spark, few):
    first = spark.sql(BOTH)
    again = spark.sql(BOTH)
    few()
    assert only(first) == (1, 2)
    assert only(again.select("*")) == (1, 2)
    # What a DataFrame's names stand for stays; it has shown the rows that belong to them.
    assert only(again.select("*")) == (1, 3)
    assert only(spark.sql(BOTH)) == (3, 3)


def test_rows_do_not_go_back_behind_what_the_session_has_read(spark, few):
    made = spark.sql(BOTH)
    few()
    assert len(value(spark, "t")) == 3
    assert only(made) == (1, 3)


def test_what_is_written_from_a_query_belongs_to_its_names(spark, few):
    made = spark.sql(BOTH).toDF("few", "t")
    few()
    made.write.format("delta").saveAsTable("counted")
    assert only(spark.table("counted")) == (1, 2)
