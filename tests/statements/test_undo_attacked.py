"""REVERT and RESTORE where somebody tried to break them."""

import shutil
from typing import Any

import pytest
from test_undo import actions, ids, last, load, load_batch, pair, rows, undo

import lakestep
from driver import TIMEOUT_S, at_once
from lake import Lake
from process import Died
from transactions import begin, folder, refused, rollback, write

__all__ = ["pair"]

pytestmark = [
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced(6),
]


@pytest.mark.parametrize(
    "undoing",
    [
        "REVERT TRANSACTION '{bad}'",
        "RESTORE TABLES ({one}) BEFORE TRANSACTION '{bad}'",
        "RESTORE TABLE {one} TO VERSION AS OF 1",
    ],
)
def test_no_row_is_doubled_by_a_second_revert(spark, table, undoing):
    one = table("again")
    bad = load(spark, f"DELETE FROM {one}")
    spark.sql(undoing.format(bad=bad, one=one))
    spark.sql(f"UPDATE {one} SET v = 'new'")
    with pytest.raises(Exception, match=r"LAKESTEP_(ALREADY_REVERTED|REVERT_BUILT_UPON)"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert rows(spark, one) == [(1, "new"), (2, "new")]


def test_a_second_revert_takes_nothing_back_that_others_did(spark, table):
    one = table("others")
    bad = load(spark, f"DELETE FROM {one}")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    write(spark, f"DELETE FROM {one}")
    with refused("LAKESTEP_ALREADY_REVERTED"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert ids(spark, one) == []
    bad = load(spark, f"ALTER TABLE {one} ADD COLUMN (w INT)")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    write(spark, f"ALTER TABLE {one} ADD COLUMN (w INT)")
    with refused("LAKESTEP_ALREADY_REVERTED"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert spark.table(one).columns == ["id", "v", "w"]


def test_a_second_revert_takes_no_name_back_that_others_gave(spark, table):
    bad = load(spark, "CREATE VIEW undo_again AS SELECT 1 AS a")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    write(spark, "CREATE VIEW undo_again AS SELECT 1 AS a")
    with refused("LAKESTEP_ALREADY_REVERTED"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert spark.table("undo_again").count() == 1
    spark.sql("DROP VIEW undo_again")
    one = table("undo_undropped")
    bad = load(spark, f"DROP TABLE {one}")
    spark.sql(f"UNDROP TABLE {one}")
    with refused("LAKESTEP_REVERT_BUILT_UPON"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    write(spark, f"ALTER TABLE {one} RENAME TO undo_elsewhere")
    with refused("LAKESTEP_REVERT_BUILT_UPON"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    spark.sql("DROP TABLE undo_elsewhere")


def test_a_table_that_loses_its_name_has_the_one_of_before(spark, table):
    one, two = table("undo_ka", [(1, "a")]), table("undo_kc", [(3, "c")])
    bad = load(spark, f"DROP TABLE {one}", f"ALTER TABLE {two} RENAME TO {one}")
    assert actions(spark, f"RESTORE TABLES ({one}) BEFORE TRANSACTION '{bad}'") == [
        ("NAMED", one),
        ("NAMED", two),
        ("UNCHANGED", one),
    ]
    assert (ids(spark, one), ids(spark, two)) == ([1], [3])
    # Two that have changed places.
    bad = load(
        spark,
        f"ALTER TABLE {one} RENAME TO undo_kx",
        f"ALTER TABLE {two} RENAME TO {one}",
        f"ALTER TABLE undo_kx RENAME TO {two}",
    )
    assert (ids(spark, one), ids(spark, two)) == ([3], [1])
    spark.sql(f"RESTORE TABLES ({one}) BEFORE TRANSACTION '{bad}'")
    assert (ids(spark, one), ids(spark, two)) == ([1], [3])
    # Its name of before is taken by now.
    bad = load(spark, f"DROP TABLE {one}", f"ALTER TABLE {two} RENAME TO {one}")
    write(spark, f"CREATE TABLE {two} (id INT) USING delta")
    with refused("LAKESTEP_UNDO_NAME_TAKEN", "42710"):
        spark.sql(f"RESTORE TABLES ({one}) BEFORE TRANSACTION '{bad}'")
    spark.sql(f"RESTORE TABLES ({one}, {two}) BEFORE TRANSACTION '{bad}'")
    assert (ids(spark, one), ids(spark, two)) == ([1], [3])


def test_a_table_that_others_wrote_is_not_dropped(spark):
    bad = load(spark, "CREATE TABLE undo_filled (id INT) USING delta")
    try:
        more = load(spark, "INSERT INTO undo_filled VALUES (1)")
        with refused("LAKESTEP_REVERT_BUILT_UPON") as raised:
            spark.sql(f"REVERT TRANSACTION '{bad}' DRY RUN")
        assert more in str(raised.value)
        spark.sql(f"REVERT TRANSACTION '{more}'")
        spark.sql(f"REVERT TRANSACTION '{bad}'")
        assert not spark.catalog.tableExists("undo_filled")
    finally:
        spark.sql("DROP TABLE IF EXISTS undo_filled")


@pytest.mark.classic
def test_a_dropped_table_comes_back_only_if_it_is_there(spark, table, tmp_path):
    one = table("undo_purged")
    spark.sql(f"CREATE TABLE undo_external (id INT) USING delta LOCATION '{tmp_path}/external'")
    other = table("undo_kept")
    write(spark, f"INSERT INTO {one} VALUES (3, 'c')")
    bad = load(spark, f"DROP TABLE {one}", f"INSERT INTO {other} VALUES (3, 'c')")
    spark.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS")
    external = load(spark, "DROP TABLE undo_external")
    shutil.rmtree(tmp_path / "external")
    for id in (bad, external):
        with refused("LAKESTEP_UNDO_FILES_GONE", "58P01"):
            spark.sql(f"REVERT TRANSACTION '{id}'")
    assert ids(spark, other) == [1, 2, 3]


@pytest.mark.classic
def test_database_leaves_what_is_gone_and_what_was_made_since(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.lakestep.root", f"file:{tmp_path}/timeline")
    session.sql("CREATE SCHEMA undo_gone")
    session.sql("USE undo_gone")
    path = f"delta.`{tmp_path}/later`"
    try:
        write(session, "CREATE TABLE x (id INT) USING delta", "CREATE TABLE y (id INT) USING delta")
        write(session, "INSERT INTO x VALUES (1)", "INSERT INTO y VALUES (1)")
        session.sql("DROP TABLE x")
        write(session, "INSERT INTO y VALUES (2)")
        session.sql("CREATE SNAPSHOT good")
        write(session, "INSERT INTO y VALUES (3)")
        session.sql("CREATE TABLE plain (id INT) USING delta")
        write(session, f"CREATE TABLE {path} (id INT, v STRING) USING delta")
        load_batch(session, path, 1, 10)
        load_batch(session, path, 2, 20)
        found = actions(session, "RESTORE DATABASE TO SNAPSHOT good")
        assert found == [
            ("BATCHES", ""),
            ("GONE", "x"),
            ("MADE SINCE", "later"),
            ("RESTORED", "y"),
        ]
        assert ids(session, "y") == [1, 2]
        # Nothing of the query was taken back, so nothing is loaded again.
        load_batch(session, path, 2, 21)
        assert ids(session, path) == [10, 20]
        found = actions(session, "RESTORE SCHEMA undo_gone TO SNAPSHOT good")
        assert found == [("BATCHES", ""), ("MADE SINCE", "plain"), ("UNCHANGED", "y")]
    finally:
        session.sql("USE default")
        session.sql("DROP SCHEMA undo_gone CASCADE")


def test_batches_are_reverted_one_after_another(spark, table):
    one = table("undo_sequence", rows=())
    spark.sql("FORGET BATCH KEYS 'undo_query'")
    loads = [load_batch(spark, one, number, 10 + number) for number in range(3)]
    for txn in reversed(loads):
        found = undo(spark, f"REVERT TRANSACTION '{txn.id}'")
        assert found["BATCHES"]["keys_taken_back"] == ["undo_query"]
    for number in range(3):
        load_batch(spark, one, number, 20 + number)
    assert ids(spark, one) == [20, 21, 22]
    # In one transaction.
    two = table("undo_sequence_two", rows=())
    loads = [load_batch(spark, one, 3, 23), load_batch(spark, two, 4, 24)]
    begin(spark)
    for txn in reversed(loads):
        spark.sql(f"REVERT TRANSACTION '{txn.id}'")
    spark.sql("COMMIT")
    load_batch(spark, one, 3, 33)
    load_batch(spark, two, 4, 34)
    assert (ids(spark, one), ids(spark, two)) == ([20, 21, 22, 33], [34])
    spark.sql("FORGET BATCH KEYS 'undo_query'")
    with refused("LAKESTEP_REVERT_NOT_COMMITTED", "22023"):
        spark.sql(f"REVERT TRANSACTION '{last(spark)['transaction_id']}'")


def test_a_schema_of_another_catalog_is_none(spark, table):
    one = table("undo_catalog")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'c')")
    for name in ("nosuch.default", "a.b.default", "spark_catalog.a.default"):
        with refused("SCHEMA_NOT_FOUND"):
            spark.sql(f"RESTORE SCHEMA {name} TO VERSION {entry}")
    spark.sql(f"RESTORE TABLES ({one}) TO VERSION {entry}")


def test_what_cannot_be_read_under_the_columns_of_before_stays(spark):
    spark.sql("CREATE TABLE undo_required (id INT, w INT NOT NULL) USING delta")
    try:
        spark.sql("INSERT INTO undo_required VALUES (1, 1)")
        bad = load(spark, "CREATE OR REPLACE TABLE undo_required (id INT) USING delta")
        write(spark, "INSERT INTO undo_required VALUES (2)")
        with refused("LAKESTEP_REVERT_BUILT_UPON"):
            spark.sql(f"REVERT TRANSACTION '{bad}'")
        assert rows(spark, "undo_required") == [(2,)]
    finally:
        spark.sql("DROP TABLE undo_required")


def test_numbers_of_identity_columns_are_no_obstacle_and_given_once(spark):
    spark.sql(
        "CREATE TABLE undo_numbers (n BIGINT GENERATED ALWAYS AS IDENTITY, id INT) USING delta"
    )
    try:
        bad = load(spark, "INSERT INTO undo_numbers (id) VALUES (1)")
        write(spark, "INSERT INTO undo_numbers (id) VALUES (2)")
        used = {row[0] for row in rows(spark, "undo_numbers")}
        spark.sql(f"REVERT TRANSACTION '{bad}'")
        spark.sql("INSERT INTO undo_numbers (id) VALUES (3)")
        assert [row[1] for row in rows(spark, "undo_numbers")] == [2, 3]
        assert not {n for n, id in rows(spark, "undo_numbers") if id == 3} & used
    finally:
        spark.sql("DROP TABLE undo_numbers")


def test_what_was_reverted_is_no_obstacle(spark, table):
    one = table("undo_cleared")
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad')")
    write(spark, f"INSERT INTO {one} VALUES (4, 'good')")
    spark.sql(f"OPTIMIZE {one}")
    deleted = load(spark, f"DELETE FROM {one} WHERE id = 1")
    spark.sql(f"REVERT TRANSACTION '{deleted}'")
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert ids(spark, one) == [1, 2, 4]


def test_what_is_missing_is_told_by_its_name(spark, table):
    one = table("undo_missing")
    where = folder(spark, one)
    bad = load(spark, f"DELETE FROM {one}")
    write(spark, f"ALTER TABLE {one} SET TBLPROPERTIES (kept_by = 'me')")
    for file in where.glob("*.parquet"):
        file.unlink()
    with refused("LAKESTEP_UNDO_FILES_GONE"):
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    other = table("undo_moved")
    bad = load(spark, f"INSERT INTO {other} VALUES (3, 'c')")
    spark.sql(f"DROP TABLE {other}")
    with refused("LAKESTEP_REVERT_BUILT_UPON") as raised:
        spark.sql(f"REVERT TRANSACTION '{bad}'")
    assert "dropped, moved or made anew" in str(raised.value)


def test_wrong_arguments_are_told(spark, table):
    one = table("undo_arguments")
    entry = write(spark, f"INSERT INTO {one} VALUES (3, 'c')")
    with refused("LAKESTEP_NOT_THERE_AS_OF"):
        spark.sql(f"RESTORE TABLES (delta.``) TO VERSION {entry}")
    wrong: Any
    for wrong in (None, 5, b"q"):
        with pytest.raises(TypeError, match="by its id"):
            lakestep.revert(spark, wrong)
    with pytest.raises(TypeError, match="number"):
        lakestep.restore(spark, version=True)
    for tables in ([], "name"):
        with pytest.raises(TypeError, match="list of names"):
            lakestep.restore(spark, version=entry, tables=tables)
    with refused("LAKESTEP_REVERT_NOT_COMMITTED") as raised:
        lakestep.revert(spark, "it's")
    assert "it's" in str(raised.value)


@pytest.mark.classic
def test_a_snapshot_keeps_its_files_for_restore(spark, table):
    one = table("undo_by_snapshot")
    write(spark, f"INSERT INTO {one} VALUES (3, 'c')")
    spark.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    spark.sql("CREATE SNAPSHOT undo_kept")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        write(spark, f"DELETE FROM {one}")
        spark.sql(f"VACUUM {one} RETAIN 0 HOURS")
        spark.sql(f"RESTORE TABLES ({one}) TO SNAPSHOT undo_kept")
        assert ids(spark, one) == [1, 2, 3]
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
        spark.sql("DROP SNAPSHOT undo_kept")


def test_a_revert_runs_again_when_others_came_first(spark, other_session, pair):
    one, two = pair
    bad = load(spark, f"INSERT INTO {one} VALUES (3, 'bad')", f"UPDATE {two} SET v = 'bad'")
    begin(spark)
    spark.sql(f"REVERT TRANSACTION '{bad}'")
    write(other_session, f"UPDATE {two} SET v = 'upon' WHERE id = 1")
    with pytest.raises(Exception, match=r"LAKESTEP_(CONFLICT|REVERT_BUILT_UPON)"):
        spark.sql("COMMIT")
    rollback(spark)
    assert (ids(spark, one), ids(spark, two)) == ([1, 2, 3], [1, 2])


def killed_in_revert(drivers, tmp_path, step):
    """A driver dies at a step of a REVERT. Its lake, another session, what was to be undone."""
    dying, living = drivers(2)
    lake = Lake(tmp_path, 2)
    one, two = dying.session(lake.root), living.session(lake.root)
    two.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    two.sql("BEGIN", *lake.sql("DELETE FROM {} WHERE id = 1"), "COMMIT")
    ((entry, _, bad, *_),) = two.sql("SHOW TIMELINE LAST 1")
    with dying.halts(step) as halts:
        reverting = one.start_sql(f"REVERT TRANSACTION '{bad}'")
        halts.during(reverting)
        assert halts.reached() == step
        dying.kill()
    with pytest.raises(Died):
        reverting.result(TIMEOUT_S)
    return lake, two, entry, bad


@pytest.mark.classic
def test_a_driver_that_dies_with_what_it_brings_back(drivers, tmp_path):
    lake, two, entry, bad = killed_in_revert(drivers, tmp_path, "ordered:1")
    # It has its entry: whoever comes next finishes it, and VACUUM does so before it deletes.
    for vacuum in lake.sql("VACUUM {} RETAIN 0 HOURS"):
        two.sql(vacuum)
    for read in lake.sql("SELECT count(*) FROM {} WHERE id = 1"):
        assert two.sql(read) == [(1,)]
    ((newest, state, *_, undoes),) = two.sql("SHOW TIMELINE LAST 1")
    assert (newest, state, undoes) == (entry + 1, "COMPLETED", [f"REVERT TRANSACTION '{bad}'"])


@pytest.mark.classic
@pytest.mark.parametrize("step", ["snapshotPut:1", "beforeOrder:1"])
def test_a_driver_that_dies_before_it_has_brought_anything_back(drivers, tmp_path, step):
    lake, two, entry, bad = killed_in_revert(drivers, tmp_path, step)
    reads = lake.sql("SELECT count(*) FROM {} WHERE id = 1")
    assert [two.sql(read) for read in reads] == [[(0,)]] * 2
    assert two.sql("SHOW TIMELINE LAST 1")[0][0] == entry
    # Its hold, which nobody takes for a snapshot, keeps what another one brings back.
    assert two.sql("SHOW SNAPSHOTS") == []
    for vacuum in lake.sql("VACUUM {} RETAIN 0 HOURS"):
        two.sql(vacuum)
    two.sql(f"REVERT TRANSACTION '{bad}'")
    assert [two.sql(read) for read in reads] == [[(1,)]] * 2


@pytest.mark.classic
@pytest.mark.parametrize("first", ["revert", "vacuum"])
def test_a_revert_and_vacuum_at_once(drivers, tmp_path, first):
    """Whoever is held right after its put: the other one, or it itself, knows of both."""
    held, free = drivers(2)
    lake = Lake(tmp_path, 2)
    one, two = held.session(lake.root), free.session(lake.root)
    for session in (one, two):
        session.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    two.sql("BEGIN", *lake.sql("DELETE FROM {} WHERE id = 1"), "COMMIT")
    ((_, _, bad, *_),) = two.sql("SHOW TIMELINE LAST 1")
    revert = f"REVERT TRANSACTION '{bad}'"
    vacuum = [f"VACUUM {table} RETAIN 0 HOURS" for table in lake.sql("{}")]
    begins, other = ([revert], vacuum) if first == "revert" else (vacuum, [revert])
    step = "snapshotPut:1" if first == "revert" else "cutPut:1"
    outcomes = at_once(held, step, one, begins, two, other)
    failed = [o for o in outcomes if o is not None]
    assert failed in ([], ["LAKESTEP_UNDO_CUT"], ["LAKESTEP_UNDO_FILES_GONE"])
    # All of it, and every file is there; or nothing.
    for read in lake.sql("SELECT count(*) FROM {} WHERE id = 1"):
        assert two.sql(read) == [(0 if failed else 1,)]
