"""ASSERT: what has to hold for a transaction to be committed."""

import pytest
from pyspark.sql import functions

import lakestep
from transactions import abandon, begin, commit, refused, rollback

pytestmark = [pytest.mark.usefixtures("no_transaction_left"), pytest.mark.sliced(6)]

FAILED = "LAKESTEP_ASSERTION_FAILED"


@pytest.fixture
def accounts(spark, table):
    name = table("accounts", ())
    spark.sql(f"ALTER TABLE {name} ADD COLUMN n INT")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 50), (2, 'b', 50)")
    yield name
    abandon(spark)


@pytest.fixture
def redo(spark):
    before = spark.conf.get("spark.lakestep.commit.redoStatements")
    spark.conf.set("spark.lakestep.commit.redoStatements", "true")
    yield
    spark.conf.set("spark.lakestep.commit.redoStatements", before)


def shown(session):
    rows = session.sql("SHOW ASSERTIONS").collect()
    return {row["name"]: (row["outcome"], row["found"]) for row in rows}


def sums(session, name):
    return [row[0] for row in session.sql(f"SELECT n FROM {name} ORDER BY id").collect()]


def test_commit_asks_what_would_be_published(spark, accounts):
    begin(spark)
    spark.sql(f"ASSERT (SELECT sum(n) FROM {accounts}) = 100 AS total MESSAGE 'it''s the sum'")
    spark.sql(f"ASSERT NO ROWS (SELECT * FROM {accounts} WHERE n < 0) AS `no debts`")
    spark.sql(f"UPDATE {accounts} SET n = n - 60 WHERE id = 1")
    with refused(FAILED, "23514") as raised:
        spark.sql("COMMIT")
    assert "total: it's the sum; no debts" in str(raised.value)
    assert "-10" not in str(raised.value)
    assert shown(spark) == {
        "total": ("FAILED", ["false"]),
        "no debts": ("FAILED", ['{"id":1,"v":"a","n":-10}']),
    }
    # It is open, and can be mended.
    spark.sql(f"UPDATE {accounts} SET n = n + 20 WHERE id = 1")
    with refused(FAILED, "23514"):
        spark.sql("COMMIT")
    assert shown(spark)["no debts"] == ("PASSED", [])
    spark.sql(f"UPDATE {accounts} SET n = 90 WHERE id = 2")
    transaction = spark.sql("SHOW TRANSACTIONS").collect()[0][0]
    commit(spark)
    assert sums(spark, accounts) == [10, 90]
    [told] = spark.sql(f"DESCRIBE TRANSACTION '{transaction}'").collect()
    assert told["assertions"] == "total passed, no debts passed"


@pytest.mark.parametrize(
    ("condition", "found"),
    [("NULL", "NULL"), ("(SELECT max(n) FROM {} WHERE id = 9) > 1", "NULL"), ("1 = 2", "false")],
)
def test_null_is_not_true(spark, accounts, condition, found):
    begin(spark)
    spark.sql(f"DELETE FROM {accounts}")
    spark.sql(f"ASSERT CAST({condition.format(accounts)} AS BOOLEAN) AS it")
    with refused(FAILED, "23514"):
        spark.sql("COMMIT")
    assert shown(spark) == {"it": ("FAILED", [found])}
    rollback(spark)
    assert sums(spark, accounts) == [50, 50]
    # What was found can be looked at afterwards.
    assert shown(spark) == {"it": ("FAILED", [found])}


def test_at_most_ten_rows_are_told(spark, accounts):
    begin(spark)
    spark.sql(f"INSERT INTO {accounts} SELECT id, 'x', -id FROM range(3, 40)")
    spark.sql(f"ASSERT NO ROWS SELECT id FROM {accounts} WHERE n < 0")
    with refused(FAILED):
        spark.sql("COMMIT")
    [(name, (outcome, found))] = shown(spark).items()
    assert (name, outcome, len(found)) == ("assertion 1", "FAILED", 10)
    rollback(spark)


def test_rollback_on_failure(spark, accounts):
    spark.conf.set("spark.lakestep.assert.onFailure", " Rollback")
    try:
        begin(spark)
        spark.sql(f"DELETE FROM {accounts}")
        spark.sql("ASSERT false AS never")
        with refused(FAILED):
            spark.sql("COMMIT")
        with refused("LAKESTEP_NO_ACTIVE_TRANSACTION"):
            spark.sql("ROLLBACK")
    finally:
        spark.conf.unset("spark.lakestep.assert.onFailure")
    assert sums(spark, accounts) == [50, 50]


def test_a_wrong_setting_is_told_at_begin(spark, accounts):
    spark.conf.set("spark.lakestep.assert.onFailure", "stop")
    try:
        with refused("LAKESTEP_INVALID_SETTING", "22023"):
            begin(spark)
    finally:
        spark.conf.unset("spark.lakestep.assert.onFailure")


def test_immediate_and_savepoints(spark, accounts):
    begin(spark)
    spark.sql(f"UPDATE {accounts} SET n = 1 WHERE id = 1")
    spark.sql(f"ASSERT (SELECT min(n) FROM {accounts}) = 1 AS now IMMEDIATE")
    with refused(FAILED):
        spark.sql(f"ASSERT (SELECT min(n) FROM {accounts}) = 2 AS wrong IMMEDIATE")
    spark.sql("SAVEPOINT s")
    spark.sql("ASSERT false AS of_the_savepoint")
    spark.sql("ROLLBACK TO s")
    transaction = spark.sql("SHOW TRANSACTIONS").collect()[0][0]
    commit(spark)
    [told] = spark.sql(f"DESCRIBE TRANSACTION '{transaction}'").collect()
    assert told["assertions"] == "now passed, wrong failed"


def test_blocks_end_with_their_assertions(spark, accounts):
    spark.sql(f"BEGIN; DELETE FROM {accounts} WHERE id = 1; ASSERT true AS fine; COMMIT")
    assert sums(spark, accounts) == [50]
    for text in (
        f"BEGIN; DELETE FROM {accounts}; ASSERT 1 > 2; COMMIT",
        f"BEGIN; DELETE FROM {accounts}; ASSERT 1 > 2 IMMEDIATE; COMMIT",
        f"""BEGIN ATOMIC
          DECLARE least INT DEFAULT 1;
          DELETE FROM {accounts};
          ASSERT (SELECT count(*) FROM {accounts}) >= least AS rows;
        END""",
    ):
        with refused(FAILED):
            spark.sql(text)
        assert list(shown(spark).values()) == [("FAILED", ["false"])]
        assert sums(spark, accounts) == [50]
    spark.sql(f"""BEGIN ATOMIC
      DECLARE least INT DEFAULT 1;
      UPDATE {accounts} SET n = 7;
      ASSERT (SELECT count(*) FROM {accounts}) >= least AS rows;
      SET least = 100;
    END""")
    assert sums(spark, accounts) == [7]


def test_names_are_those_of_commit(spark, accounts):
    begin(spark)
    spark.sql(f"ASSERT (SELECT count(*) FROM {accounts}) = 1 AS one")
    spark.sql(f"CREATE OR REPLACE TABLE {accounts} USING delta AS SELECT 1 AS id, 'z' AS v, 3 AS n")
    commit(spark)
    assert sums(spark, accounts) == [3]


@pytest.mark.classic
def test_what_was_asserted_is_true_when_it_is_committed(spark, other, accounts):
    """Two that together would break what each of them has found to hold."""
    for session, row in ((spark, 1), (other, 2)):
        session.sql("BEGIN ISOLATION LEVEL SNAPSHOT")
        session.sql(f"INSERT INTO {accounts} VALUES ({10 + row}, 'out', -80)")
        assert session.table(accounts).count() == 3
        session.sql(f"ASSERT (SELECT sum(n) FROM {accounts}) >= 0 AS solvent")
    commit(other)
    with refused("LAKESTEP_CONFLICT.READ_DATA_CHANGED", "40001"):
        spark.sql("COMMIT")
    abandon(spark)
    # Without an assertion both are committed: appends conflict with nothing.
    for session in (spark, other):
        begin(session)
        session.sql(f"INSERT INTO {accounts} VALUES (20, 'in', 1)")
    commit(other)
    commit(spark)


@pytest.mark.classic
def test_what_nobody_has_seen_is_asked_again_after_a_conflict(spark, other, accounts, redo):
    def first(amount):
        begin(other)
        other.sql(f"INSERT INTO {accounts} VALUES (30, 'x', {amount})")
        commit(other)

    for amount, holds in ((-20, True), (-70, False)):
        begin(spark)
        spark.sql(f"INSERT INTO {accounts} VALUES (31, 'y', -20)")
        spark.sql(f"ASSERT (SELECT sum(n) FROM {accounts}) >= 0 AS solvent")
        first(amount)
        if holds:
            commit(spark)
        else:
            with refused(FAILED):
                spark.sql("COMMIT")
            assert shown(spark) == {"solvent": ("FAILED", ["false"])}
            # On the later snapshot, and open.
            assert spark.sql(f"SELECT sum(n) FROM {accounts}").collect()[0][0] == -30
            rollback(spark)
    assert spark.sql(f"SELECT sum(n) FROM {accounts}").collect()[0][0] == -10


@pytest.mark.classic
def test_a_gate_that_failed_after_a_conflict_has_been_seen(spark, other, accounts, table, redo):
    """What was run again before it is not cut back by marks of the first time."""
    one, two = table("gate_one", ((1, "a"),)), table("gate_two", ((1, "a"),))
    begin(spark)
    for name in (one, two):
        spark.sql(f"UPDATE {name} SET v = concat(v, '!') WHERE id = 1")
    spark.sql(f"ASSERT (SELECT sum(n) FROM {accounts}) >= 0")
    begin(other)
    other.sql(f"UPDATE {one} SET v = 'b' WHERE id = 1")
    other.sql(f"INSERT INTO {accounts} VALUES (9, 'x', -500)")
    commit(other)
    with refused(FAILED):
        spark.sql("COMMIT")
    spark.sql(f"INSERT INTO {accounts} VALUES (10, 'y', 500)")
    other.sql(f"UPDATE {two} SET v = 'c' WHERE id = 1")
    with refused("LAKESTEP_CONFLICT", "40001"):
        spark.sql("COMMIT")
    rollback(spark)
    assert [row["v"] for row in spark.table(one).union(spark.table(two)).collect()] == ["b", "c"]


@pytest.mark.classic
def test_what_cannot_be_asked_after_a_conflict_says_why(spark, other, accounts, redo):
    begin(spark)
    spark.sql(f"INSERT INTO {accounts} VALUES (31, 'y', -20)")
    spark.sql(f"ASSERT 100 / (SELECT sum(n) FROM {accounts} WHERE id < 10) > 0")
    begin(other)
    other.sql(f"INSERT INTO {accounts} VALUES (3, 'x', -100)")
    commit(other)
    with refused("DIVIDE_BY_ZERO", "22012"):
        spark.sql("COMMIT")
    with refused("LAKESTEP_TRANSACTION_FAILED", "25P02"):
        spark.sql(f"SELECT * FROM {accounts}").collect()
    rollback(spark)
    assert sums(spark, accounts) == [50, 50, -100]


@pytest.mark.classic
def test_a_change_that_it_did_not_read_is_no_conflict(spark, other, accounts, table):
    one = table("unrelated", ())
    begin(spark)
    spark.sql(f"INSERT INTO {one} VALUES (1, 'a')")
    spark.sql(f"ASSERT NO ROWS (SELECT * FROM {accounts} WHERE id = 1 AND n < 0)")
    begin(other)
    other.sql(f"UPDATE {accounts} SET n = -5 WHERE id = 2")
    commit(other)
    commit(spark)
    assert spark.table(one).count() == 1


@pytest.mark.classic
def test_check_of_a_frame_is_made_anew_when_the_function_runs_again(spark, other, accounts, redo):
    attempts = []

    def take(txn):
        attempts.append(txn.id)
        spark.sql(f"UPDATE {accounts} SET n = n - 30 WHERE id = 1")
        txn.check("no debts", spark.table(accounts).where("n < 0"))
        if len(attempts) == 1:
            begin(other)
            other.sql(f"UPDATE {accounts} SET n = n - 10 WHERE id = 1")
            commit(other)

    lakestep.run(spark, take)
    assert (len(set(attempts)), sums(spark, accounts)) == (2, [10, 50])
    attempts.clear()
    spark.sql(f"UPDATE {accounts} SET n = 35 WHERE id = 1")
    # It would hold on the state of the first attempt.
    with pytest.raises(lakestep.AssertionFailedError) as raised:
        lakestep.run(spark, take)
    [failed] = raised.value.failures
    assert (len(attempts), failed.found) == (2, ['{"id":1,"v":"a","n":-5}'])
    assert sums(spark, accounts) == [25, 50]


@pytest.mark.classic
@pytest.mark.parametrize("by", ["condition", "frame"])
def test_commit_runs_statements_again_beside_conditions_alone(spark, other, accounts, redo, by):
    def take():
        with lakestep.transaction(spark) as txn:
            spark.sql(f"UPDATE {accounts} SET n = n - 30 WHERE id = 1")
            if by == "condition":
                txn.check("no debts", f"(SELECT min(n) FROM {accounts}) >= 0")
            else:
                txn.check("no debts", spark.table(accounts).where("n < 0"))
            begin(other)
            other.sql(f"UPDATE {accounts} SET n = n - 10 WHERE id = 1")
            commit(other)

    if by == "frame":
        with refused("LAKESTEP_CONFLICT", "40001"):
            take()
    else:
        take()
    assert sums(spark, accounts) == [10 if by == "condition" else 40, 50]


def test_functions_of_users_count_as_they_are_marked(spark, accounts):
    spark.udf.register("poor", lambda n: n < 0, "boolean")
    unsure = functions.udf(lambda n: n < 0, "boolean").asNondeterministic()
    spark.udf.register("unsure", unsure)
    begin(spark)
    spark.sql(f"UPDATE {accounts} SET n = -1 WHERE id = 1")
    with refused("LAKESTEP_ASSERTION_INVALID", "42601"):
        spark.sql(f"ASSERT NO ROWS (SELECT id FROM {accounts} WHERE unsure(n))")
    spark.sql(f"ASSERT NO ROWS (SELECT id FROM {accounts} WHERE poor(n)) AS function")
    with refused(FAILED):
        spark.sql("COMMIT")
    assert shown(spark) == {"function": ("FAILED", ['{"id":1}'])}
    spark.sql(f"UPDATE {accounts} SET n = 1 WHERE id = 1")
    commit(spark)
    assert sums(spark, accounts) == [1, 50]


@pytest.mark.classic
def test_what_was_found_reaches_the_caller_alone(python, tmp_path):
    """The value is computed, so that no statement and no plan has it."""
    found = python(
        """
        import os, pathlib, sys
        folder = pathlib.Path(os.environ["TO"])
        # The log of the JVM, which takes over both.
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        own = os.dup(1)
        os.dup2(log, 1), os.dup2(log, 2)
        from small_session import small_session
        (folder / "events").mkdir()
        events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{folder}/events",
            "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
        spark = small_session(folder, events)
        spark.sparkContext.setLogLevel("INFO")
        spark.sql("CREATE TABLE t (v STRING, n BIGINT) USING delta")
        spark.sql("CREATE TABLE u (v STRING, n BIGINT) USING delta")
        value = "concat('Qz', 'Xj', CAST(id * 3 AS STRING))"
        offends = f"INSERT INTO t SELECT {value}, -1 FROM range(9, 10)"
        query = "SELECT v FROM t WHERE n < 0"
        try:
            with lakestep.transaction(spark) as txn:
                spark.sql(offends)
                txn.check("no debts", spark.sql(query))
        except lakestep.AssertionFailedError as failed:
            told = [failed.failures[0].found, str(failed)]
        spark.sql("BEGIN")
        spark.sql(offends)
        try:
            spark.sql(f"ASSERT NO ROWS ({query}) AS `no debts` IMMEDIATE")
        except lakestep.AssertionFailedError:
            told.append(spark.sql("SHOW ASSERTIONS").collect()[0]["found"])
        spark.sql("DELETE FROM t WHERE n < 0")
        spark.sql("INSERT INTO u VALUES ('fine', 1)")
        told.append(spark.sql("COMMIT").collect()[0]["entry"])
        spark.stop()
        os.dup2(own, 1)
        answer(told)
        """,
        TO=str(tmp_path),
    )
    value = '{"v":"QzXj27"}'
    assert (found[0], found[2]) == ([value], [value])
    assert "no debts" in found[1] and "QzXj27" not in found[1]
    [events] = (tmp_path / "events").iterdir()
    assert b"SQLExecutionStart" in events.read_bytes() and (tmp_path / "log").stat().st_size
    timeline = [file for file in (tmp_path / "timeline").rglob("*") if file.is_file()]
    assert any(b"no debts" in file.read_bytes() for file in timeline)
    for file in (events, tmp_path / "log", *timeline):
        assert b"QzXj27" not in file.read_bytes(), file


def test_bad_assertions(spark, accounts, tmp_path):
    with refused("LAKESTEP_NO_ACTIVE_TRANSACTION"):
        spark.sql("ASSERT true")
    spark.range(1).write.parquet(str(tmp_path / "files"))
    begin(spark)
    for text in (
        "1",
        f"(SELECT n FROM {accounts} WHERE id = 1)",
        "rand() > 2",
        "1 = 1) AS x, (2 = 2",
        f"NO ROWS SELECT * FROM parquet.`{tmp_path / 'files'}`",
        f"NO ROWS DELETE FROM {accounts}",
        f"NO ROWS (SELECT TRANSFORM(n) USING 'cat' AS (n) FROM {accounts})",
    ):
        with refused("LAKESTEP_ASSERTION_INVALID", "42601"):
            spark.sql(f"ASSERT {text}")
    for text in ("nothing > 1", "NO ROWS (SELECT * FROM nothing)", "(", "NO ROWS 1"):
        with pytest.raises(Exception, match=r"UNRESOLVED|NOT_FOUND|PARSE_SYNTAX_ERROR"):
            spark.sql(f"ASSERT {text}")
    spark.sql("ASSERT raise_error('stop') IS NULL AS raising")
    assert shown(spark) == {"raising": ("ASKED AT COMMIT", [])}
    with pytest.raises(Exception, match="stop"):
        spark.sql("COMMIT")
    rollback(spark)
    assert sums(spark, accounts) == [50, 50]


def test_checks_in_python(spark, accounts):
    debts = spark.table(accounts).where("n < 0")
    with (
        pytest.raises(lakestep.AssertionFailedError) as raised,
        lakestep.transaction(spark) as txn,
    ):
        spark.sql(f"UPDATE {accounts} SET n = -1 WHERE id = 1")
        txn.check("it's", f"(SELECT sum(n) FROM {accounts}) = 49")
        txn.check("debts", spark.table(accounts).where("n < 0"), "see `accounts`")
    assert raised.value.failures == [
        lakestep.FailedAssertion("debts", "see `accounts`", ['{"id":1,"v":"a","n":-1}'])
    ]
    assert not txn.is_open
    assert sums(spark, accounts) == [50, 50]
    assert debts.count() == 0
    with lakestep.transaction(spark) as txn:
        txn.check("debts", spark.table(accounts).where("n < 0"))
        spark.sql(f"UPDATE {accounts} SET n = -1 WHERE id = 1")
        with pytest.raises(lakestep.AssertionFailedError) as raised:
            txn.check("now", "1 = 2", now=True)
        assert raised.value.failures == [lakestep.FailedAssertion("now", None, ["false"])]
        with pytest.raises(lakestep.AssertionFailedError):
            txn.commit()
        assert txn.is_open
        spark.sql(f"UPDATE {accounts} SET n = 1 WHERE id = 1")
    assert sums(spark, accounts) == [1, 50]
    views = [row["viewName"] for row in spark.sql("SHOW VIEWS").collect()]
    assert not any(name.startswith("lakestep_check_") for name in views)


@pytest.mark.parametrize("isolation", ["SNAPSHOT", "SERIALIZABLE"])
def test_parameters(spark, accounts, isolation):
    spark.sql(f"BEGIN ISOLATION LEVEL {isolation}")
    spark.sql(f"ASSERT (SELECT count(*) FROM {accounts}) = :n AS many", args={"n": 2})
    spark.sql(f"DELETE FROM {accounts} WHERE id = 1")
    with refused(FAILED):
        spark.sql("COMMIT")
    rollback(spark)


@pytest.mark.classic
def test_what_was_only_read_counts_as_well(spark, other, accounts, table):
    one = table("written_only", ())
    spark.sql(f"CREATE VIEW poor AS SELECT * FROM {accounts} WHERE n < 0")
    changes = [
        (f"INSERT INTO {accounts} VALUES (3, 'c', -1)", "READ_DATA_CHANGED"),
        (f"CREATE OR REPLACE VIEW poor AS SELECT * FROM {accounts} WHERE n < 50", "NAME_CHANGED"),
        (f"ALTER TABLE {accounts} RENAME TO renamed", "NAME_CHANGED"),
    ]
    for number, (change, rule) in enumerate(changes):
        begin(spark)
        spark.sql(f"INSERT INTO {one} VALUES ({number}, 'a')")
        spark.sql("ASSERT NO ROWS (SELECT * FROM poor WHERE id <> 3) AS `nobody is poor`")
        begin(other)
        other.sql(change)
        commit(other)
        with refused(f"LAKESTEP_CONFLICT.{rule}", "40001"):
            spark.sql("COMMIT")
        abandon(spark)
    assert spark.table(one).count() == 0
    begin(other)
    other.sql(f"ALTER TABLE renamed RENAME TO {accounts}")
    other.sql("DROP VIEW poor")
    commit(other)


def test_a_batch_that_is_there_already_is_not_judged(spark, accounts):
    unique = f"NO ROWS (SELECT id FROM {accounts} GROUP BY id HAVING count(*) > 1)"
    replays = []
    for _ in range(2):
        with lakestep.transaction(spark, batch=("judged once", 3)) as txn:
            spark.sql(f"INSERT INTO {accounts} VALUES (7, 'x', 7)")
            txn.check("unique", spark.sql(unique.removeprefix("NO ROWS")), now=True)
            spark.sql(f"ASSERT {unique}")
            replays.append(txn.replays is not None)
    block = f"""
        BEGIN FOR BATCH 3 OF QUERY 'judged once';
        INSERT INTO {accounts} VALUES (7, 'x', 7);
        ASSERT {unique} IMMEDIATE; ASSERT {unique};
        COMMIT
    """
    spark.sql(block)
    assert replays == [False, True]
    assert spark.table(accounts).count() == 3


def test_what_a_name_stands_for_at_commit_is_looked_at_again(spark, accounts, tmp_path):
    files = str(tmp_path / "files")
    spark.range(1).write.parquet(files)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW looked_at AS SELECT * FROM {accounts}")
    begin(spark)
    spark.sql(f"DELETE FROM {accounts}")
    spark.sql("ASSERT NO ROWS (SELECT * FROM looked_at WHERE id < 0)")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW looked_at AS SELECT * FROM parquet.`{files}`")
    with refused("LAKESTEP_ASSERTION_INVALID", "42601"):
        spark.sql("COMMIT")
    with refused("LAKESTEP_TRANSACTION_FAILED", "25P02"):
        spark.sql(f"SELECT * FROM {accounts}").collect()
    rollback(spark)
    spark.sql("DROP VIEW looked_at")
    assert sums(spark, accounts) == [50, 50]


@pytest.mark.classic
def test_rows_of_before_cannot_be_asserted(spark, accounts):
    held = spark.sql("SHOW TABLES")
    with lakestep.transaction(spark) as txn:
        with refused("LAKESTEP_ASSERTION_INVALID"):
            txn.check("none", held)
        txn.check("comment", "1 = 1 -- it holds", now=True)
    assert txn.entry is None
