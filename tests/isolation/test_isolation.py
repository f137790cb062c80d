"""Isolation levels, READ ONLY, and queries outside a transaction, between two sessions."""

from pathlib import Path

import pytest

from transactions import commit, refused, rollback

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]

CONFLICT = ("LAKESTEP_CONFLICT", "40001")


@pytest.fixture
def wide(spark):
    """Makes tables with columns id, p and v, partitioned by p: rows 0 to 99 in ten files each."""
    made = []

    def make(name):
        spark.sql(f"CREATE TABLE {name} (id INT, p STRING, v INT) USING delta PARTITIONED BY (p)")
        made.append(name)
        for part in ("a", "b"):
            frame = spark.range(0, 100, 1, 10).selectExpr(
                "CAST(id AS INT) AS id", f"'{part}' AS p", "0 AS v"
            )
            frame.write.format("delta").mode("append").saveAsTable(name)
        return name

    yield make
    for name in made:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def begin(spark, level="SERIALIZABLE"):
    spark.sql(f"BEGIN ISOLATION LEVEL {level}")


def end(spark, conflicts):
    """COMMIT, which meets a conflict or does not."""
    if conflicts:
        with refused(*CONFLICT):
            commit(spark)
        rollback(spark)
    else:
        commit(spark)


@pytest.mark.parametrize("level", ["SNAPSHOT", "SERIALIZABLE"])
def test_write_skew_over_two_tables(spark, other_session, table, level):
    left, right = table(f"skew_left_{level}"), table(f"skew_right_{level}")
    for session, read, written in ((spark, left, right), (other_session, right, left)):
        begin(session, level)
        assert session.sql(f"SELECT sum(id) FROM {read}").collect()[0][0] == 3
        session.sql(f"INSERT INTO {written} VALUES (10, 'x')")
    commit(spark)
    end(other_session, conflicts=level == "SERIALIZABLE")


@pytest.mark.parametrize("level", ["SNAPSHOT", "SERIALIZABLE"])
def test_write_skew_over_two_files_of_one_table(spark, other_session, wide, level):
    name = wide(f"skew_in_one_{level}")
    for session, mine, other in ((spark, 5, 95), (other_session, 95, 5)):
        begin(session, level)
        assert session.sql(f"SELECT v FROM {name} WHERE p = 'a' AND id = {other}").collect()
        session.sql(f"UPDATE {name} SET v = 1 WHERE p = 'a' AND id = {mine}")
    commit(spark)
    end(other_session, conflicts=level == "SERIALIZABLE")


# What is read of table {t}, and whether it depends on an INSERT of (5, 'a'), and on one
# of (500, 'b').
READS = {
    "by id": ("SELECT * FROM {t} WHERE id < 10", True, False),
    "by partition": ("SELECT sum(v) FROM {t} WHERE p = 'b'", False, True),
    "by both": ("SELECT * FROM {t} WHERE p = 'b' AND id IN (5, 6)", False, False),
    "by one or the other": ("SELECT * FROM {t} WHERE id = 500 OR id BETWEEN 4 AND 6", True, True),
    "in a subquery": (
        "SELECT * FROM {u} WHERE id IN (SELECT id FROM {t} WHERE p = 'a')",
        True,
        False,
    ),
    "in a scalar subquery": ("SELECT (SELECT max(id) FROM {t} WHERE id < 10)", True, False),
    "by a join": ("SELECT * FROM {t} a JOIN {t} b USING (v) WHERE a.p = 'b' AND b.p = 'b'", 0, 1),
    "by an expression": ("SELECT * FROM {t} WHERE id + 1 = 10", True, True),
    "everything": ("SELECT * FROM {t}", True, True),
    "a count from the log": ("SELECT count(*) FROM {t}", True, True),
    "a limit": ("SELECT * FROM {t} WHERE p = 'b' LIMIT 1", True, True),
    "an old version": ("SELECT * FROM {t} VERSION AS OF 1", False, False),
    "as a source": ("INSERT INTO {u} SELECT id, p, v FROM {t} WHERE p = 'b'", False, True),
    "as a source of MERGE": (
        "MERGE INTO {u} u USING (SELECT id, max(v) AS v FROM {t} WHERE id < 10 GROUP BY id) s"
        " ON u.id = s.id AND u.p = 'none' WHEN MATCHED THEN UPDATE SET v = s.v",
        True,
        False,
    ),
}


@pytest.mark.sliced
@pytest.mark.parametrize("row", ["5, 'a'", "500, 'b'"])
@pytest.mark.parametrize("read", READS)
def test_read_set_is_what_was_read(spark, other_session, shared_wide, read, row):
    watched, written = shared_wide
    statement, on_five, on_five_hundred = READS[read]
    begin(spark)
    spark.sql(statement.format(t=watched, u=written)).collect()
    spark.sql(f"INSERT INTO {written} VALUES (-1, 'c', 0)")
    other_session.sql(f"INSERT INTO {watched} VALUES ({row}, 0)")
    end(spark, conflicts=on_five if row.startswith("5,") else on_five_hundred)


@pytest.fixture(scope="module")
def shared_wide(spark):
    names = ("watched", "written")
    for name in names:
        spark.sql(f"CREATE TABLE {name} (id INT, p STRING, v INT) USING delta PARTITIONED BY (p)")
        rows = spark.range(100).selectExpr(
            "CAST(id AS INT) AS id", "IF(id % 2 = 0, 'a', 'b') AS p", "0 AS v"
        )
        rows.write.format("delta").mode("append").saveAsTable(name)
    yield names
    for name in names:
        spark.sql(f"DROP TABLE {name}")


# What a statement changes in {t}, and whether it depends on an INSERT of (5, 'a') into the same.
CHANGES = {
    "append": ("INSERT INTO {t} VALUES (5, 'a', 1)", False),
    "update": ("UPDATE {t} SET v = v + 1 WHERE id = 5", True),
    "update of others": ("UPDATE {t} SET v = v + 1 WHERE id = 50", False),
    "delete": ("DELETE FROM {t} WHERE p = 'a' AND id < 6", True),
    "delete of others": ("DELETE FROM {t} WHERE p = 'b'", False),
    "overwrite": ("INSERT OVERWRITE {t} VALUES (1, 'b', 1)", True),
    "merge": (
        "MERGE INTO {t} t USING (SELECT 5 AS id) s ON t.id = s.id AND t.p = 'b'"
        " WHEN MATCHED THEN UPDATE SET v = 7",
        False,
    ),
    "merge by source": (
        "MERGE INTO {t} t USING (SELECT 5 AS id) s ON t.id = s.id AND t.p = 'b'"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 7",
        True,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_statement_that_writes_depends_on_what_it_looked_at(spark, other_session, wide, change):
    name = wide("looked_at_" + change.replace(" ", "_"))
    statement, conflicts = CHANGES[change]
    begin(spark)
    spark.sql(statement.format(t=name))
    other_session.sql(f"INSERT INTO {name} VALUES (5, 'a', 0)")
    end(spark, conflicts)


def test_frame_and_cached_data_count_as_read(spark, other_session, wide, table):
    name, written = wide("read_by_frame"), table("written_by_frame")
    for read, row, conflicts in (
        (lambda: spark.table(name).where("p = 'b'").toPandas(), "5, 'a'", False),
        (lambda: spark.table(name).where("p = 'b'").toPandas(), "5, 'b'", True),
        (lambda: spark.table(name).where("p = 'b'").cache().count(), "5, 'a'", True),
    ):
        begin(spark)
        read()
        spark.sql(f"INSERT INTO {written} VALUES (3, 'c')")
        other_session.sql(f"INSERT INTO {name} VALUES ({row}, 0)")
        end(spark, conflicts)


def test_rows_that_others_change_conflict_only_in_files_that_were_read(
    spark, other_session, wide, table
):
    name, written = wide("changed_by_others"), table("beside_it")
    for changed, conflicts in ((95, False), (5, True)):
        begin(spark)
        assert spark.sql(f"SELECT v FROM {name} WHERE id = 5").count() == 2
        spark.sql(f"INSERT INTO {written} VALUES (3, 'c')")
        other_session.sql(f"DELETE FROM {name} WHERE id = {changed}")
        end(spark, conflicts)


def test_level_is_that_of_begin_else_of_the_session(spark):
    spark.conf.set("spark.lakestep.isolationLevel", "serializable")
    try:
        assert spark.sql("BEGIN").collect()[0]["isolation"] == "SERIALIZABLE"
        rollback(spark)
        began = spark.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").collect()[0]
        assert (began["isolation"], began["read_only"]) == ("SNAPSHOT", False)
        rollback(spark)
        spark.conf.set("spark.lakestep.isolationLevel", "chaos")
        with refused("LAKESTEP_INVALID_SETTING", "22023"):
            spark.sql("BEGIN")
    finally:
        spark.conf.unset("spark.lakestep.isolationLevel")


def test_set_transaction_changes_what_begin_said_until_a_table_is_met(spark, other_session, table):
    name, other = table("set_transaction"), table("set_transaction_other")
    with refused("LAKESTEP_NO_ACTIVE_TRANSACTION", "25P01"):
        spark.sql("SET TRANSACTION READ ONLY")
    spark.sql("BEGIN")
    spark.sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY")
    spark.sql("SET TRANSACTION READ WRITE")
    spark.sql(f"INSERT INTO {other} SELECT * FROM {name}")
    with refused("LAKESTEP_TRANSACTION_HAS_READ", "25001"):
        spark.sql("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    other_session.sql(f"DELETE FROM {name}")
    end(spark, conflicts=True)
    spark.sql("BEGIN")
    spark.sql("CREATE VIEW set_transaction_view AS SELECT 1 AS v")
    with refused("LAKESTEP_TRANSACTION_HAS_READ", "25001"):
        spark.sql("SET TRANSACTION READ ONLY")
    rollback(spark)
    spark.sql("BEGIN FOR BATCH 7 OF QUERY 'set_transaction'")
    with refused("LAKESTEP_BATCH_READ_ONLY", "25006"):
        spark.sql("SET TRANSACTION READ ONLY")
    rollback(spark)
    spark.sql("BEGIN READ ONLY")
    with refused("LAKESTEP_READ_ONLY_TRANSACTION", "25006"):
        spark.sql("SET TRANSACTION READ WRITE")
    rollback(spark)


WRITES = (
    "INSERT INTO {t} VALUES (3, 'c')",
    "UPDATE {t} SET v = 'z'",
    "DELETE FROM {t}",
    "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE {t} ADD COLUMNS (w INT)",
    "OPTIMIZE {t}",
    "TRUNCATE TABLE {t}",
)


def everything(*folders):
    """Every file below the folders, with its time."""
    return {path: path.stat().st_mtime_ns for folder in folders for path in Path(folder).rglob("*")}


def test_read_only_transaction_reads_one_snapshot_and_puts_nothing(spark, other_session, table):
    name = table("only_read")
    other_session.sql("BEGIN")
    other_session.sql(f"INSERT INTO {name} VALUES (3, 'c')")
    commit(other_session)
    root = spark.conf.get("spark.lakestep.root").removeprefix("file:")
    warehouse = spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")
    before = everything(root, warehouse)
    assert spark.sql("BEGIN READ ONLY").collect()[0]["read_only"]
    assert spark.table(name).count() == 3
    for write in WRITES:
        with refused("LAKESTEP_READ_ONLY_TRANSACTION", "25006"):
            spark.sql(write.format(t=name))
    with refused("LAKESTEP_READ_ONLY_TRANSACTION", "25006"):
        spark.table(name).write.format("delta").mode("append").saveAsTable(name)
    assert everything(root, warehouse) == before
    other_session.sql(f"DELETE FROM {name}")
    assert spark.table(name).count() == 3
    assert commit(spark)["entry"] is None
    assert spark.table(name).count() == 0


def test_block_may_be_read_only_and_serializable(spark, table):
    name = table("in_a_block")
    found = spark.sql(f"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; SELECT * FROM {name}; COMMIT")
    assert found.count() == 2
    with refused("LAKESTEP_READ_ONLY_TRANSACTION", "25006"):
        spark.sql(f"BEGIN; SET TRANSACTION READ ONLY; DELETE FROM {name}; COMMIT")
    assert spark.table(name).count() == 2
