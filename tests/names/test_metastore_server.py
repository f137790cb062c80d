"""Drivers beside each other on one Hive metastore server, also while it is away."""

import re
from functools import partial

import pytest
from test_swap import READERS

from driver import TIMEOUT_S, DriverError, at_once
from hive_metastore import MetastoreServer
from lakestep import _run_file
from lakestep._statements import split
from name_cases import CASES, picture, run
from name_steps import names, value
from process import Died

SETUP = (
    "CREATE SCHEMA {s}",
    "CREATE TABLE {s}.a USING delta AS SELECT 1 AS v",
    "CREATE TABLE {s}.b USING delta AS SELECT 2 AS v",
)

CHANGES = (
    "INSERT INTO {s}.b VALUES (3)",
    "DROP TABLE {s}.a",
    "ALTER TABLE {s}.b RENAME TO {s}.c",
    "CREATE TABLE {s}.n USING delta AS SELECT 4 AS v",
    "CREATE VIEW {s}.w AS SELECT v + 1 AS v FROM {s}.n",
)

BEFORE_NAMES = "beforeNames:1"
BEFORE = {"a": [1], "b": [2]}
AFTER = {"c": [2, 3], "n": [4], "w": [5]}


def said(statements, schema):
    return [statement.format(s=schema) for statement in statements]


def seen(spark, schema):
    """Tables and views of a schema with their rows."""
    return {table: sorted(value(spark, f"{schema}.{table}")) for table in names(spark, schema)}


def look(session, schema):
    return session.call("test_metastore_server:seen", schema=schema)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with MetastoreServer(tmp_path_factory.mktemp("metastore")) as running:
        yield running


@pytest.fixture(scope="module")
def pair(pool, server, tmp_path_factory):
    """Two drivers; whoever kills one puts another in its place."""
    drivers = [pool.start(server.settings) for _ in range(2)]
    yield drivers
    for driver in drivers:
        driver.kill()


@pytest.fixture
def sessions(pair, tmp_path):
    return [driver.session(tmp_path / "timeline") for driver in pair]


def test_names_are_another_driver_s_with_commit(sessions):
    one, other = sessions
    one.sql(*said(SETUP, "plain"))
    one.sql("BEGIN", *said(CHANGES, "plain"))
    assert look(one, "plain") == AFTER
    assert look(other, "plain") == BEFORE
    other.sql("BEGIN")
    assert look(other, "plain") == BEFORE
    one.sql("COMMIT")
    # Its transaction began before.
    assert look(other, "plain") == BEFORE
    with pytest.raises(DriverError) as refused:
        other.sql("CREATE TABLE plain.n USING delta AS SELECT 9 AS v", "COMMIT")
    assert refused.value.condition == "LAKESTEP_CONFLICT.NAME_CHANGED"
    other.sql("ROLLBACK")
    assert look(one, "plain") == look(other, "plain") == AFTER


def test_one_that_sleeps_before_it_makes_names_puts_nothing_back(pair, sessions):
    one, other = sessions
    one.sql(*said(SETUP, "sleeping"))
    with pair[0].halts("decided:1") as halts:
        commit = halts.during(one.start_sql("BEGIN", *said(CHANGES, "sleeping"), "COMMIT"))
        assert halts.reached() == "decided:1"
        other.sql("BEGIN", "COMMIT")
        assert look(other, "sleeping") == AFTER
        rename = "ALTER TABLE sleeping.n RENAME TO sleeping.a"
        other.sql("BEGIN", "DROP VIEW sleeping.w", rename, "COMMIT")
        halts.go()
        commit.result(TIMEOUT_S)
    for session in sessions:
        assert look(session, "sleeping") == {"a": [4], "c": [2, 3]}


def test_a_name_that_somebody_else_takes_is_reported_and_stays_theirs(pair, sessions, tmp_path):
    one, other = sessions
    schema, *tables = said(SETUP, "taken")
    one.sql(f"{schema} LOCATION '{tmp_path}/it\\'s here'", *tables)
    with pair[0].halts("beforeNames:1") as halts:
        commit = halts.during(one.start("driver:warned", statements=said(CHANGES, "taken")))
        assert halts.reached() == "beforeNames:1"
        # Of another timeline, so it knows of no transaction of this one.
        foreign = pair[1].session(tmp_path / "other timeline")
        foreign.sql("CREATE TABLE taken.n USING delta AS SELECT 9 AS v")
        halts.go()
        [warning] = commit.result(TIMEOUT_S)
    theirs = {**AFTER, "n": [9], "w": [10]}
    for session in (other, one):
        session.sql("BEGIN", "COMMIT")
        assert look(session, "taken") == theirs
    taken = re.compile(
        r"\[LAKESTEP_NAME_TAKEN\].*taken`\.`n`.* to stand for table (?P<path>\S+):"
        r".*(?P<next>CREATE TABLE another_name .*')\."
    )
    [(path, said_next)] = taken.findall(warning)
    assert (path, said_next) in taken.findall(pair[0].log.read_text())
    other.sql(said_next.replace("another_name", "taken.another_name"))
    assert look(one, "taken") == {**theirs, "another_name": [4]}
    assert "%20here" in path


PLACE = "(v INT) USING delta LOCATION '{place}'"
# The longest names that the metastore keeps, and statements that give longer ones.
LONGEST = [
    f"CREATE SCHEMA {'s' * 128}",
    f"CREATE TABLE {'t' * 239} {PLACE}",
    f"CREATE VIEW {'w' * 256} AS SELECT 1 AS v",
    f"CREATE SCHEMA c COMMENT '{'c' * 4000}' WITH DBPROPERTIES ('{'k' * 180}' = '{'v' * 4000}')",
    f"CREATE VIEW c.w (v COMMENT '{'c' * 300}') COMMENT '{'c' * 4001}' AS SELECT 1 AS v",
    f"ALTER VIEW c.w SET TBLPROPERTIES ('{'k' * 256}' = '{'v' * 32672}')",
]
TOO_LONG = [
    f"CREATE SCHEMA {'s' * 129}",
    f"CREATE TABLE {'u' * 240} {PLACE}",
    f"CREATE VIEW {'v' * 257} AS SELECT 1 AS v",
    f"CREATE SCHEMA x COMMENT '{'c' * 4001}'",
    f"CREATE SCHEMA x LOCATION '/{'l' * 4000}'",
    f"CREATE SCHEMA x WITH DBPROPERTIES ('{'k' * 181}' = 'v')",
    f"ALTER VIEW c.w SET TBLPROPERTIES ('{'k' * 257}' = 'v')",
    f"ALTER VIEW c.w SET TBLPROPERTIES ('k' = '{'v' * 32673}')",
]
# Without a transaction Hive takes these: the folder is the old one; not every database has room.
TAKEN_OUTSIDE = [
    f"ALTER TABLE {'t' * 239} RENAME TO {'r' * 240}",
    f"ALTER SCHEMA c SET DBPROPERTIES ('k' = '{'v' * 4001}')",
]


def test_what_the_metastore_has_no_room_for_is_refused_by_its_statement(sessions, tmp_path):
    one, other = sessions
    fill = [statement.format(place=tmp_path / "t") for statement in LONGEST]
    one.sql("BEGIN", *fill)
    for statement in TOO_LONG + TAKEN_OUTSIDE:
        with pytest.raises(DriverError) as refused:
            one.sql(statement.format(place=tmp_path / "u"))
        assert refused.value.condition == "LAKESTEP_NAME_TOO_LONG", statement
        assert refused.value.sql_state == "42622"
    one.sql("COMMIT")
    assert look(other, "default") == {"t" * 239: [], "w" * 256: [1]}
    assert look(other, "s" * 128) == {}
    assert look(other, "c") == {"w": [1]}
    # Without a transaction the metastore refuses these, too; others it tries again for a while.
    for statement in TOO_LONG[:3]:
        with pytest.raises(DriverError):
            one.sql(statement.format(place=tmp_path / "plain"))
    one.sql(f"DROP SCHEMA {'s' * 128}", f"DROP TABLE {'t' * 239}", f"DROP VIEW {'w' * 256}")
    one.sql("DROP SCHEMA c CASCADE")


@pytest.mark.long
@pytest.mark.parametrize("reads", [6, 60])
def test_two_drivers_never_see_one_table_under_both_names_or_a_name_missing(
    pair, sessions, tmp_path, reads
):
    sessions[0].call("test_swap:make_pair")
    # Who has met a transaction that has changed a name looks for others.
    for session in sessions:
        session.call("test_swap:swap")
    running = [
        driver.session(tmp_path / "timeline").start("test_swap:read", reader=reader, number=reads)
        for driver in pair
        for reader in READERS
    ]
    swaps = 0
    while not all(one.done() for one in running):
        sessions[swaps % 2].call("test_swap:swap")
        swaps += 1
    assert swaps > 2
    of = [f"{reader} of driver {number}" for number in range(2) for reader in READERS]
    seen = {
        who: {tuple(p) for p in one.result(TIMEOUT_S)} for who, one in zip(of, running, strict=True)
    }
    assert all(found <= {(1, 2), (2, 1)} for found in seen.values()), seen
    sessions[0].sql("DROP SCHEMA swap CASCADE")


def test_names_wait_for_a_metastore_that_is_away(pair, sessions, server):
    one, other = sessions
    one.sql(*said(SETUP, "away"))
    with pair[0].halts("beforeNames:1") as halts:
        commit = halts.during(one.start_sql("BEGIN", *said(CHANGES, "away"), "COMMIT"))
        assert halts.reached() == "beforeNames:1"
        server.kill()
        halts.go()
        # The data are committed, and nothing fails for the names.
        commit.result(TIMEOUT_S)
    try:
        with pytest.raises(DriverError):
            other.sql("SELECT * FROM away.a")
    finally:
        server.start()
    for session in (other, one):
        session.sql("BEGIN", "COMMIT")
        assert look(session, "away") == AFTER


def test_a_commit_that_cannot_ask_the_metastore_commits_nothing(sessions, server):
    one = sessions[0]
    one.sql(*said(SETUP, "unasked"))
    one.sql("BEGIN", *said(CHANGES, "unasked"))
    server.kill()
    try:
        with pytest.raises(DriverError):
            one.sql("COMMIT")
    finally:
        server.start()
    one.sql("ROLLBACK", "BEGIN", "COMMIT")
    for session in sessions:
        assert look(session, "unasked") == BEFORE


def run_file(spark, text):
    # What takes signals is the main thread's.
    _run_file._Run(spark, _run_file.Job("f.sql", split(text), quiet=True)).everything()


def test_lakestep_run_says_what_commit_warns_of(pair, sessions, tmp_path):
    one, _ = sessions
    one.sql("CREATE SCHEMA told")
    text = "BEGIN; CREATE TABLE told.n USING delta AS SELECT 1 AS v; COMMIT"
    with pair[0].halts("beforeNames:1") as halts:
        running = halts.during(one.start("test_metastore_server:run_file", text=text))
        assert halts.reached() == "beforeNames:1"
        pair[1].session(tmp_path / "other").sql("CREATE TABLE told.n USING delta AS SELECT 2 AS v")
        halts.go()
        running.result(TIMEOUT_S)
    assert "warning: [LAKESTEP_NAME_TAKEN]" in pair[0].log.read_text()


UNDROP = "UNDROP TABLE {s}.t"
VACUUM = "VACUUM DROPPED TABLES RETAIN 0 HOURS"


def dropped(session, schema):
    """A schema with a table that is dropped; no other transaction is open that would keep it."""
    session.sql(
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.t USING delta AS SELECT 1 AS v",
        "BEGIN",
        f"DROP TABLE {schema}.t",
        "COMMIT",
    )


@pytest.mark.parametrize("step", ["beforeOrder", "ordered", "decided"])
@pytest.mark.parametrize("held, beside", [("undrop", "vacuum"), ("vacuum", "undrop")])
def test_of_undrop_and_vacuum_at_once_one_wins(pair, sessions, held, beside, step):
    one, other = sessions
    schema = f"race_{held}_{step.lower()}"
    dropped(other, schema)
    calls = {"undrop": ["BEGIN", UNDROP.format(s=schema), "COMMIT"], "vacuum": [VACUUM]}
    failed = at_once(pair[0], f"{step}:1", one, calls[held], other, calls[beside])
    ends = dict(zip((held, beside), failed, strict=True))
    loser = held if step == "beforeOrder" else beside
    assert (ends["undrop"] is None) == (loser == "vacuum")
    assert {*failed} <= {None, "LAKESTEP_CONFLICT.NAME_CHANGED", "LAKESTEP_NO_DROPPED_TABLE"}
    if loser == "undrop":
        (one if held == "undrop" else other).sql("ROLLBACK")
    for session in sessions:
        assert look(session, schema) == ({"t": [1]} if loser == "vacuum" else {})


@pytest.mark.parametrize("step", ["ordered", "decided"])
def test_what_a_killed_vacuum_has_decided_is_deleted_by_the_next(
    pool, pair, sessions, server, step
):
    one, other = sessions
    schema = f"half_{step}"
    dropped(other, schema)
    kill_at(f"{step}:1", partial(one.start_sql, VACUUM), pool, pair, server)
    with pytest.raises(DriverError) as refused:
        other.sql("BEGIN", UNDROP.format(s=schema), "COMMIT")
    assert refused.value.condition == "LAKESTEP_NO_DROPPED_TABLE"
    other.sql("ROLLBACK")
    assert [(row[0], row[1], row[3]) for row in other.sql(VACUUM)] == [(schema, "t", "DELETED")]
    assert other.sql(VACUUM) == []


def kill_at(step, start, pool, pair, server):
    """Kill the first driver at a step of what it starts; another one takes its place."""
    with pair[0].halts(step) as halts:
        running = halts.during(start())
        # What has failed before says why.
        assert halts.reached() == step or running.result(TIMEOUT_S)
        pair[0].kill()
    with pytest.raises(Died):
        running.result(TIMEOUT_S)
    pair[0] = pool.start(server.settings)


def test_names_of_a_killed_driver_are_made_by_another_one(pool, pair, sessions, server):
    one, other = sessions
    one.sql(*said(SETUP, "killed"))
    start = partial(one.start_sql, "BEGIN", *said(CHANGES, "killed"), "COMMIT")
    kill_at(BEFORE_NAMES, start, pool, pair, server)
    other.sql("BEGIN", "COMMIT")
    assert look(other, "killed") == AFTER


def test_a_statement_outside_meets_the_table_that_queries_show(
    pool, pair, sessions, server, tmp_path
):
    one, other = sessions
    one.sql("BEGIN", *said(SETUP, "owed"), "COMMIT")
    other.sql("BEGIN", "COMMIT")
    renames = ["a RENAME TO owed.aside", "b RENAME TO owed.a", "aside RENAME TO owed.b"]
    swap = [f"ALTER TABLE owed.{rename}" for rename in renames]
    start = partial(one.start_sql, "BEGIN", *swap, "COMMIT")
    kill_at(BEFORE_NAMES, start, pool, pair, server)
    assert other.sql("SELECT v FROM owed.a") == [(2,)]
    # Nobody can make a name without a file there.
    makings = tmp_path / "timeline" / "makings"
    makings.rename(tmp_path / "aside")
    makings.write_text("no folder")
    for statement in (
        "DROP TABLE owed.a",
        "ALTER TABLE owed.a RENAME TO owed.c",
        "DROP SCHEMA owed",
    ):
        with pytest.raises(DriverError) as refused:
            other.sql(statement)
        assert (refused.value.condition, refused.value.sql_state) == (
            "LAKESTEP_NAME_NOT_MADE",
            "55000",
        )
    other.sql("CREATE TABLE owed.other USING delta AS SELECT 3 AS v", "DROP TABLE owed.other")
    makings.unlink()
    (tmp_path / "aside").rename(makings)
    other.sql("DROP TABLE owed.a")
    assert look(other, "owed") == {"b": [1]}


def pictures(spark, schemas):
    """What users see of each; but for comments of schemas, which Hive's client does not change."""
    found = [picture(spark, schema) for schema in schemas]
    return [
        {
            key: [without_times(row) for row in about if not str(row).startswith("('Comment'")]
            for key, about in one.items()
        }
        for one in found
    ]


def without_times(value):
    """Hive notes the time of a change among the properties, and a view its settings."""
    if isinstance(value, dict):
        hidden = ("transient_lastDdlTime", "view.sqlConfig.spark.lakestep")
        return {k: without_times(v) for k, v in value.items() if not k.startswith(hidden)}
    return value


def set_up(spark, cases, kind, folder):
    for number, name in enumerate(cases):
        spark.sql(f"CREATE SCHEMA {kind}{number}")
        run(spark, CASES[name].setup, f"{kind}{number}", folder)


def make(spark, cases, kind, folder, commits=False):
    if commits:
        spark.sql("BEGIN")
    for number, name in enumerate(cases):
        case = CASES[name]
        run(spark, case.steps if commits else case.without, f"{kind}{number}", folder)
    if commits:
        spark.sql("COMMIT")


# A schema whose folder holds the files of what was dropped stays (docs/limits.md).
ALL = [name for name in CASES if name != "drop schema"]
SOME = [
    "create",
    "replace as select",
    "swap",
    "a table becomes a view",
    "schema",
    "clone",
    "undrop",
]


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    "cases",
    [pytest.param(SOME, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.long)],
)
def test_statements_of_a_killed_driver_are_as_without_a_transaction(
    pool, pair, sessions, server, tmp_path, cases
):
    one, other = sessions
    kinds = [f"{kind}_{len(cases)}_" for kind in ("ours", "plain")]
    ours, plain = ([f"{kind}{number}" for number in range(len(cases))] for kind in kinds)
    arguments = {"cases": cases, "folder": str(tmp_path)}
    for kind in kinds:
        one.call("test_metastore_server:set_up", kind=kind, **arguments)
    one.call("test_metastore_server:make", kind=kinds[1], **arguments)
    start = partial(one.start, "test_metastore_server:make", kind=kinds[0], commits=True)
    kill_at(BEFORE_NAMES, partial(start, **arguments), pool, pair, server)
    other.sql("BEGIN", "COMMIT")
    found, wanted = (
        other.call("test_metastore_server:pictures", schemas=schemas) for schemas in (ours, plain)
    )
    for name, of_ours, of_plain in zip(cases, found, wanted, strict=True):
        assert of_ours.keys() == of_plain.keys(), name
        for key in of_ours:
            assert of_ours[key] == of_plain[key], (name, key)
