"""What an older JAR wrote is read, finished and continued; old and new JARs work side by side."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arena import read_by_delta_rs
from driver import HALTING, TIMEOUT_S, Driver, DriverError
from lake import Lake
from old_lake import old_lake
from storm import change, replay

OLD = Path(__file__).parents[2] / "target" / "old" / "bc86795"

OLD_ROW, NEW_ROW, OTHER_ROW = (1, "old"), (1, "new"), (2, "old")
COMMITTED = [(10 + k, "k") for k in range(5)]
SERIALIZABLE = (20, "serializable")

# By the name of the table; see compat/make.py.
ROWS = {
    "first": [OLD_ROW, OTHER_ROW, *COMMITTED],
    "second": [OLD_ROW, OTHER_ROW, *COMMITTED, SERIALIZABLE],
    "closed": [OLD_ROW, OTHER_ROW, SERIALIZABLE],
    "undone": [OLD_ROW, OTHER_ROW],
    "conflict": [OTHER_ROW],
    "left": [NEW_ROW, OTHER_ROW],
    "behind": [NEW_ROW, OTHER_ROW],
    "fenced": [NEW_ROW, OTHER_ROW],
    "beside": [NEW_ROW, OTHER_ROW],
}


@pytest.fixture(name="old_lake")
def _old_lake():
    with old_lake() as found:
        yield found


@pytest.fixture
def session(old_lake, tmp_path):
    """Of a driver that has not met this timeline before, which comes back at the same place."""
    driver = Driver(tmp_path, HALTING)
    yield driver.session(old_lake[0].root)
    driver.kill()


def test_what_an_older_jar_left_is_finished_and_continued(session, old_lake):
    lake, facts = old_lake
    tables = facts["tables"]
    finished = session.sql("RECOVER")
    assert sorted((entry, outcome) for entry, _, outcome, _ in finished) == [
        (11, "COMPLETED"),
        (12, "COMPLETED"),
    ]
    assert {name: lake.rows(path) for name, path in tables.items()} == ROWS
    lake.check_timeline()
    described = session.sql(f"DESCRIBE TRANSACTION '{facts['open']}'")
    assert [row[1] for row in described] == ["REQUESTED"]
    [[aborted, folders, failed]] = session.sql("VACUUM TRANSACTIONS RETAIN 0 HOURS")
    assert (aborted, failed) == ([facts["open"]], [])
    assert folders == 2
    session.sql(
        "BEGIN", *lake.sql("INSERT INTO {} VALUES (40, 'later')", tables.values()), "COMMIT"
    )
    for name, path in tables.items():
        assert lake.rows(path) == sorted([*ROWS[name], (40, "later")]), name
        assert len(read_by_delta_rs(path)) == len(ROWS[name]) + 1


def test_readers_and_writers_meet_what_an_older_jar_left(session, old_lake):
    lake, facts = old_lake
    tables = facts["tables"]
    both = "SELECT 'left', * FROM delta.`{left}` UNION ALL SELECT 'behind', * FROM delta.`{behind}`"
    before = session.sql(both.format(**tables))
    assert sorted(before) == sorted(
        (name, *row) for name in ("left", "behind") for row in (OLD_ROW, OTHER_ROW)
    )
    session.sql(f"INSERT INTO delta.`{tables['behind']}` VALUES (50, 'outside')")
    assert lake.rows(tables["left"]) == ROWS["left"]
    assert lake.rows(tables["behind"]) == sorted([*ROWS["behind"], (50, "outside")])
    session.sql(f"UPDATE delta.`{tables['fenced']}` SET v = 'outside' WHERE id = 2")
    assert lake.rows(tables["fenced"]) == [NEW_ROW, (2, "outside")]
    assert lake.rows(tables["beside"]) == ROWS["beside"]


def old_drivers(folder, number):
    settings = {**HALTING, "spark.jars": str(OLD / "target" / "lakestep-tests.jar")}
    return [Driver(folder, settings, checkout=OLD) for _ in range(number)]


@pytest.mark.long
def test_an_older_jar_refuses_what_changes_names_and_takes_nothing_from_it(drivers, tmp_path):
    lake = Lake(tmp_path)
    [old], [new] = old_drivers(tmp_path, 1), drivers(1)
    one, other, session = (d.session(lake.root) for d in (old, old, new))
    table = f"delta.`{tmp_path}/table`"
    insert = f"INSERT INTO {table} VALUES ({{}})"

    def refuses(asked, *statements):
        for statement in statements:
            with pytest.raises(DriverError) as refused:
                asked.sql(statement)
            assert refused.value.condition == "LAKESTEP_TIMELINE_FEATURE_UNKNOWN", statement
            assert refused.value.sql_state == "0A000"
            assert refused.value.parameters["features"] == "names, newTables"

    try:
        one.sql(f"CREATE TABLE {table} USING delta AS SELECT 1 AS v")
        one.sql("BEGIN", insert.format(2), "COMMIT")
        other.sql("BEGIN", insert.format(3))
        with new.halts("published:1") as halts:
            change = "CREATE TABLE named USING delta AS SELECT 5 AS v"
            commit = halts.during(session.start_sql("BEGIN", insert.format(4), change, "COMMIT"))
            assert halts.reached() == "published:1"
            refuses(one, "RECOVER", "BEGIN", insert.format(6))
            refuses(other, "COMMIT")
            other.sql("ROLLBACK")
            halts.go()
            commit.result(TIMEOUT_S)
        refuses(one, "RECOVER", "BEGIN", insert.format(7))
    finally:
        old.kill()
    assert session.sql("SELECT * FROM named") == [(5,)]
    assert sorted(session.sql(f"SELECT * FROM {table}")) == [(1,), (2,), (4,)]
    lake.check_timeline()


@pytest.mark.long
def test_old_and_new_jar_side_by_side(drivers, plain, tmp_path):
    lake = Lake(tmp_path)
    tables = [str(tmp_path / name) for name in ("left", "right")]
    for path in tables:
        plain.ask("sql", text=f"CREATE TABLE delta.`{path}` (id BIGINT, v BIGINT) USING delta")
        plain.ask("sql", text=f"INSERT INTO delta.`{path}` SELECT id, 0 FROM range(0, 4, 1, 4)")
    old, new = old_drivers(tmp_path, 2), drivers(2)
    sessions = [driver.session(lake.root) for driver in (*old, *new)]

    def write(writer, session):
        for n in range(10):
            name, statements = change(writer, n)
            texts = [text for template in statements for text in lake.sql(template, tables)]
            session.sql("; ".join([f"BEGIN {name}", *texts, "COMMIT"]))

    try:
        with ThreadPoolExecutor(len(sessions)) as threads:
            for future in [threads.submit(write, *pair) for pair in enumerate(sessions)]:
                future.result()
        # What the one leaves the other finishes.
        for writer, (dying, heir) in enumerate(((old[0], new[0]), (new[1], old[1]))):
            name, statements = change(writer, 10)
            texts = [text for template in statements for text in lake.sql(template, tables)]
            with dying.halts("published:1") as halts:
                halts.during(
                    dying.session(lake.root).start_sql(
                        "; ".join([f"BEGIN {name}", *texts, "COMMIT"])
                    )
                )
                assert halts.reached() == "published:1"
                dying.kill()
            [[_, _, outcome, _]] = heir.session(lake.root).sql("RECOVER")
            assert outcome == "COMPLETED"
    finally:
        for driver in old:
            driver.kill()
    names = [lake.entry(n)["transaction"]["name"] for n in lake.entry_numbers()]
    assert [lake.rows(path) for path in tables] == [replay(names, 4)[-1]] * 2
    lake.check_timeline()
