"""Statements that lost to another client are run again, where nobody has seen a result of them."""

import threading
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from driver import TIMEOUT_S, DriverError
from lake import Lake, append

pytestmark = pytest.mark.sliced

UPDATE = "UPDATE {} SET v = concat(v, '+') WHERE id = 1"
INSERT = "INSERT INTO {} VALUES (3, 'own')"


def start(driver, lake, **settings):
    block = "; ".join(["BEGIN", *lake.sql(UPDATE), *lake.sql("SELECT v FROM {} WHERE id = 1")])
    return driver.session(lake.root, **settings).start_sql(f"{block}; COMMIT")


def disturb(lake, table=1):
    DeltaTable(lake.tables[table]).update(predicate="id = 1", updates={"v": "'foreign'"})


def files(path):
    """How many data files were ever written to a table."""
    return len(list(Path(path).glob("*.parquet")))


@pytest.mark.parametrize("step", ["timelineRead:1", "beforePublish:2"])
def test_block_that_lost_runs_again_on_what_the_other_wrote(drivers, tmp_path, step):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    with driver.halts(step) as halts:
        run = halts.during(start(driver, lake))
        assert halts.reached() == step
        disturb(lake)
        halts.go()
        assert run.result(TIMEOUT_S) == [["foreign+"]]
    assert [lake.rows(path) for path in lake.tables] == [
        [(1, "old+"), (2, "old")],
        [(1, "foreign+"), (2, "old")],
    ]
    lake.check_timeline()
    assert lake.requested() == set()


def test_atomic_block_that_lost_runs_again_with_its_variables_and_savepoints(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    script = f"""
        BEGIN ATOMIC
          DECLARE n INT DEFAULT 0;
          {lake.sql(UPDATE)[1]};
          SET n = n + 1;
          SAVEPOINT s;
          {lake.sql("UPDATE {} SET v = 'gone'")[0]};
          ROLLBACK TO s;
          {lake.sql("UPDATE {} SET v = concat(v, '+', n) WHERE id = 1")[0]};
          {lake.sql("SELECT v FROM {} WHERE id = 1")[0]};
        END"""
    settings = {"spark.sql.scripting.enabled": "true"}
    with driver.halts("timelineRead:1") as halts:
        run = halts.during(driver.session(lake.root, **settings).start_sql(script))
        assert halts.reached() == "timelineRead:1"
        disturb(lake, 0)
        halts.go()
        assert run.result(TIMEOUT_S) == [["foreign+1"]]
    assert [lake.rows(path) for path in lake.tables] == [
        [(1, "foreign+1"), (2, "old")],
        [(1, "old+"), (2, "old")],
    ]
    lake.check_timeline()
    assert lake.requested() == set()


@pytest.mark.parametrize("block", ["BEGIN; {}; COMMIT", "BEGIN ATOMIC {}; END"])
def test_block_that_changes_names_and_lost_runs_again_from_its_begin(drivers, tmp_path, block):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    name = f"redone_{tmp_path.name}"
    query = lake.sql("SELECT v FROM {} WHERE id = 1")[1]
    body = "; ".join(
        [
            lake.sql(UPDATE)[1],
            f"CREATE TABLE {name}_new USING delta AS {query}",
            f"ALTER TABLE {name}_new RENAME TO {name}",
            f"SELECT v FROM {name}",
        ]
    )
    settings = {"spark.sql.scripting.enabled": "true"}
    with driver.halts("timelineRead:1") as halts:
        session = driver.session(lake.root, **settings)
        run = halts.during(session.start_sql(block.format(body)))
        assert halts.reached() == "timelineRead:1"
        disturb(lake)
        halts.go()
        assert run.result(TIMEOUT_S) == [["foreign+"]]
    assert session.sql(f"SELECT v FROM {name}") == [("foreign+",)]
    assert lake.rows(lake.tables[1]) == [(1, "foreign+"), (2, "old")]
    lake.check_timeline()
    assert lake.requested() == set()
    session.sql(f"DROP TABLE {name}")


def test_block_that_lost_as_often_as_is_allowed_raises_the_conflict(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    for setting in ("maxAttempts", "timeoutMs"):
        value = "1" if setting == "maxAttempts" else "0"
        with driver.halts("timelineRead:1") as halts:
            run = halts.during(start(driver, lake, **{f"spark.lakestep.commit.{setting}": value}))
            assert halts.reached() == "timelineRead:1"
            disturb(lake)
            halts.go()
            with pytest.raises(DriverError) as raised:
                run.result(TIMEOUT_S)
        assert raised.value.main_condition == "LAKESTEP_CONFLICT"
    assert lake.rows(lake.tables[0]) == [(1, "old"), (2, "old")]
    assert lake.requested() == set()


def run_block(driver, lake, statements, while_halted, times=1, **settings):
    """Run a block of ``(table, statement)``, held at its first commits for `while_halted`."""
    pieces = [sql.format(f"delta.`{lake.tables[table]}`") for table, sql in statements]
    steps = [f"timelineRead:{k + 1}" for k in range(times)]
    with driver.halts(*steps) as halts:
        session = driver.session(lake.root, **settings)
        run = halts.during(session.start_sql("; ".join(["BEGIN", *pieces, "COMMIT"])))
        for step in steps:
            assert halts.reached() == step
            while_halted()
            halts.go()
        return run.result(TIMEOUT_S)


@pytest.mark.parametrize("level", ["SNAPSHOT", "SERIALIZABLE"])
def test_only_what_follows_the_first_statement_on_the_conflicting_table_runs_again(
    drivers, tmp_path, level
):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 3)
    before = [files(path) for path in lake.tables]
    rows = run_block(
        driver,
        lake,
        [
            (0, INSERT),
            (2, "SELECT count(*) FROM {}"),
            (1, UPDATE),
            (0, "UPDATE {} SET v = concat(v, '!') WHERE id = 3"),
            (1, "SELECT v FROM {} WHERE id = 1"),
        ],
        lambda: disturb(lake),
        **{"spark.lakestep.isolationLevel": level},
    )
    assert rows == [["foreign+"]]
    assert lake.rows(lake.tables[0]) == [(1, "old"), (2, "old"), (3, "own!")]
    assert lake.rows(lake.tables[1]) == [(1, "foreign+"), (2, "old")]
    # The INSERT ran once, the two UPDATEs twice; one file is of the other client.
    assert [files(path) - n for path, n in zip(lake.tables, before, strict=True)] == [3, 3, 0]
    [number] = lake.entry_numbers()
    entry = lake.entry(number)
    pins = {table["path"].rsplit("/", 1)[1]: table["pin"] for table in entry["tables"]}
    assert pins == {"t0": 1, "t1": 2}
    lake.check_timeline()
    assert lake.requested() == set()


def test_what_was_read_before_the_conflict_and_has_changed_is_read_again(drivers, tmp_path):
    """Else the block would show a state that never was: an old t0 beside a new t1."""
    [driver] = drivers(1)
    lake = Lake(tmp_path, 3)

    def foreign():
        append(lake.tables[0], (9, "foreign"))
        disturb(lake)

    before = files(lake.tables[2])
    count = f"SELECT count(*) FROM delta.`{lake.tables[0]}`"
    rows = run_block(
        driver,
        lake,
        [
            (2, INSERT),
            (0, "SELECT count(*) FROM {}"),
            (1, UPDATE),
            (2, f"UPDATE {{}} SET v = ({count}) WHERE id = 3"),
            (0, "SELECT count(*) FROM {}"),
        ],
        foreign,
    )
    assert rows == [[3]]
    assert lake.rows(lake.tables[1]) == [(1, "foreign+"), (2, "old")]
    assert lake.rows(lake.tables[2]) == [(1, "old"), (2, "old"), (3, "3")]
    assert files(lake.tables[2]) - before == 3
    lake.check_timeline()


def test_result_of_a_query_before_the_conflict_stays_and_one_after_is_new(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    kept = [(0, "SELECT v FROM {} WHERE id = 1"), (1, UPDATE)]
    assert run_block(driver, lake, kept, lambda: disturb(lake)) == [["old"]]
    again = [(1, "SELECT v FROM {} WHERE id = 1"), (0, UPDATE), (1, UPDATE)]
    assert run_block(driver, lake, again, lambda: disturb(lake)) == [["foreign"]]
    lake.check_timeline()


def test_block_that_loses_again_and_again_goes_back_each_time_to_the_right_statement(
    drivers, tmp_path
):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 3)
    tables = iter([2, 1, 2])
    before = [files(path) for path in lake.tables]
    run_block(
        driver,
        lake,
        [(0, UPDATE), (1, UPDATE), (2, UPDATE)],
        lambda: disturb(lake, next(tables)),
        times=3,
    )
    assert [lake.rows(path)[0] for path in lake.tables] == [
        (1, "old+"),
        (1, "foreign+"),
        (1, "foreign+"),
    ]
    # t0 once; t1 twice and once by the other; t2 four times and twice by the other.
    assert [files(path) - n for path, n in zip(lake.tables, before, strict=True)] == [1, 3, 6]
    lake.check_timeline()


def test_optimize_stays_as_it_was_or_runs_again_like_any_statement(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 3)
    for path in lake.tables[:2]:
        append(path, (5, "small"))
    before = [files(path) for path in lake.tables]
    run_block(
        driver,
        lake,
        [(0, "OPTIMIZE {}"), (1, "OPTIMIZE {}"), (2, INSERT)],
        lambda: disturb(lake),
    )
    assert [lake.rows(path) for path in lake.tables] == [
        [(1, "old"), (2, "old"), (5, "small")],
        [(1, "foreign"), (2, "old"), (5, "small")],
        [(1, "old"), (2, "old"), (3, "own")],
    ]
    assert [len(DeltaTable(path).file_uris()) for path in lake.tables[:2]] == [1, 1]
    # Of t1 the other wrote one file, and it was compacted twice; what follows ran twice, too.
    assert [files(path) - n for path, n in zip(lake.tables, before, strict=True)] == [1, 3, 2]
    lake.check_timeline()


def test_statement_that_changes_the_session_is_not_run_twice(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    session.sql("DECLARE VARIABLE n INT DEFAULT 0")
    count, update = "SET VARIABLE n = n + 1", lake.sql(UPDATE)

    def run(*statements):
        with driver.halts("timelineRead:1") as halts:
            future = halts.during(session.start_sql("; ".join(["BEGIN", *statements, "COMMIT"])))
            assert halts.reached() == "timelineRead:1"
            disturb(lake)
            halts.go()
            return future.result(TIMEOUT_S)

    run(update[0], count, update[1])
    assert session.sql("SELECT n") == [(1,)]
    for statement in (count, "SET spark.sql.ansi.enabled = true", "USE SCHEMA default"):
        with pytest.raises(DriverError) as raised:
            run(update[0], update[1], statement)
        assert raised.value.main_condition == "LAKESTEP_CONFLICT"
    assert session.sql("SELECT n") == [(2,)]
    assert lake.rows(lake.tables[0]) == [(1, "old+"), (2, "old")]
    lake.check_timeline()
    assert lake.requested() == set()


# Typed one by one.


def typed(spark, statements):
    """Run statements and look at no result."""
    for statement in statements:
        spark.sql(statement)


def seen(spark, statement, how):
    """Run a statement, and see something of the database by it, or maybe so."""
    if how == "collected":
        spark.sql(statement).collect()
    elif how == "derived":
        spark.sql(statement).select("num_affected_rows").show()
    elif how == "frame":
        spark.sql(statement)
        _ = spark.table("delta.`" + statement.split("`")[1] + "`").columns
    elif how == "failed":
        spark.sql(statement)
        try:
            spark.sql(statement.replace("id", "nothing"))
        except Exception:
            return
        raise AssertionError("no error")
    elif how == "writer":
        frame = spark.createDataFrame([(7, "frame")], "id BIGINT, v STRING")
        frame.write.format("delta").mode("append").save(statement.split("`")[1])
        spark.sql(statement)
    elif how == "setting":
        spark.sql(statement)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    elif how == "setting that is put back":
        before = spark.conf.get("spark.sql.session.timeZone")
        spark.sql(statement)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
        spark.sql(statement.replace("concat(v, '+')", "current_timezone()"))
        spark.conf.set("spark.sql.session.timeZone", before)
    elif how == "view":
        # Then the name means another thing.
        spark.sql("CREATE TABLE IF NOT EXISTS default.own_view (id BIGINT) USING parquet")
        spark.range(1).createOrReplaceTempView("own_view")
        spark.sql("BEGIN")
        value = "concat(v, (SELECT max(id) FROM own_view))"
        spark.sql(statement.replace("concat(v, '+')", value))
        spark.catalog.dropTempView("own_view")
    elif how == "method":
        spark.sql(statement)
        table = statement.split("`")[1]
        called = "reflect('java.lang.System', 'lineSeparator')"
        spark.sql(f"INSERT INTO delta.`{table}` SELECT 9, {called}")
    elif how == "function":
        spark.udf.register("plus", lambda v: v + "+")
        spark.sql(statement.replace("concat(v, '+')", "plus(v)"))
    else:
        spark.sql(statement)
        spark.sql(how.format(statement.split("`")[1])).collect()


CHANGES = {
    "insert": (
        "INSERT INTO {} SELECT id + 10, v FROM {} WHERE id = 1",
        [(1, "foreign"), (2, "old"), (11, "foreign")],
    ),
    "update": (UPDATE, [(1, "foreign+"), (2, "old")]),
    "delete": ("DELETE FROM {} WHERE id = 1", [(2, "old")]),
    "merge": (
        "MERGE INTO {} t USING (SELECT 1 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = concat(t.v, '*') "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (5, 'none')",
        [(1, "foreign*"), (2, "old")],
    ),
    "subquery": (
        "UPDATE {} SET v = (SELECT concat(max(v), '?') FROM {} WHERE id = 1) WHERE id = 1",
        [(1, "foreign?"), (2, "old")],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_unseen_changes_typed_one_by_one_run_again_at_commit(drivers, tmp_path, change):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    template, expected = CHANGES[change]
    name = f"delta.`{lake.tables[1]}`"
    session = driver.session(lake.root)
    # What an INSERT reads counts at this level only.
    begin = "BEGIN ISOLATION LEVEL SERIALIZABLE" if change == "insert" else "BEGIN"
    session.sql(begin)
    changes = [lake.sql(INSERT)[0], template.replace("{}", name)]
    session.call("test_redo:typed", statements=changes)
    disturb(lake)
    session.call("test_redo:typed", statements=["COMMIT"])
    assert lake.rows(lake.tables[1]) == expected
    assert lake.rows(lake.tables[0]) == [(1, "old"), (2, "old"), (3, "own")]
    assert len(lake.entry_numbers()) == 1
    assert session.sql("SHOW TRANSACTIONS") == []
    lake.check_timeline()
    assert lake.requested() == set()


@pytest.mark.parametrize(
    "how",
    [
        "collected",
        "derived",
        "frame",
        "failed",
        "writer",
        "setting",
        "setting that is put back",
        "view",
        "method",
        "function",
        "SELECT count(*) FROM delta.`{}`",
        "DESCRIBE HISTORY delta.`{}`",
        "EXPLAIN SELECT * FROM delta.`{}`",
        "SHOW TRANSACTIONS",
    ],
)
def test_whoever_may_have_seen_a_result_gets_the_conflict(drivers, tmp_path, how):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    if how != "view":
        session.sql("BEGIN")
    session.call("test_redo:seen", statement=lake.sql(UPDATE)[1], how=how)
    disturb(lake)
    with pytest.raises(DriverError) as raised:
        session.call("test_redo:typed", statements=["COMMIT"])
    assert (raised.value.main_condition, raised.value.sql_state) == ("LAKESTEP_CONFLICT", "40001")
    session.sql("ROLLBACK")
    assert lake.rows(lake.tables[1]) == [(1, "foreign"), (2, "old")]
    assert lake.requested() == set()


@pytest.mark.parametrize("is_kept", [False, True], ids=["met after", "read before"])
def test_closed_table_is_noted_with_its_fence_when_it_is_met_again(drivers, tmp_path, is_kept):
    """An undo puts back the protocol that was noted."""
    [driver] = drivers(1)
    lake = Lake(tmp_path, 3)
    session = driver.session(lake.root)
    shut, conflicting, other = lake.sql("{}")
    session.sql(f"ALTER TABLE {shut} SET TBLPROPERTIES ('lakestep.foreignWriters' = 'forbid')")
    session.sql(INSERT.format(shut))
    session.sql("BEGIN")
    changes = [
        *([f"INSERT INTO {other} SELECT * FROM {shut}"] if is_kept else []),
        UPDATE.format(conflicting),
        # Starts a transaction of Delta, and stages nothing.
        UPDATE.format(shut).replace("id = 1", "id = 100"),
        INSERT.format(shut),
    ]
    session.call("test_redo:typed", statements=changes)
    disturb(lake)
    session.call("test_redo:typed", statements=["COMMIT"])
    entries = [lake.entry(number) for number in lake.entry_numbers()]
    noted = [t["protocolHash"] for e in entries for t in e["tables"] if t["path"].endswith("t0")]
    assert len(noted) == 3
    assert noted[2] == noted[1] != noted[0]
    lake.check_timeline()


def commit_conflicts(session):
    """The conflict is raised, and ROLLBACK clears it."""
    with pytest.raises(DriverError) as raised:
        session.call("test_redo:typed", statements=["COMMIT"])
    assert raised.value.main_condition == "LAKESTEP_CONFLICT"
    session.sql("ROLLBACK")


def test_table_that_got_another_schema_meanwhile_leaves_the_conflict(drivers, tmp_path):
    """Also when it was not the one that met the conflict: its statement may mean another thing."""
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    session.call("test_redo:typed", statements=["BEGIN", *lake.sql(UPDATE)])
    disturb(lake, 0)
    DeltaTable(lake.tables[1]).alter.add_columns([Field("new", PrimitiveType("string"))])
    commit_conflicts(session)
    assert lake.rows(lake.tables[1]) == [(1, "old"), (2, "old")]


def commit_aside(spark):
    threading.Thread(target=spark.sql, args=["COMMIT"]).start()


def test_rollback_by_another_thread_waits_for_the_commit_that_runs(drivers, tmp_path):
    """Else a BEGIN after it would be ended by the COMMIT, and what follows be part of nothing."""
    [driver] = drivers(1)
    lake = Lake(tmp_path, 1)
    session = driver.session(lake.root)
    session.call("test_redo:typed", statements=["BEGIN", *lake.sql(INSERT)])
    with driver.halts("beforeOrder:1") as halts:
        session.call("test_redo:commit_aside")
        assert halts.reached() == "beforeOrder:1"
        rollback = session.start_sql("ROLLBACK")
        halts.go()
        with pytest.raises(DriverError) as raised:
            rollback.result(TIMEOUT_S)
    assert raised.value.condition == "LAKESTEP_NO_ACTIVE_TRANSACTION"
    assert lake.rows(lake.tables[0])[-1] == (3, "own")


def test_unseen_changes_are_not_run_again_when_that_is_turned_off(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    for setting, value in {"redoStatements": "false", "maxAttempts": "1"}.items():
        session = driver.session(lake.root, **{f"spark.lakestep.commit.{setting}": value})
        session.call("test_redo:typed", statements=["BEGIN", *lake.sql(UPDATE)])
        disturb(lake)
        commit_conflicts(session)
    assert lake.rows(lake.tables[0]) == [(1, "old"), (2, "old")]


def test_statement_that_fails_when_it_runs_again_leaves_the_conflict(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    fails = UPDATE.replace("concat(v, '+')", "if(v = 'old', 'own', raise_error('no'))")
    session.call("test_redo:typed", statements=["BEGIN", *lake.sql(INSERT), lake.sql(fails)[1]])
    disturb(lake)
    commit_conflicts(session)
    assert lake.rows(lake.tables[0]) == [(1, "old"), (2, "old")]
    assert session.sql("SHOW TRANSACTIONS") == []
    assert lake.requested() == set()


def test_sessions_of_one_driver_have_settings_of_their_own(drivers, tmp_path):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 1)
    first = driver.session(lake.root)
    first.sql("BEGIN")
    key = "spark.lakestep.commit.conflictStrategy"
    with pytest.raises(DriverError) as raised:
        driver.session(lake.root, **{key: "no.such.Strategy"}).sql("BEGIN")
    assert raised.value.condition == "LAKESTEP_INVALID_SETTING"
    first.sql("ROLLBACK")


@pytest.mark.parametrize("strategy", ["younger-waits", "no.such.Strategy", "java.lang.Object"])
def test_conflict_strategy_is_one_of_ours_or_a_class_of_that_kind(drivers, tmp_path, strategy):
    [driver] = drivers(1)
    lake = Lake(tmp_path, 1)
    key = "spark.lakestep.commit.conflictStrategy"
    session = driver.session(lake.root, **{key: strategy})
    if strategy == "younger-waits":
        session.sql("BEGIN; " + lake.sql(INSERT)[0] + "; COMMIT")
        assert lake.rows(lake.tables[0])[-1] == (3, "own")
    else:
        with pytest.raises(DriverError) as raised:
            session.sql("BEGIN")
        assert raised.value.condition == "LAKESTEP_INVALID_SETTING"
        assert raised.value.parameters["key"] == key


def test_younger_transaction_waits_for_the_older_as_long_as_it_was_told(drivers, tmp_path):
    older, younger = drivers(2)
    lake = Lake(tmp_path, 2)
    wait_s = 2
    waiting = younger.session(
        lake.root,
        **{
            "spark.lakestep.commit.conflictStrategy": "younger-waits",
            "spark.lakestep.commit.timeoutMs": str(1000 * wait_s),
        },
    )
    waiting.sql("BEGIN", *lake.sql(INSERT))
    with older.halts("published:1") as halts:
        first = halts.during(
            older.session(lake.root).start_sql("BEGIN", *lake.sql(INSERT), "COMMIT")
        )
        assert halts.reached() == "published:1"
        started = time.monotonic()
        waiting.sql("COMMIT")
        assert time.monotonic() - started >= wait_s
        halts.go()
        first.result(TIMEOUT_S)
    for path in lake.tables:
        assert lake.rows(path).count((3, "own")) == 2
    lake.check_timeline()
