"""Random histories of a database: every earlier state is what a model says it was."""

import os
import random
from collections import Counter
from datetime import timedelta
from itertools import count
from typing import NamedTuple

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakestep
from transactions import condition_of, folder

pytestmark = [pytest.mark.classic, pytest.mark.usefixtures("no_transaction_left")]

SCHEMAS = ("north", "south")
NAMES = [f"{schema}.t{number}" for schema in SCHEMAS for number in range(6)]
VIEWS = [f"{schema}.v{number}" for schema in SCHEMAS for number in range(2)]
LOST = {"LAKESTEP_NOT_THERE_AS_OF", "LAKESTEP_SNAPSHOT_CUT", "LAKESTEP_DATA_FILE_GONE"}
GONE = {"LAKESTEP_UNDO_FILES_GONE", "LAKESTEP_UNDO_CUT"}
# Why a transaction cannot be taken back.
KEPT = {"LAKESTEP_REVERT_BUILT_UPON", "LAKESTEP_ALREADY_REVERTED", "LAKESTEP_REVERT_OF_UNDO"}
# Ways to ask for a state: after an entry, by its time, a millisecond before that, before it.
POINTS = ("VERSION", "TIMESTAMP", "TIMESTAMP BEFORE", "BEFORE TRANSACTION")
RESTORED = ("DATABASE", "SCHEMA", "TABLES")
STEPS = int(os.environ.get("LAKESTEP_HISTORY_STEPS", "350"))


class Model:
    """What the names stand for, by an identity: the rows of a table, the name that a view reads."""

    def __init__(self):
        self.numbers = count()
        self.tables = {}
        self.views = {}

    def copy(self):
        return State(self.tables, self.views).copied()

    def become(self, state):
        self.tables, self.views = state.tables, state.views


class State(NamedTuple):
    """An earlier state of the model."""

    tables: dict
    views: dict

    def copied(self):
        tables = {name: (table, dict(rows)) for name, (table, rows) in self.tables.items()}
        return State(tables, dict(self.views))

    def read(self, view):
        """The table behind a view, and what the view shows of it; None where there is none."""
        _, name = self.views[view]
        if name not in self.tables:
            return None
        table, rows = self.tables[name]
        return table, {key: value for key, value in rows.items() if key % 2}


class History:
    """Random steps of one session, each done to the model, too."""

    def __init__(self, session, seed):
        self.session = session
        self.random = random.Random(seed)
        self.model = Model()
        self.ids = count()
        # The states after each entry, and before it, with all that was written outside up to then.
        self.versions = {}
        self.before = {}
        self.snapshots = {}
        # The entry of each transaction.
        self.transactions = {}
        self.done = Counter()
        # By identity of the table, the newest version of the database that VACUUM may have hit.
        self.vacuumed = {}

    def sql(self, text):
        return self.session.sql(text).collect()

    # Changes.

    def change(self, name):
        """A statement that changes rows of a table, done to the model."""
        _, rows = self.model.tables[name]
        kind = self.random.choice(["insert", "insert", "update", "delete", "replace"])
        part = self.random.randrange(3)
        if kind == "insert":
            new = {next(self.ids): f"v{self.random.randrange(9)}" for _ in range(3)}
            rows.update(new)
            values = ", ".join(f"({key}, '{value}')" for key, value in new.items())
            return f"INSERT INTO {name} VALUES {values}"
        if kind == "update":
            rows.update({key: f"{value}'" for key, value in rows.items() if key % 3 == part})
            return f'UPDATE {name} SET v = concat(v, "\'") WHERE id % 3 = {part}'
        if kind == "delete":
            for key in [key for key in rows if key % 3 == part]:
                del rows[key]
            return f"DELETE FROM {name} WHERE id % 3 = {part}"
        kept = {key: value for key, value in rows.items() if key % 3 != part}
        rows.clear()
        rows.update(kept)
        return f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE id % 3 <> {part}"

    def rename(self):
        """A statement that changes names, done to the model."""
        tables = self.model.tables
        free = [name for name in NAMES if name not in tables]
        kind = self.random.choice(["create", "drop", "rename", "view", "view"])
        if tables and kind == "view":
            return self.view()
        if free and (kind == "create" or len(tables) < 6):
            name = self.random.choice(free)
            tables[name] = (next(self.model.numbers), {})
            return f"CREATE TABLE {name} (id INT, v STRING) USING delta"
        name = self.random.choice(sorted(tables))
        if kind == "rename" and (beside := [n for n in free if schema_of(n) == schema_of(name)]):
            new = self.random.choice(beside)
            tables[new] = tables.pop(name)
            return f"ALTER TABLE {name} RENAME TO {new}"
        del tables[name]
        return f"DROP TABLE {name}"

    def view(self):
        """A statement that makes, replaces or drops a view, done to the model."""
        name, views = self.random.choice(VIEWS), self.model.views
        if name in views and self.random.random() < 0.4:
            del views[name]
            return f"DROP VIEW {name}"
        target = self.random.choice(sorted(self.model.tables))
        views[name] = (next(self.model.numbers), target)
        return f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {target} WHERE id % 2 = 1"

    def transact(self):
        before = self.model.copy()
        with lakestep.transaction(self.session) as txn:
            for _ in range(self.random.randint(1, 3)):
                names = sorted(self.model.tables)
                if not names or self.random.random() < 0.3:
                    self.sql(self.rename())
                else:
                    self.sql(self.change(self.random.choice(names)))
            if rolls_back := self.random.random() < 0.15:
                txn.rollback()
        if rolls_back:
            self.model.become(before)
        elif txn.entry is not None:
            self.before[txn.entry] = before
            self.versions[txn.entry] = self.model.copy()
            self.transactions[txn.id] = txn.entry

    def write_outside(self):
        """A statement of its own, or a commit of a client without Lakestep."""
        if not (names := sorted(self.model.tables)):
            return
        name = self.random.choice(names)
        kind = self.random.choice(["statement", "statement", "foreign", "optimize"])
        if kind == "statement":
            self.sql(self.change(name))
        elif kind == "optimize":
            self.sql(f"OPTIMIZE {name}")
        else:
            new = {next(self.ids): "foreign"}
            self.model.tables[name][1].update(new)
            ids = pa.array(list(new), pa.int32())
            rows = pa.table({"id": ids, "v": pa.array(list(new.values()))})
            write_deltalake(folder(self.session, name), rows, mode="append")

    def create_snapshot(self):
        name = f"s{next(self.ids)}"
        if not self.versions:
            return
        if self.random.random() < 0.7:
            self.sql(f"CREATE SNAPSHOT {name}")
            self.snapshots[name] = self.model.copy()
            return
        point, state, _ = self.point(POINTS[:3], self.versions)
        try:
            ((*_, missing, _),) = self.sql(f"CREATE SNAPSHOT {name} AS OF {point}")
        except Exception as failure:
            if condition_of(failure) not in LOST:
                raise
            self.done["refused"] += 1
        else:
            # A table that was made anew at its place may be missing.
            self.snapshots[name] = State({}, {}) if missing else state

    def drop_snapshot(self):
        if self.snapshots:
            name = self.random.choice(sorted(self.snapshots))
            del self.snapshots[name]
            self.sql(f"DROP SNAPSHOT {name}")

    def vacuum(self):
        last = max(self.versions, default=0)
        if self.random.random() < 0.3:
            rows = self.sql("VACUUM DROPPED TABLES RETAIN 0 HOURS")
            self.done["purged"] += sum(row["result"] == "DELETED" for row in rows)
            live = {table for table, _ in self.model.tables.values()}
            for table in range(next(self.model.numbers)):
                if table not in live:
                    self.vacuumed[table] = last
        elif names := sorted(self.model.tables):
            name = self.random.choice(names)
            self.sql(f"VACUUM {name} RETAIN 0 HOURS")
            self.vacuumed[self.model.tables[name][0]] = last

    # What is taken back.

    def undo(self, statement, expected, may_fail):
        """A statement that leaves the model in a state, or changes nothing."""
        before, newest = self.model.copy(), self.newest()
        try:
            done = self.sql(statement)
        except Exception as failure:
            if condition_of(failure) not in may_fail:
                raise
            self.done["kept"] += 1
            return False
        self.model.become(expected)
        entry = self.newest()
        assert entry in (newest, newest + 1), done
        # It makes no entry where everything is so already, but for what was written outside since.
        self.versions.setdefault(entry, self.model.copy())
        self.before.setdefault(entry, before)
        self.compare()
        return True

    def newest(self):
        ((entry,),) = self.sql("SELECT max(entry) FROM lakestep_timeline()")
        return entry

    def names(self):
        return {
            f"{schema}.{row['tableName']}"
            for schema in SCHEMAS
            for row in self.sql(f"SHOW TABLES IN {schema}")
        }

    def compare(self):
        """The names that there are, and all that they stand for, with the model."""
        state = self.model.copy()
        assert self.names() == {*state.tables, *state.views}
        for name, (_, rows) in state.tables.items():
            assert self.rows(f"SELECT * FROM {name}") == rows, name
        for name in state.views:
            self.see(state, name, "now")

    def see(self, state, view, where, may_be_lost=lambda table: False):
        """What a view shows, or that the table is not there that it reads."""
        query, read = f"SELECT * FROM {view}", state.read(view)
        if read is not None:
            table, rows = read
            self.same(rows, query, where, may_be_lost(table))
            self.done["views"] += 1
            return
        with pytest.raises(Exception) as failure:
            self.sql(query)
        assert condition_of(failure.value) == "TABLE_OR_VIEW_NOT_FOUND", (query, where)

    def restore(self):
        if not self.versions:
            return
        if self.snapshots and self.random.random() < 0.4:
            name = self.random.choice(sorted(self.snapshots))
            state, point, may_fail = self.snapshots[name], f"SNAPSHOT {name}", set()
            version = None
        else:
            point, state, version = self.point(POINTS, sorted(self.versions)[-12:])
            tables = state.tables.values()
            hit = any(self.vacuumed.get(table, -1) >= version for table, _ in tables)
            may_fail = LOST | GONE if hit else set()
        copied, now = state.copied(), self.model.copy()
        kind = self.random.choice(RESTORED)
        if kind == "DATABASE":
            what, expected = "", copied
            # A table without a name may be gone, too.
            may_fail = may_fail | (LOST | GONE if self.vacuumed else set())
        elif kind == "SCHEMA":
            what = self.random.choice(SCHEMAS)
            expected = State(
                *(
                    {name: one for name, one in current.items() if schema_of(name) != what}
                    | {name: one for name, one in then.items() if schema_of(name) == what}
                    for current, then in zip(now, copied, strict=True)
                )
            )
        elif not state.tables:
            return
        else:
            some = self.random.sample(sorted(state.tables), min(2, len(state.tables)))
            back = {copied.tables[name][0] for name in some}
            stay = {n: t for n, t in now.tables.items() if t[0] not in back}
            tables = stay | {name: copied.tables[name] for name in some}
            # One that loses its name gets the one that it had then, if that is free.
            were = {table: name for name, (table, _) in state.tables.items()}
            for name in set(some) & stay.keys():
                if earlier := were.get(stay[name][0]):
                    if earlier in tables:
                        may_fail = may_fail | {"LAKESTEP_UNDO_NAME_TAKEN"}
                    tables[earlier] = stay[name]
            expected = State(tables, now.views)
            what = f"({', '.join(some)})"
        self.done[kind] += self.undo(f"RESTORE {kind} {what} TO {point}", expected, may_fail)

    def revert(self):
        if not self.transactions:
            return
        id = self.random.choice(list(self.transactions)[-3:])
        entry = self.transactions[id]
        before, after = self.before[entry].copied(), self.versions[entry]
        expected = self.model.copy()
        rows_before = dict(before.tables.values())
        rows_after = dict(after.tables.values())
        for table, rows in list(expected.tables.values()):
            if table in rows_before and table in rows_after:
                was, became = rows_before[table], rows_after[table]
                for key in became.keys() - was.keys():
                    rows.pop(key, None)
                for key, value in was.items():
                    if became.get(key) != value:
                        rows[key] = value
        moved = dict(expected.tables.values())
        for names, were, became in zip(expected, before, after, strict=True):
            for name in were.keys() | became.keys():
                then, now = were.get(name), became.get(name)
                if (then and then[0]) != (now and now[0]):
                    names.pop(name, None)
                    if then is not None:
                        # Under its other name a table may have changed since.
                        names[name] = (then[0], moved.get(then[0], then[1]))
        if self.undo(
            f"REVERT TRANSACTION '{id}'", expected, KEPT | (GONE if self.vacuumed else set())
        ):
            del self.transactions[id]
            self.done["reverted"] += 1

    # What was.

    def point(self, kinds, entries):
        """A point of the past as SQL calls it, the state there, and its version."""
        entry, kind = self.random.choice(sorted(entries)), self.random.choice(kinds)
        asked = "max_by(transaction_id, entry), max(ended_at)"
        ((id, ended),) = self.sql(f"SELECT {asked} FROM lakestep_timeline() WHERE entry <= {entry}")
        self.done[kind] += 1
        if kind == "TIMESTAMP BEFORE" and entry > 1:
            return f"TIMESTAMP '{ended - timedelta(milliseconds=1)}'", self.before[entry], entry - 1
        if kind == "BEFORE TRANSACTION":
            return f"BEFORE TRANSACTION '{id}'", self.before[entry], entry - 1
        point = f"VERSION {entry}" if kind == "VERSION" else f"TIMESTAMP '{ended}'"
        return point, self.versions[entry], entry

    def rows(self, query):
        found = [(row["id"], row["v"]) for row in self.sql(query)]
        assert len(found) == len(dict(found)), f"{query}: rows twice in {sorted(found)}"
        return dict(found)

    def check(self, state, clause, may_be_lost):
        """The names in an earlier state, and what some of them stand for, in a transaction."""
        self.sql(f"BEGIN READ ONLY AS OF {clause}")
        try:
            assert self.names() == {*state.tables, *state.views}, clause
            tables = sorted(state.tables.items())
            some = self.random.sample(tables, min(3, len(tables)))
            safe = {n: rows for n, (t, rows) in some if not may_be_lost(t)}
            if safe:
                # One query is faster than several.
                every = " UNION ALL ".join(
                    f"SELECT *, '{name}' AS name FROM {name}" for name in safe
                )
                found = [(row["name"], row["id"], row["v"]) for row in self.sql(every)]
                expected = [(n, key, v) for n, rows in safe.items() for key, v in rows.items()]
                assert sorted(found) == sorted(expected), clause
                self.done["read"] += len(safe)
            for name, (_, rows) in some:
                if name not in safe:
                    self.same(rows, f"SELECT * FROM {name}", clause, may_be_lost=True)
            for name in self.random.sample(sorted(state.views), min(1, len(state.views))):
                self.see(state, name, clause, may_be_lost)
        finally:
            self.sql("ROLLBACK")

    def same(self, rows, query, clause, may_be_lost):
        try:
            found = self.rows(query)
        except Exception as failure:
            if not may_be_lost:
                raise
            told = condition_of(failure) or str(failure)
            assert told in LOST or "FAILED_READ_FILE" in told or "DELTA_" in told, told
            self.done["lost"] += 1
        else:
            assert found == rows, (query, clause)
            self.done["read"] += 1

    def look(self):
        if not self.versions:
            return
        point, state, version = self.point(POINTS[:3], self.versions)

        def may_be_lost(table):
            return self.vacuumed.get(table, -1) >= version

        self.check(state, point, may_be_lost)
        if state.tables and point == f"VERSION {version}":
            name = self.random.choice(sorted(state.tables))
            table, rows = state.tables[name]
            query = f"SELECT * FROM {name} VERSION AS OF 'db:{version}'"
            self.same(rows, query, "outside", may_be_lost(table))

    def look_at_snapshot(self):
        if self.snapshots:
            self.read_snapshot(*self.random.choice(sorted(self.snapshots.items())))

    def read_snapshot(self, snapshot, state):
        if state.tables:
            self.check(state, f"SNAPSHOT {snapshot}", lambda table: False)
            name = self.random.choice(sorted(state.tables))
            query = f"SELECT * FROM {name} VERSION AS OF 'snapshot:{snapshot}'"
            self.same(state.tables[name][1], query, "outside", may_be_lost=False)

    def run(self, steps):
        kinds = {
            self.transact: 8,
            self.write_outside: 4,
            self.create_snapshot: 2,
            self.drop_snapshot: 1,
            self.vacuum: 2,
            self.restore: 3,
            self.revert: 5,
            self.look: 3,
            self.look_at_snapshot: 3,
        }
        for _ in range(steps):
            (step,) = self.random.choices(list(kinds), list(kinds.values()))
            step()
            self.done[step.__name__] += 1
        for name, state in self.snapshots.items():
            self.read_snapshot(name, state)
        self.compare()


def schema_of(name):
    return name.split(".")[0]


@pytest.fixture
def session(spark, tmp_path):
    made = spark.newSession()
    made.conf.set("spark.lakestep.root", f"file:{tmp_path}/timeline")
    made.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for schema in SCHEMAS:
        made.sql(f"CREATE SCHEMA {schema}")
    yield made
    for schema in SCHEMAS:
        made.sql(f"DROP SCHEMA {schema} CASCADE")


def test_earlier_states_are_what_a_model_says(session):
    history = History(session, seed=20)
    history.run(60)
    assert history.done["read"] > 20 and history.done["create_snapshot"], history.done
    kinds = (*POINTS, "DATABASE", "SCHEMA", "reverted", "views")
    assert all(history.done[kind] for kind in kinds), history.done


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_earlier_states_of_long_histories(session, seed):
    history = History(session, seed=1000 + seed)
    history.run(STEPS)
    print(history.done)
    assert all(history.done[kind] for kind in (*POINTS, *RESTORED)), history.done
    assert history.done["read"] > STEPS // 2 and history.done["lost"], history.done
    assert history.done["reverted"] > STEPS // 40, history.done
