"""Drivers killed, stopped and held at the steps of a COMMIT: all tables change, or none does."""

import json
from pathlib import Path

import pytest

from driver import TIMEOUT_S, DriverError
from kills import AFTER, BEFORE, commit_steps, kill_at, start_transaction
from lake import Lake, append, rewrite

FOREIGN = [(2, "old")]

LATER = "UPDATE {} SET v = 'later' WHERE id = 2"

LONG = pytest.mark.long
pytestmark = pytest.mark.sliced(4)


def rollback_steps(tables):
    """Return the steps after a conflict was met at the second table."""
    settling = [f"{s}:{k}" for k in range(1, tables + 1) for s in ("beforeSettle", "settled")]
    ending = ["beforeRolledBack:1", "rolledBack:1", "beforeCleanUp:1"]
    return ["beforePublish:2", "beforeDecision:1", "decided:1", *settling, *ending]


def kill_points():
    short = {"beforeOrder:1", "published:1", "decided:1"}
    return [
        pytest.param(
            tables,
            step,
            happens,
            marks=() if tables == 2 and step in short else (LONG,),
            id=f"{tables}-{step}",
        )
        for tables in (2, 5)
        for step, happens in commit_steps(tables)
    ]


def conflict_kill_points():
    return [
        pytest.param(
            tables,
            step,
            marks=() if (tables, step) == (2, "settled:1") else (LONG,),
            id=f"{tables}-{step}",
        )
        for tables in (2, 5)
        for step in rollback_steps(tables)
    ]


def recover_by_begin_or_recover(session, step):
    """Both ways of meeting the dead; which one, depends on the step."""
    if step.startswith("before"):
        return session.sql("RECOVER")
    session.sql("BEGIN", "ROLLBACK")
    return session.sql("RECOVER")


def check(lake, expected, session, plain):
    """Every reader sees these rows, the timeline is in order and the tables are writable."""
    for path, rows in zip(lake.tables, expected, strict=True):
        query = f"SELECT * FROM delta.`{path}` ORDER BY id"
        assert lake.rows(path) == rows
        assert session.sql(query) == rows
        assert [tuple(json.loads(row)) for row in plain.ask("sql", text=query)] == rows
    lake.check_timeline()
    assert session.sql("SHOW TRANSACTIONS") == []
    session.sql("BEGIN", *lake.sql(LATER), "COMMIT")
    for path, rows in zip(lake.tables, expected, strict=True):
        append(path, (9, "foreign"))
        later = [(key, "later" if key == 2 else v) for key, v in rows]
        assert lake.rows(path) == [*later, (9, "foreign")]
    lake.check_timeline()
    session.call("transactions:flush")
    session.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    assert [folder for path in lake.tables for folder in left_in(path)] == []


def left_in(path):
    """What transactions have staged in a table, and what is put with a temporary name first."""
    own = Path(path.removeprefix("file:"), "_delta_log", "_lakestep")
    return [*own.glob("t[0-9a-f]*"), *own.glob("tmp/*")]


@pytest.mark.parametrize(("tables", "step", "happens"), kill_points())
def test_after_a_kill_every_table_has_the_change_or_none_has(
    drivers, plain, tmp_path, tables, step, happens
):
    victim, survivor = drivers(2, spare=True)
    lake = Lake(tmp_path, tables)
    kill_at(victim, lake, step)
    session = survivor.session(lake.root)
    recover_by_begin_or_recover(session, step)
    assert len(lake.entry_numbers()) == happens
    for path in lake.tables:
        assert lake.own_commits(path) == ["publish"] * happens
    check(lake, [AFTER if happens else BEFORE] * tables, session, plain)


@pytest.mark.parametrize(
    "step",
    [
        "beforeChecksums:1",
        *(
            pytest.param(step, marks=LONG)
            for step in ("beforeCleanUp:1", "beforeChecksums:2", "checksumsPut:1", "checksumsPut:2")
        ),
    ],
)
def test_a_driver_killed_once_its_commit_has_returned_leaves_nothing_wrong(
    drivers, plain, tmp_path, step
):
    victim, survivor = drivers(2, spare=True)
    lake = Lake(tmp_path, 2)
    with victim.halts(step) as halts:
        _, commit = start_transaction(victim, lake)
        assert halts.reached() == step
        [[_, entry, tables, _]] = commit.result(TIMEOUT_S)
        victim.kill()
    assert (entry, tables) == (1, 2)
    found = [version_checksums(path) for path in lake.tables]
    assert len([versions for versions in found if 2 in versions]) in PUT[step]
    session = survivor.session(lake.root)
    check(lake, [AFTER] * 2, session, plain)
    # Behind a version without one, too, the next COMMIT puts them again.
    assert all(3 in version_checksums(path) for path in lake.tables)


# Of how many of two tables the checksum is there; a thread each may be on its way.
PUT = {
    "beforeCleanUp:1": {0, 1, 2},
    "beforeChecksums:1": {0, 1},
    "beforeChecksums:2": {0, 1},
    "checksumsPut:1": {1, 2},
    "checksumsPut:2": {2},
}


def version_checksums(path):
    log = Path(path.removeprefix("file:"), "_delta_log")
    return {int(file.stem) for file in log.glob("[0-9]*.crc")}


@pytest.mark.parametrize(("tables", "step"), conflict_kill_points())
def test_after_a_kill_in_a_rollback_no_table_has_the_change(drivers, plain, tmp_path, tables, step):
    victim, survivor = drivers(2, spare=True)
    lake = Lake(tmp_path, tables)
    kill_at(victim, lake, step, ("beforePublish:2", lambda: rewrite(lake.tables[1], 1)))
    session = survivor.session(lake.root)
    recover_by_begin_or_recover(session, step)
    check_rolled_back(lake)
    check(lake, [BEFORE, FOREIGN] + [BEFORE] * (tables - 2), session, plain)


def check_rolled_back(lake):
    """The second table was closed; the others are published at once with it, and were undone."""
    assert lake.outcome(1)["conflict"]["rule"] == "same-file"
    assert lake.outcome(1)["conflict"]["path"] == f"file:{lake.tables[1]}"
    settled = lake.rolled_back(1)["tables"]
    first, second, *rest = lake.tables
    assert [table["how"] for table in settled] == ["undone", "closed", *["undone"] * len(rest)]
    assert [table["residue"] for table in settled] == [[]] * len(settled)
    assert lake.own_commits(second) == ["close"]
    for path in (first, *rest):
        assert lake.own_commits(path) == ["publish", "undo"]


# What comes after the end nobody waits for.
COMPLETING = ["beforePublish:1", "beforePublish:2", "beforeDecision:1"]
ROLLING_BACK = [
    *("beforePublish:1", "beforeDecision:1", "beforeSettle:1", "beforeSettle:2"),
    "beforeRolledBack:1",
]


@pytest.mark.parametrize("conflict", [False, pytest.param(True, marks=LONG)])
def test_two_clients_that_recover_in_step_agree(drivers, plain, tmp_path, conflict):
    victim, *clients = drivers(3)
    lake = Lake(tmp_path, 2)
    kill_at(victim, lake, "ordered:1")
    if conflict:
        rewrite(lake.tables[1], 1)
    barriers, answers = recover_in_step(clients, lake)
    assert barriers == [{step} for step in (ROLLING_BACK if conflict else COMPLETING)]
    assert answers[0] == answers[1]
    [[entry, _, outcome, residue]] = answers[0]
    assert (entry, residue) == (1, "")
    if conflict:
        assert outcome == "ROLLED_BACK"
        check_rolled_back(lake)
    else:
        assert outcome == "COMPLETED"
    expected = [BEFORE, FOREIGN] if conflict else [AFTER, AFTER]
    check(lake, expected, clients[0].session(lake.root), plain)


def recover_in_step(clients, lake):
    """Let two clients recover, each held before each step until the other is there, too.

    Returns where they were at each barrier, and what RECOVER told them.
    """
    orders = [f"{step.split(':')[0]}:*" for step in (*COMPLETING, *ROLLING_BACK)]
    with clients[0].halts(*orders) as one, clients[1].halts(*orders) as two:
        both = (one, two)
        answers = [
            halts.during(client.session(lake.root).start_sql("RECOVER"))
            for client, halts in zip(clients, both, strict=True)
        ]
        barriers = []
        while any(places := [halts.reached() for halts in both]):
            assert all(places), f"one client is at {places}"
            barriers.append(set(places))
            for halts in both:
                halts.go()
        return barriers, [answer.result(TIMEOUT_S) for answer in answers]


ZOMBIE_STEPS = [
    "beforePublish:1",
    "published:1",
    *(pytest.param(s, marks=LONG) for s in ("ordered:1", "beforePublish:2", "beforeDecision:1")),
]


@pytest.mark.parametrize("step", ZOMBIE_STEPS)
def test_a_driver_that_wakes_up_after_others_finished_reports_its_commit(
    drivers, plain, tmp_path, step
):
    zombie, helper = drivers(2)
    lake = Lake(tmp_path, 2)
    session = helper.session(lake.root)
    with zombie.halts(step) as halts:
        woken, commit = start_transaction(zombie, lake)
        halts.during(commit)
        assert halts.reached() == step
        zombie.freeze()
        [[entry, transaction, outcome, _]] = session.sql("RECOVER")
        assert (entry, outcome) == (1, "COMPLETED")
        session.sql("BEGIN", *lake.sql(LATER), "COMMIT")
        zombie.thaw()
        halts.go()
        assert commit.result(TIMEOUT_S) == [[transaction, 1, 2, []]]
    later = [(1, "new"), (2, "later")]
    for path in lake.tables:
        assert lake.own_commits(path) == ["publish", "publish"]
        assert lake.rows(path) == later
        assert woken.sql(f"SELECT * FROM delta.`{path}` ORDER BY id") == later
    check(lake, [later] * 2, woken, plain)


def test_a_statement_outside_a_transaction_first_finishes_what_a_dead_driver_left(
    drivers, tmp_path
):
    doomed, other = drivers(2, spare=True)
    lake = Lake(tmp_path, 2)
    kill_at(doomed, lake, "published:1")
    session = other.session(lake.root)
    [published] = [path for path in lake.tables if lake.own_commits(path)]
    assert lake.outcome(1) is None
    session.sql(f"DELETE FROM delta.`{published}` WHERE id = 2")
    assert lake.outcome(1)["outcome"] == "completed"
    for path in lake.tables:
        assert lake.own_commits(path) == ["publish"]
        assert lake.rows(path) == [(1, "new")] + ([(2, "old")] if path != published else [])
    lake.check_timeline()


ZOMBIE_ROLLBACK_STEPS = [
    "beforePublish:2",
    *(pytest.param(s, marks=LONG) for s in ("ordered:1", "beforePublish:1", "published:1")),
]


@pytest.mark.parametrize("step", ZOMBIE_ROLLBACK_STEPS)
def test_a_driver_that_wakes_up_after_a_rollback_reports_the_conflict(
    drivers, plain, tmp_path, step
):
    zombie, helper = drivers(2)
    lake = Lake(tmp_path, 2)
    session = helper.session(lake.root)
    with zombie.halts(step) as halts:
        woken, commit = start_transaction(zombie, lake)
        halts.during(commit)
        assert halts.reached() == step
        zombie.freeze()
        rewrite(lake.tables[1], 1)
        [[entry, transaction, outcome, residue]] = session.sql("RECOVER")
        assert (entry, outcome, residue) == (1, "ROLLED_BACK", "")
        versions = [lake.version(path) for path in lake.tables]
        zombie.thaw()
        halts.go()
        with pytest.raises(DriverError) as conflict:
            commit.result(TIMEOUT_S)
    assert (conflict.value.main_condition, conflict.value.sql_state) == (
        "LAKESTEP_CONFLICT",
        "40001",
    )
    assert conflict.value.parameters["transaction"] == transaction
    assert [lake.version(path) for path in lake.tables] == versions
    check_rolled_back(lake)
    woken.sql("ROLLBACK")
    check(lake, [BEFORE, FOREIGN], woken, plain)


@pytest.mark.long
def test_what_a_foreign_commit_built_upon_is_kept_and_listed(drivers, plain, tmp_path):
    victim, survivor = drivers(2, spare=True)
    lake = Lake(tmp_path, 2)

    def build_upon_one_and_conflict_in_the_other():
        rewrite(lake.tables[0], 1)
        rewrite(lake.tables[1], 1)

    meanwhile = ("published:1", build_upon_one_and_conflict_in_the_other)
    kill_at(victim, lake, "published:1", meanwhile)
    session = survivor.session(lake.root)
    [[entry, _, outcome, residue]] = session.sql("RECOVER")
    assert (entry, outcome) == (1, "ROLLED_BACK")
    undone, closed = lake.rolled_back(1)["tables"]
    assert undone["residue"]
    assert closed["residue"] == []
    assert all(file in residue for file in undone["residue"])
    assert session.sql("RECOVER") == []
    check(lake, [FOREIGN, FOREIGN], session, plain)


def test_a_rollback_that_leaves_something_is_told_and_not_run_again(drivers, tmp_path):
    driver, other = drivers(2)
    lake = Lake(tmp_path, 2)
    session = driver.session(lake.root)
    with driver.halts("published:1") as halts:
        update = "UPDATE {} SET v = concat(v, '+')"
        commit = session.start_sql("; ".join(["BEGIN", *lake.sql(update), "COMMIT"]))
        halts.during(commit)
        assert halts.reached() == "published:1"
        rewrite(lake.tables[0], 1)
        rewrite(lake.tables[1], 1)
        halts.go()
        with pytest.raises(DriverError) as error:
            commit.result(TIMEOUT_S)
    told = error.value
    assert (told.condition, told.sql_state) == ("LAKESTEP_ROLLED_BACK_WITH_RESIDUE", "2D000")
    undone, _ = lake.rolled_back(1)["tables"]
    assert undone["residue"] and all(
        file in told.parameters["residue"] for file in undone["residue"]
    )
    assert lake.entry_numbers() == [1]
    assert session.sql("SELECT 1") == [(1,)]
    assert other.session(lake.root).sql("RECOVER") == []
