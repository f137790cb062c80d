"""SAVEPOINT, ROLLBACK TO and RELEASE: what is taken back, and what stays."""

import pytest

import files_on_disk
import lakestep
import table_state
from settings import setting
from three_rows import ids, three_rows
from transactions import begin, commit, refused, rollback

pytestmark = [
    pytest.mark.classic,
    pytest.mark.usefixtures("no_transaction_left"),
    pytest.mark.sliced,
]


@pytest.fixture
def table(spark, tmp_path):
    with three_rows(spark, tmp_path) as made:
        yield made


@pytest.fixture
def redone(spark):
    """COMMIT may run statements again."""
    with setting(spark, "spark.lakestep.commit.redoStatements", "true"):
        yield


def test_only_what_follows_the_savepoint_is_taken_back(spark, table):
    one, two, three = table("kept"), table("cut"), table("later")
    begin(spark)
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    spark.sql(f"DELETE FROM {two} WHERE id = 1")
    spark.sql("SAVEPOINT before")
    spark.sql(f"UPDATE {one} SET v = 'x'")
    spark.sql(f"INSERT INTO {two} (id) VALUES (9)")
    spark.sql(f"INSERT INTO {three} (id) VALUES (9)")
    assert ids(spark, two) == [2, 3, 9]
    assert ids(spark, three) == [1, 2, 3, 9]
    spark.sql("ROLLBACK TO SAVEPOINT before")
    assert ids(spark, one) == [1, 2, 3, 4]
    assert spark.sql(f"SELECT count(v) FROM {one}").collect() == [(0,)]
    assert ids(spark, two) == [2, 3]
    assert ids(spark, three) == [1, 2, 3]
    spark.sql(f"INSERT INTO {three} (id) VALUES (5)")
    commit(spark)
    assert ids(spark, one) == [1, 2, 3, 4]
    assert ids(spark, two) == [2, 3]
    assert ids(spark, three) == [1, 2, 3, 5]


def test_nested_savepoints_and_names_that_come_again(spark, table):
    one = table("nested")
    begin(spark)
    for value, name in [(10, "a"), (11, "b"), (12, "A"), (13, "c")]:
        spark.sql(f"INSERT INTO {one} (id) VALUES ({value})")
        spark.sql(f"SAVEPOINT {name}")
    spark.sql(f"INSERT INTO {one} (id) VALUES (14)")
    # The newest of its name, in whatever case; those after it are gone.
    spark.sql("ROLLBACK TO a")
    assert ids(spark, one) == [1, 2, 3, 10, 11, 12]
    with refused("LAKESTEP_SAVEPOINT_NOT_FOUND", "3B001"):
        spark.sql("ROLLBACK TO c")
    # It stays, and may be gone back to again.
    spark.sql(f"INSERT INTO {one} (id) VALUES (15)")
    spark.sql("ROLLBACK TO a")
    assert ids(spark, one) == [1, 2, 3, 10, 11, 12]
    spark.sql("RELEASE a")
    spark.sql("ROLLBACK TO a")
    assert ids(spark, one) == [1, 2, 3, 10]
    with refused("LAKESTEP_SAVEPOINT_NOT_FOUND"):
        spark.sql("RELEASE SAVEPOINT b")
    commit(spark)
    assert ids(spark, one) == [1, 2, 3, 10]


@pytest.mark.parametrize("end", [commit, rollback])
def test_data_files_of_what_is_taken_back_go_at_the_end(spark, table, tmp_path, end):
    one = table("files")
    spark.sql(f"ALTER TABLE {one} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"INSERT INTO {one} SELECT id, 'x' FROM range(10, 2000)")

    def files():
        found = [*(tmp_path / one).glob("*.parquet"), *(tmp_path / one).glob("*.bin")]
        return {file.name for file in found}

    before = files()
    begin(spark)
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    spark.sql(f"DELETE FROM {one} WHERE id = 11")
    kept = files()
    spark.sql("SAVEPOINT s")
    spark.sql(f"INSERT INTO {one} (id) VALUES (5)")
    # New rows of an old file, and a vector for it.
    spark.sql(f"UPDATE {one} SET v = 'y' WHERE id = 12")
    spark.sql(f"DELETE FROM {one} WHERE id = 13")
    spark.sql("ROLLBACK TO s")
    during = files()
    assert len(during - kept) >= 4
    spark.sql(f"DELETE FROM {one} WHERE id = 14")
    last = files() - during
    end(spark)
    assert files() == (kept | last if end is commit else before)
    assert before < kept
    assert spark.sql(f"SELECT count(*) FROM {one}").collect() == [
        (1992 if end is commit else 1993,)
    ]


def test_metadata_is_taken_back_with_the_data(spark, table):
    one = table("shaped")
    before = table_state.view(spark, one)
    begin(spark)
    spark.sql("SAVEPOINT `as it was`")
    spark.sql(f"ALTER TABLE {one} ADD COLUMN extra INT")
    spark.sql(f"ALTER TABLE {one} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    spark.sql(f"INSERT INTO {one} VALUES (4, 'v', 7)")
    assert spark.table(one).columns == ["id", "v", "extra"]
    spark.sql("CREATE TEMP VIEW of_shaped AS SELECT id, extra FROM " + one)
    spark.sql("ROLLBACK TO `as it was`")
    assert spark.table(one).columns == ["id", "v"]
    # The session's views stay, and this one names a column that is gone.
    with refused("UNRESOLVED_COLUMN"):
        spark.sql("SELECT * FROM of_shaped").collect()
    spark.sql("DROP VIEW of_shaped")
    spark.sql(f"DELETE FROM {one} WHERE id = 3")
    commit(spark)
    assert ids(spark, one) == [1, 2]
    assert table_state.view(spark, one) != before
    assert spark.table(one).columns == ["id", "v"]


def test_taken_back_wholly_is_nothing_to_commit(spark, table):
    one = table("empty_again")
    path = spark.sql(f"DESCRIBE DETAIL {one}").collect()[0]["location"].removeprefix("file:")
    files = files_on_disk.prints(path)
    begin(spark)
    spark.sql("SAVEPOINT s")
    spark.sql(f"DELETE FROM {one}")
    assert ids(spark, one) == []
    spark.sql("ROLLBACK TO s")
    assert commit(spark)["entry"] is None
    files_on_disk.assert_log_untouched(path, files)
    assert ids(spark, one) == [1, 2, 3]


def test_a_version_that_comes_back_has_its_new_rows(spark, table):
    """Nothing that is keyed by the number of a version outlives it: what is cached, too."""
    one = table("reused")
    begin(spark)
    early = spark.table(one)
    spark.sql("SAVEPOINT s")
    for value in range(10, 16):
        spark.sql(f"INSERT INTO {one} (id) VALUES ({value})")
        inside = spark.table(one)
        cached = spark.table(one).where("id > 3").cache()
        assert [row[0] for row in cached.collect()] == [value]
        planned = spark.table(one)
        assert planned.count() == 4
        rows = planned.select("id")
        assert len(rows.collect()) == 4
        spark.sql("ROLLBACK TO s")
        assert ids(spark, one) == [1, 2, 3]
        # Of equal length, and often within the same millisecond.
        spark.sql(f"INSERT INTO {one} (id) VALUES ({value + 100})")
        assert ids(spark, one) == [1, 2, 3, value + 100]
        # What was analysed before, and not yet planned, shows the table as it is.
        assert sorted(row[0] for row in inside.select("id").collect()) == [1, 2, 3, value + 100]
        assert sorted(row[0] for row in early.select("id").collect()) == [1, 2, 3, value + 100]
        with refused("LAKESTEP_DATAFRAME_TAKEN_BACK", "25000"):
            rows.collect()
        with refused("LAKESTEP_DATAFRAME_TAKEN_BACK"):
            cached.collect()
        spark.sql("ROLLBACK TO s")
    commit(spark)
    assert ids(spark, one) == [1, 2, 3]


ACTIONS = {
    "toPandas": lambda frame: len(frame.toPandas()),
    "toArrow": lambda frame: frame.toArrow().num_rows,
    "collect": lambda frame: len(frame.collect()),
    "tail": lambda frame: len(frame.tail(9)),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("shuffled", [False, True], ids=["plain", "shuffled"])
def test_no_action_shows_what_was_taken_back(spark, table, action, shuffled):
    one = table("acted_on")
    begin(spark)
    spark.sql("SAVEPOINT s")
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    frame = spark.table(one).select("id")
    if shuffled:
        frame = frame.distinct()
    act = ACTIONS[action]
    assert act(frame) == 4
    spark.sql("ROLLBACK TO s")
    with refused("LAKESTEP_DATAFRAME_TAKEN_BACK"):
        act(frame)
    rollback(spark)
    with refused("LAKESTEP_DATAFRAME_OF_ENDED_TRANSACTION"):
        act(frame)


def test_what_was_planned_before_the_savepoint_goes_on(spark, table):
    one, two = table("planned_one"), table("planned_two")
    begin(spark)
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    rows, others = spark.table(one).select("id"), spark.table(two).select("id")
    assert (len(rows.collect()), len(others.collect())) == (4, 3)
    spark.sql("SAVEPOINT s")
    spark.sql(f"INSERT INTO {one} (id) VALUES (5)")
    spark.sql("ROLLBACK TO s")
    spark.sql(f"INSERT INTO {one} (id) VALUES (6)")
    assert (len(rows.collect()), len(others.collect())) == (4, 3)
    rollback(spark)


def test_closed_table_stays_open_to_the_transaction(spark, table):
    """Its first commit in the overlay lets statements through the fence."""
    one = table("fenced")
    spark.sql(f"ALTER TABLE {one} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')")
    begin(spark)
    spark.sql("SAVEPOINT s")
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    spark.sql("ROLLBACK TO s")
    assert ids(spark, one) == [1, 2, 3]
    spark.sql(f"INSERT INTO {one} (id) VALUES (5)")
    spark.sql("SAVEPOINT s")
    spark.sql(f"DELETE FROM {one} WHERE id = 1")
    spark.sql("ROLLBACK TO s")
    assert ids(spark, one) == [1, 2, 3, 5]
    commit(spark)
    assert ids(spark, one) == [1, 2, 3, 5]


def test_what_was_read_stays_read(spark, table):
    one, two = table("read_one"), table("read_two")
    other = spark.newSession()
    spark.sql("BEGIN ISOLATION LEVEL SERIALIZABLE")
    spark.sql(f"INSERT INTO {two} (id) VALUES (4)")
    spark.sql("SAVEPOINT s")
    assert ids(spark, one) == [1, 2, 3]
    spark.sql("ROLLBACK TO s")
    other.sql(f"INSERT INTO {one} (id) VALUES (9)")
    with refused("LAKESTEP_CONFLICT", "40001"):
        spark.sql("COMMIT")
    rollback(spark)
    assert ids(spark, two) == [1, 2, 3]


def test_conflict_runs_the_savepoints_again(spark, table, redone):
    """Nobody has seen a result, so the statements run again on what the other client wrote."""
    one, two = table("redone_one"), table("redone_two")
    other = spark.newSession()
    begin(spark)
    spark.sql(f"INSERT INTO {two} (id) VALUES (4)")
    spark.sql("SAVEPOINT outer_one")
    spark.sql(f"UPDATE {one} SET v = concat(coalesce(v, ''), 'a') WHERE id = 1")
    spark.sql("SAVEPOINT inner_one")
    spark.sql(f"DELETE FROM {two}")
    spark.sql(f"UPDATE {one} SET v = 'gone' WHERE id = 1")
    spark.sql("ROLLBACK TO inner_one")
    spark.sql(f"INSERT INTO {two} (id) VALUES (5)")
    other.sql(f"UPDATE {one} SET v = 'theirs' WHERE id = 1")
    commit(spark)
    assert spark.sql(f"SELECT v FROM {one} WHERE id = 1").collect() == [("theirsa",)]
    assert ids(spark, two) == [1, 2, 3, 4, 5]


def test_conflict_in_a_part_that_was_taken_back(spark, table, redone):
    one, two = table("undone_one"), table("undone_two")
    other = spark.newSession()
    begin(spark)
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    spark.sql("SAVEPOINT s")
    spark.sql(f"UPDATE {one} SET id = id + 100 WHERE id = 1")
    spark.sql(f"UPDATE {two} SET id = (SELECT max(id) FROM {one}) WHERE id = 1")
    spark.sql("ROLLBACK TO s")
    spark.sql(f"UPDATE {one} SET id = id + 10 WHERE id = 1")
    spark.sql(f"UPDATE {two} SET id = id + 10 WHERE id > 2")
    other.sql(f"UPDATE {two} SET id = 5 WHERE id = 3")
    commit(spark)
    assert ids(spark, one) == [2, 3, 4, 11]
    assert ids(spark, two) == [1, 2, 15]


def test_block_with_savepoints_in_one_call(spark, table):
    one = table("in_a_block")
    frame = spark.sql(f"""
        BEGIN;
        INSERT INTO {one} (id) VALUES (4);
        SAVEPOINT s;
        DELETE FROM {one};
        ROLLBACK TO SAVEPOINT s;
        RELEASE s;
        SELECT count(*) FROM {one};
        COMMIT
    """)
    assert frame.collect() == [(4,)]
    assert ids(spark, one) == [1, 2, 3, 4]


def test_savepoint_needs_a_transaction_and_is_of_one(spark, table):
    for statement in ("SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"):
        with refused("LAKESTEP_NO_ACTIVE_TRANSACTION", "25P01"):
            spark.sql(statement)
    begin(spark)
    spark.sql("SAVEPOINT s")
    commit(spark)
    spark.sql("BEGIN READ ONLY")
    with refused("LAKESTEP_SAVEPOINT_NOT_FOUND", "3B001"):
        spark.sql("ROLLBACK TO s")
    spark.sql("SAVEPOINT s")
    spark.sql("ROLLBACK TO s")
    rollback(spark)


def test_names_are_taken_as_they_are(spark):
    begin(spark)
    for name in ("'", "`", "../x", "é😀", "a b", "x" * 300, ";--"):
        quoted = "`" + name.replace("`", "``") + "`"
        spark.sql(f"SAVEPOINT {quoted}")
        spark.sql(f"ROLLBACK TO {quoted}")
        spark.sql(f"RELEASE {quoted}")
        with refused("LAKESTEP_SAVEPOINT_NOT_FOUND"):
            spark.sql(f"ROLLBACK TO {quoted}")
    rollback(spark)


def test_python_takes_back_what_raised(spark, table):
    one = table("in_python")
    with lakestep.transaction(spark) as txn:
        spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
        with pytest.raises(ZeroDivisionError), txn.savepoint():
            spark.sql(f"INSERT INTO {one} (id) VALUES (5)")
            raise ZeroDivisionError
        with txn.savepoint("outer") as outer, txn.savepoint() as inner:
            spark.sql(f"INSERT INTO {one} (id) VALUES (6)")
            assert (outer.name, inner.name) == ("outer", inner.name)
        with txn.savepoint() as point:
            spark.sql(f"INSERT INTO {one} (id) VALUES (7)")
            point.rollback()
            spark.sql(f"INSERT INTO {one} (id) VALUES (8)")
    assert ids(spark, one) == [1, 2, 3, 4, 6, 8]


def test_python_takes_back_whatever_names_sql_uses(spark, table):
    one = table("shadowed")
    with lakestep.transaction(spark) as txn:
        with pytest.raises(ZeroDivisionError), txn.savepoint("s") as point:
            spark.sql(f"INSERT INTO {one} (id) VALUES (20)")
            spark.sql("SAVEPOINT s")
            spark.sql(f"SAVEPOINT `{point.name}`")
            raise ZeroDivisionError
        with txn.savepoint("t"):
            spark.sql(f"INSERT INTO {one} (id) VALUES (21)")
            spark.sql("ROLLBACK TO t")
    assert ids(spark, one) == [1, 2, 3]


def test_python_rolls_everything_back_where_it_cannot_take_back(spark, table):
    one = table("doubtful")
    with (
        pytest.raises(ZeroDivisionError) as raised,
        lakestep.transaction(spark) as txn,
        txn.savepoint() as outer,
        txn.savepoint(),
    ):
        outer.rollback()
        spark.sql(f"INSERT INTO {one} (id) VALUES (12)")
        raise ZeroDivisionError
    assert not txn.is_open
    [note] = getattr(raised.value, "__notes__", [])
    assert "LAKESTEP_SAVEPOINT_NOT_FOUND" in note
    assert ids(spark, one) == [1, 2, 3]


@pytest.fixture
def aborting(spark):
    # As Spark's users have it: what is shuffled then runs before the rest of a query.
    with (
        setting(spark, "spark.lakestep.abortOnError", "true"),
        setting(spark, "spark.sql.adaptive.enabled", "true"),
    ):
        yield


FAILING = {
    "cannot be parsed": "SELEC 1",
    "cannot be analysed": "INSERT INTO nowhere VALUES (1)",
    "query that cannot be analysed": "SELECT nothing FROM {t}",
    "fails when it runs": "UPDATE {t} SET v = raise_error('stop')",
    "fails when it is optimized": "INSERT INTO {t} (id) VALUES ('x')",
    "fails when its condition is folded": "DELETE FROM {t} WHERE id = 1 / 0",
    "query that fails when it runs": "SELECT raise_error('stop') FROM {t}",
    "query that fails in a shuffle": "SELECT id, max(raise_error('stop')) FROM {t} GROUP BY id",
    "refused": "VACUUM {t}",
    "savepoint that is not there": "RELEASE elsewhere",
}


@pytest.mark.parametrize("kind", FAILING)
def test_after_an_error_nothing_but_going_back_is_accepted(spark, table, aborting, kind):
    one = table("aborted")
    begin(spark)
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    rows = spark.table(one).select("id")
    assert len(rows.collect()) == 4
    spark.sql("SAVEPOINT s")
    spark.sql(f"INSERT INTO {one} (id) VALUES (5)")
    with pytest.raises(Exception) as raised:
        spark.sql(FAILING[kind].format(t=one)).collect()
    assert "LAKESTEP_TRANSACTION_ABORTED" not in str(raised.value)
    for statement in (f"DELETE FROM {one}", f"SELECT * FROM {one}", "SAVEPOINT t", "RELEASE s"):
        with refused("LAKESTEP_TRANSACTION_ABORTED", "25P02"):
            spark.sql(statement).collect()
    with refused("LAKESTEP_TRANSACTION_ABORTED"):
        rows.collect()
    with refused("LAKESTEP_TRANSACTION_ABORTED"):
        spark.range(9, 10).selectExpr("id", "'x' AS v").writeTo(one).append()
    with refused("LAKESTEP_TRANSACTION_ABORTED"):
        spark.sql("COMMIT")
    assert spark.sql("SHOW TRANSACTIONS").count() == 1
    spark.sql("ROLLBACK TO s")
    assert ids(spark, one) == [1, 2, 3, 4]
    commit(spark)
    assert ids(spark, one) == [1, 2, 3, 4]


def test_after_an_error_rollback_ends_the_transaction(spark, table, aborting):
    one = table("aborted_wholly")
    begin(spark)
    spark.sql(f"INSERT INTO {one} (id) VALUES (4)")
    with refused("TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("INSERT INTO nowhere VALUES (1)")
    # At once, though nothing came between.
    with refused("LAKESTEP_TRANSACTION_ABORTED"):
        spark.sql("COMMIT")
    rollback(spark)
    assert ids(spark, one) == [1, 2, 3]


def test_functions_of_the_user_are_no_error(spark, table, aborting):
    one = table("functions")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION one_more(x INT) RETURNS INT RETURN x + 1")
    begin(spark)
    assert spark.sql("SELECT one_more(1)").collect() == [(2,)]
    assert spark.sql(f"SELECT one_more(1), id FROM {one} WHERE id = 1").collect() == [(2, 1)]
    spark.sql(f"INSERT INTO {one} (id) SELECT one_more(9)")
    spark.sql("EXECUTE IMMEDIATE 'INSERT INTO " + one + " (id) VALUES (11)'")
    commit(spark)
    assert ids(spark, one) == [1, 2, 3, 10, 11]


def test_blocks_have_their_own_way_with_errors(spark, table, aborting):
    one = table("aborting_block")
    with setting(spark, "spark.sql.scripting.enabled", "true"):
        spark.sql(f"""
        BEGIN ATOMIC
          BEGIN
            DECLARE EXIT HANDLER FOR SQLEXCEPTION INSERT INTO {one} (id) VALUES (4);
            UPDATE {one} SET v = raise_error('stop');
          END;
        END""")
    assert ids(spark, one) == [1, 2, 3, 4]
