"""What counts as read in a SERIALIZABLE transaction, however the statement reads it."""

import pytest

from built import LINE
from settings import setting
from transactions import abandon, refused, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]

INSERT = "INSERT INTO {t} VALUES (99, 'x', 7)"

# Each reads all of table t, or looks for rows that the other session is about to insert.
READS = {
    "count": "SELECT count(*) FROM {t}",
    "max": "SELECT max(id) FROM {t}",
    "filter": "SELECT * FROM {t} WHERE id > 50",
    "variable": "SET VAR seen = (SELECT sum(p) FROM {t} WHERE id > 50)",
    "variable_of_a_count": "SET VAR seen = (SELECT count(*) FROM {t})",
    "execute_immediate": "EXECUTE IMMEDIATE 'SELECT sum(p) FROM {t} WHERE id > 50' INTO seen",
    "update_by_a_count": "UPDATE {u} SET p = (SELECT count(*) FROM {t})",
    "update_by_a_maximum": "UPDATE {u} SET p = (SELECT max(id) FROM {t})",
    "merge_by_a_count": "MERGE INTO {u} USING (SELECT 1 AS id) s ON {u}.id = s.id "
    "WHEN MATCHED THEN UPDATE SET p = (SELECT count(*) FROM {t})",
    "insert_of_a_count": "INSERT INTO {u} SELECT count(*), 'n', 0 FROM {t}",
    "count_beside_a_pruned_join": "SELECT c, count(*) FROM {f} f JOIN {t} d ON f.p = d.p "
    "CROSS JOIN (SELECT count(*) AS c FROM {t}) WHERE d.v = 'a' GROUP BY c",
    "count_beside_a_random_expression": "WITH x AS (SELECT *, rand() AS r FROM {t} WHERE id = 1) "
    "SELECT a.v, (SELECT count(*) FROM {t}) FROM x a JOIN x b USING (id)",
    "change_feed": "SELECT * FROM table_changes('{t}', 1)",
}


@pytest.fixture
def tables(spark):
    names = {"t": "read_t", "u": "read_u", "f": "read_f"}
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    for name, properties in ((names["t"], feed), (names["u"], "")):
        spark.sql(f"CREATE TABLE {name} (id INT, v STRING, p INT) USING delta {properties}")
        spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 1)")
        spark.sql(f"INSERT INTO {name} VALUES (2, 'b', 2)")
    spark.sql(f"CREATE TABLE {names['f']} (id INT, p INT) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {names['f']} SELECT id, id % 5 FROM range(50)")
    spark.sql("DECLARE OR REPLACE VARIABLE seen BIGINT")
    yield names
    spark.sql("DROP TEMPORARY VARIABLE seen")
    for name in names.values():
        spark.sql(f"DROP TABLE {name}")


@pytest.fixture
def other(spark):
    session = spark.newSession()
    yield session
    abandon(session)


def run(session, *statements):
    for statement in statements:
        session.sql(statement).collect()


@pytest.mark.sliced
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_change_of_what_was_read_is_a_conflict(spark, other, tables, read):
    run(spark, "BEGIN ISOLATION LEVEL SERIALIZABLE", read.format(**tables))
    run(spark, f"INSERT INTO {tables['u']} VALUES (5, 'mine', 5)")
    run(other, "BEGIN", INSERT.format(**tables), "COMMIT")
    with refused("LAKESTEP_CONFLICT"):
        run(spark, "COMMIT")
    rollback(spark)


@pytest.mark.skipif(LINE < "4.2", reason="Spark 4.2 has CHANGES FROM VERSION")
@pytest.mark.parametrize("place", ["name", "path"])
def test_changes_from_a_version_are_the_transaction_s_and_count_as_read(spark, other, place):
    name = "changes_read"
    features = "'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true'"
    run(spark, f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES ({features})")
    run(spark, f"INSERT INTO {name} VALUES (1)", f"INSERT INTO {name} VALUES (2)")
    location = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["location"]
    table = {"name": name, "path": f"delta.`{location}`"}[place]

    def changes(session):
        with setting(session, "spark.databricks.delta.changelogV2.enabled", True):
            rows = session.sql(f"SELECT * FROM {table} CHANGES FROM VERSION 2").collect()
        return sorted((row["id"], row["_commit_version"]) for row in rows)

    run(spark, "BEGIN ISOLATION LEVEL SERIALIZABLE", f"INSERT INTO {name} VALUES (3)")
    run(other, f"INSERT INTO {name} VALUES (4)")
    assert changes(spark) == [(2, 2), (3, 3)]
    assert changes(other) == [(2, 2), (4, 3)]
    with refused("LAKESTEP_CONFLICT"):
        run(spark, "COMMIT")
    rollback(spark)
    run(spark, f"DROP TABLE {name}")


@pytest.mark.skipif(LINE < "4.2", reason="Spark 4.2 has CHANGES FROM VERSION")
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_changes_between_versions_are_those_of_the_statements(spark, other, vectors):
    name = f"changes_of_{vectors}"
    features = ("enableRowTracking", "enableChangeDataFeed")
    properties = ", ".join(f"'delta.{feature}' = 'true'" for feature in features)
    run(
        spark,
        f"CREATE TABLE {name} (id INT, v STRING) USING delta TBLPROPERTIES "
        f"({properties}, 'delta.enableDeletionVectors' = '{vectors}')",
        f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "BEGIN",
        f"UPDATE {name} SET v = 'x' WHERE id = 1",
        f"DELETE FROM {name} WHERE id = 2",
        f"INSERT INTO {name} VALUES (4, 'd')",
        "COMMIT",
    )
    last = spark.sql(f"DESCRIBE HISTORY {name}").collect()[0]["version"]

    def changes(session, to):
        with setting(session, "spark.databricks.delta.changelogV2.enabled", True):
            rows = session.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 2 TO VERSION {to}")
            return sorted((row["id"], row["v"], row["_change_type"]) for row in rows.collect())

    published = [
        (1, "a", "delete"),
        (1, "x", "insert"),
        (2, "b", "delete"),
        (4, "d", "insert"),
    ]
    run(spark, f"INSERT INTO {name} VALUES (5, 'later')")
    assert changes(spark, last) == published
    run(spark, "BEGIN", f"DELETE FROM {name} WHERE id = 3")
    run(other, f"INSERT INTO {name} VALUES (6, 'past the pin')")
    assert changes(spark, last) == published
    staged = [(3, "c", "delete"), (5, "later", "insert")]
    assert changes(spark, last + 2) == sorted(published + staged)
    run(spark, "ROLLBACK", f"DROP TABLE {name}")


@pytest.mark.parametrize(
    "read",
    [
        "SELECT * FROM {t} WHERE id = 1",
        "SET VAR seen = (SELECT sum(p) FROM {t} WHERE id = 1)",
        "INSERT INTO {u} SELECT * FROM {t} WHERE id = 1",
        "INSERT OVERWRITE {u} SELECT * FROM {t} WHERE id = 1",
        "UPDATE {u} SET p = (SELECT sum(p) FROM {t} WHERE id = 1)",
    ],
)
def test_change_of_what_was_not_read_is_no_conflict(spark, other, tables, read):
    run(spark, "BEGIN ISOLATION LEVEL SERIALIZABLE", read.format(**tables))
    run(spark, f"INSERT INTO {tables['u']} VALUES (5, 'mine', 5)")
    run(other, "BEGIN", INSERT.format(**tables), "COMMIT")
    run(spark, "COMMIT")


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "files"])
def test_row_that_was_moved_and_then_deleted_was_read(spark, other, tables, vectors):
    t, u = tables["t"], tables["u"]
    run(spark, f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    run(spark, "BEGIN ISOLATION LEVEL SERIALIZABLE", f"SELECT * FROM {t} WHERE id = 1")
    run(other, f"OPTIMIZE {t}")
    run(other, "BEGIN", f"DELETE FROM {t} WHERE id = 1", "COMMIT")
    run(spark, f"INSERT INTO {u} VALUES (99, 'there is row 1', 1)")
    with refused("LAKESTEP_CONFLICT"):
        run(spark, "COMMIT")
    rollback(spark)


def test_row_that_was_only_moved_is_no_conflict(spark, other, tables):
    run(spark, "BEGIN ISOLATION LEVEL SERIALIZABLE", f"SELECT * FROM {tables['t']} WHERE id = 1")
    run(other, f"OPTIMIZE {tables['t']}")
    run(spark, f"INSERT INTO {tables['u']} VALUES (99, 'there is row 1', 1)", "COMMIT")
