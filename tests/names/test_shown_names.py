"""What a user is told of names inside a transaction: nowhere the path of an overlay."""

import contextlib
from pathlib import Path

import pytest

from name_steps import make, names
from transactions import begin, commit, condition_of, refused, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]

OVERLAY = "lakestep://"

STATEMENTS = (
    "DESCRIBE EXTENDED {}",
    "DESCRIBE FORMATTED {}",
    "DESCRIBE DETAIL {}",
    "DESCRIBE HISTORY {}",
    "SHOW TBLPROPERTIES {}",
    "SHOW COLUMNS IN {}",
)


def rows(spark, statement):
    return [tuple(row) for row in spark.sql(statement).collect()]


@pytest.fixture
def told(spark, other, schema, tmp_path):
    """Names that an open transaction has made or changed, and where each lies, if that is known."""
    external = f"LOCATION '{tmp_path}/external'"
    spark.sql(f"CREATE TABLE external (id INT) USING delta {external}")
    make(spark, "renamed", 1)
    begin(spark)
    spark.sql("ALTER TABLE external ADD COLUMN more INT COMMENT 'm'")
    spark.sql("ALTER TABLE renamed RENAME TO kept")
    spark.sql("CREATE TABLE made (v INT) USING delta TBLPROPERTIES ('mine' = 'yes')")
    spark.sql(f"CREATE TABLE placed (v INT) USING delta LOCATION '{tmp_path}/placed'")
    spark.sql("CREATE TABLE cloned SHALLOW CLONE made")
    spark.sql("CREATE VIEW seen (n COMMENT 'of it') AS SELECT id FROM external")
    return {
        "external": f"file:{tmp_path}/external",
        "kept": None,
        "made": None,
        "placed": f"file:{tmp_path}/placed",
        "cloned": None,
        f"delta.`{tmp_path}/external`": f"file:{tmp_path}/external",
    }


def test_statements_show_the_table_s_own_place(spark, told):
    for name, place in told.items():
        for statement in STATEMENTS:
            shown = rows(spark, statement.format(name))
            assert shown and OVERLAY not in str(shown), (statement, name)
        about = dict(row[:2] for row in rows(spark, f"DESCRIBE EXTENDED {name}"))
        assert about["Location"] == (place or about["Location"])
        assert about["Table"] == (name if "`" not in name else place)
    assert ("mine", "yes") in rows(spark, "SHOW TBLPROPERTIES made")
    assert rows(spark, "SHOW COLUMNS IN external") == [("id",), ("more",)]
    listed = rows(spark, "SHOW TABLE EXTENDED LIKE '*'")
    assert OVERLAY not in str(listed)
    # Temporary views of other tests are in no schema.
    assert {row[1] for row in listed if row[0]} == {
        "external",
        "kept",
        "made",
        "placed",
        "cloned",
        "seen",
    }


def test_what_spark_does_not_tell_of_delta_tables_it_does_not_tell_inside(spark, told):
    for statement in ("SHOW CREATE TABLE {}", "DESCRIBE TABLE EXTENDED {} AS JSON"):
        with pytest.raises(Exception) as inside:
            spark.sql(statement.format("external"))
        with pytest.raises(Exception) as outside:
            spark.newSession().sql(statement.format(next(reversed(told))))
        assert condition_of(inside.value) == condition_of(outside.value) is not None


def test_the_text_of_show_create_table_makes_an_equal_view(spark, told):
    (text,) = rows(spark, "SHOW CREATE TABLE seen")[0]
    assert OVERLAY not in text
    before = rows(spark, "DESCRIBE seen")
    spark.sql("DROP VIEW seen")
    spark.sql(text)
    assert rows(spark, "DESCRIBE seen") == before == [("n", "int", "of it")]
    assert rows(spark, "SHOW CREATE TABLE seen") == [(text,)]
    assert '"view_text"' in rows(spark, "DESCRIBE TABLE EXTENDED seen AS JSON")[0][0]


def test_errors_of_files_name_the_table_s_own(spark, told, tmp_path):
    with refused("TASK_WRITE_FAILED") as written:
        spark.sql("INSERT INTO placed SELECT CAST(raise_error('stop') AS INT)")
    assert f"file:{tmp_path}/placed" in str(written.value)
    spark.sql("INSERT INTO placed VALUES (1)")
    for file in Path(tmp_path, "placed").glob("*.parquet"):
        file.unlink()
    with refused("FAILED_READ_FILE") as read:
        spark.sql("SELECT * FROM placed").collect()
    assert f"file:{tmp_path}/placed/part" in str(read.value)
    for failure in (written, read):
        assert OVERLAY not in str(failure.value).split("\n\tat ")[0]


def history(spark, name):
    return str(rows(spark, f"DESCRIBE HISTORY {name}"))


def test_what_is_stored_names_no_overlay(spark, told):
    spark.sql("INSERT INTO cloned VALUES (1)")
    commit(spark)
    for name in told:
        assert OVERLAY not in history(spark, name)
        assert OVERLAY not in str(rows(spark, f"DESCRIBE EXTENDED {name}"))


HALF = (
    "CREATE TABLE n USING delta AS SELECT {}",
    "CREATE OR REPLACE TABLE t USING delta AS SELECT {}",
    "CREATE OR REPLACE TABLE n USING delta AS SELECT {}",
    "REPLACE TABLE t USING delta AS SELECT {}",
    "INSERT OVERWRITE t SELECT {}",
)


def save(mode):
    def step(spark, query):
        spark.sql(query).write.format("delta").mode(mode).saveAsTable("t")

    return step


@pytest.mark.parametrize("step", [*HALF, save("overwrite"), save("append")])
def test_what_fails_in_the_middle_is_as_if_never_said(spark, other, schema, step):
    make(spark, "t", 1)
    begin(spark)
    make(spark, "u", 2)
    spark.sql("INSERT INTO t VALUES (3)")
    failing = "CAST(raise_error('half way') AS INT) AS v"
    with refused("TASK_WRITE_FAILED"):
        if callable(step):
            step(spark, f"SELECT {failing}")
        else:
            spark.sql(step.format(failing))
    assert names(spark) == ["t", "u"]
    assert sorted(rows(spark, "SELECT v FROM t")) == [(1,), (3,)]
    spark.sql("INSERT INTO t VALUES (4)")
    commit(spark)
    assert names(other) == ["t", "u"]
    assert sorted(rows(other, "SELECT v FROM t")) == [(1,), (3,), (4,)]
    assert rows(other, "SELECT v FROM u") == [(2,)]


def test_a_folder_that_holds_something_else_is_not_taken(spark, other, schema, tmp_path):
    place = tmp_path / "taken"
    spark.range(3).write.parquet(str(place))
    files = sorted(place.iterdir())
    begin(spark)
    with pytest.raises(Exception) as raised:
        spark.sql(f"CREATE TABLE t (id BIGINT) USING delta LOCATION '{place}'")
    assert condition_of(raised.value) == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
    assert f"{place}" in str(raised.value) and "lakestep://" not in str(raised.value)
    other.sql(f"CREATE TABLE delta.`{tmp_path}/table` (v INT) USING delta")
    for attempt, condition in (
        (
            lambda: spark.range(1).write.format("delta").save(f"{tmp_path}/table"),
            "DELTA_PATH_EXISTS",
        ),
        (
            lambda: spark.sql(f"CREATE TABLE t (x INT) USING delta LOCATION '{tmp_path}/table'"),
            "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
        ),
    ):
        with pytest.raises(Exception) as raised:
            attempt()
        assert condition_of(raised.value) == condition
        assert f"{tmp_path}/table" in str(raised.value)
        assert "lakestep://" not in str(raised.value)
    assert names(spark) == []
    commit(spark)
    assert sorted(place.iterdir()) == files


def test_files_of_others_in_a_new_folder_outlive_a_rollback(spark, other, schema, tmp_path):
    place = tmp_path / "shared"
    begin(spark)
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{place}' AS SELECT 1 AS v")
    other.range(2).write.parquet(str(place / "theirs"))
    (place / "note.txt").write_text("mine")
    theirs = sorted(p for p in (place / "theirs").iterdir())
    rollback(spark)
    assert sorted((place / "theirs").iterdir()) == theirs
    assert (place / "note.txt").read_text() == "mine"
    assert list(place.glob("*.parquet")) == [] and names(spark) == []


@pytest.mark.parametrize("is_new", [False, True], ids=["of before", "made inside"])
def test_a_view_over_a_table_that_is_dropped_later_is_a_view_of_nothing(
    spark, other, schema, is_new
):
    if not is_new:
        make(spark, "t", 1)
    begin(spark)
    if is_new:
        make(spark, "t", 1)
    spark.sql("CREATE VIEW w AS SELECT v FROM t")
    assert rows(spark, "SELECT * FROM w") == [(1,)]
    spark.sql("DROP TABLE t")
    with refused("TABLE_OR_VIEW_NOT_FOUND", "42P01"):
        spark.sql("SELECT * FROM w")
    assert names(spark) == ["w"]
    commit(spark)
    for session in (spark, other):
        assert names(session) == ["w"]
        with refused("TABLE_OR_VIEW_NOT_FOUND", "42P01"):
            session.sql("SELECT * FROM w")
    if is_new:
        make(spark, "t", 2)
    else:
        other.sql("UNDROP TABLE t")
    for session in (spark, other):
        assert rows(session, "SELECT * FROM w") == [(2 if is_new else 1,)]


def test_names_that_differ_in_case_only_are_one(spark, other, schema):
    begin(spark)
    make(spark, "Mixed", 1)
    with refused("TABLE_OR_VIEW_ALREADY_EXISTS"):
        make(spark, "mIXED", 2)
    spark.sql("CREATE VIEW Seen AS SELECT v FROM MIXED")
    with refused("TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("CREATE VIEW sEEN AS SELECT 1 AS v")
    spark.sql(f"CREATE SCHEMA {schema}_Case")
    with refused("SCHEMA_ALREADY_EXISTS"):
        spark.sql(f"CREATE SCHEMA {schema}_cASE")
    spark.sql(f"DROP SCHEMA {schema}_CASE")
    commit(spark)
    assert names(other) == ["mixed", "seen"]
    assert rows(other, "SELECT * FROM SEEN") == [(1,)]


HOSTILE = ("wi th", "a'b", "a/b", "../a", "\U0001f600", "a\tb", "a\u0000b")


@pytest.mark.parametrize("statement", ["CREATE SCHEMA {}", "CREATE VIEW {} AS SELECT 1 AS v"])
def test_hostile_names_are_refused_as_outside(spark, other, schema, statement):
    begin(spark)
    before = rows(spark, "SHOW SCHEMAS")
    for name in HOSTILE:
        conditions = []
        for session in (spark, other):
            with pytest.raises(Exception) as raised:
                session.sql(statement.format(f"`{name}`"))
            conditions.append(condition_of(raised.value))
        assert conditions[0] == conditions[1], name
        # Spark takes a name with dots apart before it looks at it.
        assert conditions[0] in (
            "INVALID_SCHEMA_OR_RELATION_NAME",
            "INVALID_ATTRIBUTE_NAME_SYNTAX",
        )
    assert names(spark) == [] and rows(spark, "SHOW SCHEMAS") == before
    commit(spark)


def test_a_temporary_view_of_a_table_that_was_taken_back_is_a_clear_error(spark, other, schema):
    begin(spark)
    spark.sql("SAVEPOINT s")
    make(spark, "t", 1)
    spark.sql("CREATE TEMPORARY VIEW later AS SELECT v FROM t")
    spark.sql("ROLLBACK TO s")
    with contextlib.ExitStack() as stack:
        stack.callback(spark.sql, "DROP VIEW later")
        with refused("TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql("SELECT * FROM later").collect()
        make(spark, "t", 2)
        commit(spark)
        assert rows(spark, "SELECT * FROM later") == [(2,)]


@pytest.fixture
def foreign_catalog(spark, tmp_path):
    """A catalog that is not Lakestep's, of a metastore that Spark does not know as its own."""
    spark.conf.set(
        "spark.sql.catalog.foreign",
        "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    )
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    spark.conf.set("spark.sql.catalog.foreign.url", url)
    spark.conf.set("spark.sql.catalog.foreign.driver", "org.apache.derby.jdbc.EmbeddedDriver")


@pytest.mark.usefixtures("foreign_catalog")
def test_names_of_a_catalog_that_is_not_ours_are_refused_and_data_are_not(spark, schema, tmp_path):
    spark.sql("CREATE NAMESPACE foreign.s")
    spark.sql("CREATE TABLE foreign.s.t (v INT)")
    spark.sql(f"CREATE TABLE rows (v INT) USING delta LOCATION '{tmp_path}/rows'")
    begin(spark)
    for statement in (
        "CREATE TABLE foreign.s.u (v INT)",
        "CREATE TABLE foreign.s.u AS SELECT 1 AS v",
        "DROP TABLE foreign.s.t",
        "ALTER TABLE foreign.s.t RENAME TO s.u",
        "CREATE NAMESPACE foreign.other",
        "DROP NAMESPACE foreign.s",
        "INSERT INTO foreign.s.t VALUES (1)",
    ):
        with refused("LAKESTEP_UNSUPPORTED_IN_TRANSACTION", "0A000") as failure:
            spark.sql(statement)
        assert "before BEGIN" in str(failure.value), statement
    assert rows(spark, "SELECT * FROM foreign.s.t") == []
    spark.sql(f"INSERT INTO delta.`{tmp_path}/rows` SELECT 1 AS v")
    commit(spark)
    assert rows(spark, "SELECT * FROM rows") == [(1,)]
    assert rows(spark, "SHOW TABLES IN foreign.s") == [("s", "t", False)]
    spark.sql("DROP TABLE foreign.s.t")
