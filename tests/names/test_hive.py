"""Names in a Hive metastore (Derby), which a driver leaves behind when it is killed."""

import pytest

from driver import TIMEOUT_S, DriverError
from name_steps import names
from process import Died

SETUP = (
    "CREATE SCHEMA s",
    "CREATE TABLE s.a USING delta AS SELECT 1 AS v",
    "CREATE TABLE s.b USING delta AS SELECT 2 AS v",
    "CREATE TABLE s.x USING delta AS SELECT 3 AS v",
    "CREATE TABLE s.y USING delta AS SELECT 4 AS v",
    "CREATE VIEW s.old AS SELECT 1 AS v",
    "CREATE SCHEMA gone",
)

CHANGES = (
    "DROP TABLE s.a",
    "ALTER TABLE s.b RENAME TO s.c",
    "ALTER TABLE s.x RENAME TO s.z",
    "ALTER TABLE s.y RENAME TO s.x",
    "ALTER TABLE s.z RENAME TO s.y",
    "CREATE TABLE s.n (v INT COMMENT 'c') USING delta COMMENT 'new' TBLPROPERTIES ('mine' = 'yes')",
    "INSERT INTO s.n VALUES (5)",
    "CREATE VIEW s.w AS SELECT v + 1 AS v FROM s.n",
    "CREATE OR REPLACE VIEW s.old AS SELECT 9 AS v",
    "CREATE SCHEMA made COMMENT 'a schema'",
    "CREATE TABLE made.t USING delta AS SELECT 7 AS v",
    "DROP SCHEMA gone",
)

BEFORE = {"s.a": [1], "s.b": [2], "s.x": [3], "s.y": [4], "s.old": [1]}
AFTER = {
    "s.c": [2],
    "s.x": [4],
    "s.y": [3],
    "s.n": [5],
    "s.w": [6],
    "s.old": [9],
    "made.t": [7],
}


def seen(spark):
    """All tables and views with their rows, and the schemas."""
    schemas = [row[0] for row in spark.sql("SHOW SCHEMAS").collect()]
    tables = {
        f"{schema}.{table}": [
            one[0] for one in spark.sql(f"SELECT * FROM {schema}.{table}").collect()
        ]
        for schema in schemas
        for table in names(spark, schema)
    }
    return {"tables": tables, "schemas": sorted(schemas)}


@pytest.fixture
def start(pool, tmp_path):
    """Start a driver on the metastore; Derby lets one in at a time."""
    started = []

    def one(**more):
        place = f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
        driver = pool.start(
            {
                "spark.sql.catalogImplementation": "hive",
                "spark.hadoop.javax.jdo.option.ConnectionURL": place,
                **more,
            }
        )
        started.append(driver)
        return driver, driver.session(tmp_path / "timeline")

    yield one
    for driver in started:
        driver.kill()


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("step", "happens"),
    [
        pytest.param("beforeOrder:1", False, marks=pytest.mark.long),
        pytest.param("ordered:1", True, marks=pytest.mark.long),
        pytest.param("decided:1", True, marks=pytest.mark.long),
        ("beforeNames:1", True),
        pytest.param("namesMade:1", True, marks=pytest.mark.long),
    ],
)
def test_the_next_driver_makes_the_names_that_a_killed_one_owes(start, step, happens):
    driver, session = start()
    session.sql(*SETUP)
    # A path inside a transaction, which Spark's analyzer for Hive would not lead to the overlay.
    assert session.call("test_hive:by_path") == 1
    session.sql("BEGIN", *CHANGES)
    assert session.call("test_hive:seen")["tables"] == AFTER
    session.sql("ROLLBACK")
    assert session.call("test_hive:seen")["tables"] == BEFORE
    with driver.halts(step) as halts:
        commit = session.start_sql("BEGIN", *CHANGES, "COMMIT")
        halts.during(commit)
        assert halts.reached() == step
        driver.kill()
    with pytest.raises(Died):
        commit.result(TIMEOUT_S)

    _, session = start()
    session.sql("BEGIN", "COMMIT")
    found = session.call("test_hive:seen")
    assert found["tables"] == (AFTER if happens else BEFORE)
    assert found["schemas"] == sorted(["default", "s", "made" if happens else "gone"])
    if happens:
        # What was dropped has kept its rows, and what was made is as in any session of Spark.
        session.sql("INSERT INTO s.n VALUES (6)", "DROP TABLE made.t", "DROP SCHEMA made")
        assert session.sql("SELECT v FROM s.n ORDER BY v") == [(5,), (6,)]


def test_names_are_refused_where_the_metastore_is_glue_and_rows_are_not(start):
    # Spark's own client of Hive heeds no factory, so behind this is Derby.
    glue = "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory"
    _, session = start(**{"spark.hadoop.hive.metastore.client.factory.class": glue})
    session.sql(*SETUP, "BEGIN")
    for statement in (*CHANGES[:2], CHANGES[5], *CHANGES[8:10], CHANGES[11]):
        with pytest.raises(DriverError) as refused:
            session.sql(statement)
        assert refused.value.condition == "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.GLUE", statement
    session.sql("UPDATE s.a SET v = 9", "COMMIT")
    assert session.call("test_hive:seen")["tables"] == {**BEFORE, "s.a": [9]}


def test_hive_has_one_spelling_of_a_name(start):
    _, session = start()
    session.sql(*SETUP, "SET spark.sql.caseSensitive = true", "BEGIN")
    refused = "LAKESTEP_UNSUPPORTED_IN_TRANSACTION.CASE_SENSITIVE"
    spelled = ("CREATE TABLE s.N (v INT) USING delta", "ALTER TABLE s.b RENAME TO s.C")
    for statement in (*spelled, "DROP TABLE s.A"):
        with pytest.raises(DriverError) as raised:
            session.sql(statement)
        assert raised.value.condition == refused, statement
    session.sql("CREATE TABLE s.lower (v INT) USING delta", "DROP TABLE s.lower")
    session.sql("UPDATE s.a SET v = 9", "COMMIT", "SET spark.sql.caseSensitive = false")
    # This Hive deletes the folder of a schema, in which a dropped table lies.
    session.sql("BEGIN", "DROP TABLE s.B", "COMMIT")
    with pytest.raises(DriverError) as raised:
        session.sql("DROP SCHEMA s CASCADE")
    assert raised.value.condition == "LAKESTEP_SCHEMA_FOLDER_NOT_EMPTY"
    session.sql("UNDROP TABLE s.b")
    assert session.call("test_hive:seen")["tables"] == {**BEFORE, "s.a": [9]}
    session.sql("BEGIN", "DROP TABLE s.b", "COMMIT")
    session.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS", "DROP SCHEMA s CASCADE")
    assert session.call("test_hive:seen")["tables"] == {}


def by_path(spark):
    """How many rows an open transaction sees by path, of which it has deleted one."""
    path = spark.sql("DESCRIBE DETAIL s.a").collect()[0]["location"]
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (5)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE v = 1")
    count = spark.read.format("delta").load(path).count()
    spark.sql("ROLLBACK")
    return count
