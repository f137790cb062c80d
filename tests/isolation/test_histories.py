"""What clients in several drivers appended to lists and read, judged by `anomalies`."""

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet
import pytest

import adya
from anomalies import APPEND, READ, Txn, check
from driver import DriverError
from lake import Lake
from list_append import INSERTED, KEYS, TABLES
from process import Died

DRIVERS = 4
EACH = 2
PART = 50
LEVELS = ("SNAPSHOT", "SERIALIZABLE")


class Lists:
    """The clients of one history. It has parts, each with tables of its own."""

    def __init__(self, folder, borrow, seed, levels):
        self.lake = Lake(folder)
        self.borrow = borrow
        self.drivers = borrow(DRIVERS, spare=True)
        self.random = random.Random(seed)
        self.levels = levels
        self.values, self.numbers, self.names = count(1), count(), count()
        self.history = []
        self.stop = False

    def part(self, number, size):
        """Run that many transactions; a driver dies between the two tables of one of them."""
        tables = {name: str(self.lake.folder / f"{name}{number}") for name in TABLES}
        self.drivers[0].session(self.lake.root).call("list_append:create", tables=tables)
        first = len(self.history)
        with ThreadPoolExecutor(DRIVERS * EACH + EACH) as threads:
            work = []

            def start(driver):
                for _ in range(EACH):
                    client = _Client(self, driver, number, tables, self.random.random())
                    work.append(threads.submit(client.work, first, size))

            try:
                for driver in self.drivers:
                    start(driver)
                self._kill_one()
                start(self.drivers[0])
                for future in as_completed(work):
                    future.result()
            finally:
                self.stop = True
        self.stop = False
        everything = [(READ, table, key, None) for table in TABLES for key in range(KEYS)]
        last = _Client(self, self.drivers[0], number, tables, 0)
        assert last.attempt("BEGIN", everything).outcome == "ok"
        self._order(number, self._inserts(tables[INSERTED]))

    def _kill_one(self):
        """Kill the first driver when it has published one table of a transaction; start another."""
        with self.drivers[0].halts("published:1") as halts:
            assert halts.reached() == "published:1"
            self.drivers[0].kill()
        self.drivers = [*self.borrow(1), *self.drivers[1:]]

    def done(self, first):
        return sum(txn.outcome == "ok" for txn in self.history[first:])

    def _inserts(self, path):
        """The place of each row in the order of the log."""
        places = {}
        for version in range(self.lake.version(path) + 1):
            rows = set()
            for action in self.lake.actions(path, version):
                if "add" in action:
                    file = Path(path, unquote(action["add"]["path"]))
                    rows |= {tuple(row.values()) for row in _rows(file)}
            for row in sorted(rows - places.keys()):
                places[row] = len(places)
        return places

    def _order(self, part, places):
        """Rows have no order; give them that of the log."""

        def ordered(kind, key, value):
            if kind == READ and key.startswith(f"{INSERTED}{part}/"):
                number = int(key.split("/")[1])
                value = sorted(value, key=lambda v: (places.get((number, v), len(places)), v))
            return kind, key, value

        self.history = [
            replace(txn, ops=tuple(ordered(*op) for op in txn.ops)) for txn in self.history
        ]


def _rows(file):
    return pyarrow.parquet.read_table(file, partitioning=None).to_pylist()


class _Client:
    """A session of a driver, one transaction after the other."""

    def __init__(self, lists, driver, part, tables, seed):
        self.lists = lists
        self.session = driver.session(lists.lake.root)
        self.part = part
        self.tables = tables
        self.random = random.Random(seed)
        self.name = f"client {next(lists.names)}"

    def work(self, first, size):
        while not self.lists.stop and self.lists.done(first) < size:
            if self.attempt(*self._plan()).outcome == "info":
                return

    def _plan(self):
        """Mostly queries, which take least time."""
        chance = self.random.random()
        if chance < 0.65:
            begin = None if chance < 0.57 else "BEGIN READ ONLY"
            tables = self.random.sample(TABLES, self.random.randint(2, 3))
            return begin, [self._read(table) for table in tables]
        others = (self._append, lambda: self._read(self.random.choice(TABLES)))
        makers = [
            self._append,
            *(self.random.choice(others) for _ in range(self.random.randrange(4))),
        ]
        self.random.shuffle(makers)
        # Made in this order, as the rows of one transaction are read in the order of their values.
        ops = [make() for make in makers]
        return f"BEGIN ISOLATION LEVEL {self.random.choice(self.lists.levels)}", ops

    def _read(self, table):
        return READ, table, self._key(), None

    def _append(self):
        [table] = self.random.choices(TABLES, (2, 1, 1))
        return APPEND, table, self._key(), next(self.lists.values)

    def _key(self):
        return self.random.randrange(KEYS)

    def attempt(self, begin, ops):
        call = {"tables": self.tables, "begin": begin, "ops": ops}
        began = time.monotonic()
        outcome, answers = "ok", []
        try:
            answers = self.session.call("list_append:run", **call)
        except Died:
            outcome = "info"
        except DriverError as error:
            if error.sql_state not in ("40001", "08007"):
                raise
            outcome = "fail" if error.sql_state == "40001" else "info"
        reads = iter(answers if outcome == "ok" else ())
        txn = Txn(
            next(self.lists.numbers),
            self.name,
            began,
            time.monotonic(),
            tuple(
                (kind, f"{table}{self.part}/{key}", next(reads) if kind == READ else value)
                for kind, table, key, value in ops
                if kind == APPEND or outcome == "ok"
            ),
            outcome,
            serializable=begin is not None and "SERIALIZABLE" in begin,
            strict=begin not in (None, "BEGIN READ ONLY"),
        )
        self.lists.history.append(txn)
        return txn


def is_inserted(key):
    return key.startswith(INSERTED)


def inserted(history):
    return {key for txn in history for _, key, _ in txn.ops if is_inserted(key)}


def for_adya(history, level):
    """What it can judge: transactions that must see all before them, each key by its updates.

    An INSERT of two who did not see each other is a lost update to it, which SNAPSHOT allows.
    """
    kept = [
        replace(
            txn,
            ops=tuple(op for op in txn.ops if level == "SERIALIZABLE" or not is_inserted(op[1])),
        )
        for txn in history
        if txn.strict
    ]
    return [txn for txn in kept if txn.ops]


def planted(history):
    """The history with one fault each, by what it must be called.

    The last transaction read every list; `x` and `y` are the longest two arrays. What is planted
    beside changes of the record itself comes after it.
    """
    last = history[-1]
    writer = {
        (key, value): txn
        for txn in history
        for kind, key, value in txn.ops
        if kind == APPEND and txn.outcome == "ok" and not is_inserted(key)
    }
    lists = [(key, values) for _, key, values in last.ops if (key, *values[-1:]) in writer]
    (x, xs), (y, ys) = sorted(lists, key=lambda read: -len(read[1]))[:2]
    newest = writer[x, xs[-1]]
    older = [value for value in xs if value not in newest.appends[x]]

    def then(*ops, step=1, client="someone"):
        began = last.ended + step
        ended = began + step / 2
        return replace(last, number=next(new), client=client, began=began, ended=ended, ops=ops)

    def changed(change):
        return [replace(txn, ops=tuple(map(change, txn.ops))) for txn in history]

    def without(op):
        kind, key, value = op
        return (kind, key, [v for v in value if v != xs[-1]]) if key == x and kind == READ else op

    new = count(last.number + 1)
    wrote_both = then((APPEND, x, -1), (APPEND, y, -2))
    skew = [
        then((READ, one, read), (APPEND, other, value), client=other)
        for one, read, other, value in ((x, xs, y, -2), (y, ys, x, -1))
    ]
    both = then((READ, x, [*xs, -1]), (READ, y, [*ys, -2]), step=2)
    aborted = [replace(txn, outcome="fail") if txn is newest else txn for txn in history]
    return {
        "lost-append": changed(without),
        "G-single-realtime": [*history, then((READ, x, older))],
        "G-single": [*history, wrote_both, then((READ, x, [*xs, -1]), (READ, y, ys), client="z")],
        "G2-item": [*history, *(replace(txn, serializable=True) for txn in skew), both],
        "G1a": aborted,
        "duplicate-elements": [*history, then((READ, x, [*xs, xs[-1]]))],
    }


@pytest.mark.sliced(4)
@pytest.mark.parametrize(
    ("levels", "parts"),
    [
        pytest.param(LEVELS, 1, id="50"),
        pytest.param(LEVELS, 40, id="2000", marks=pytest.mark.long),
        pytest.param(LEVELS[:1], 8, id="snapshot", marks=pytest.mark.long),
        pytest.param(LEVELS[1:], 8, id="serializable", marks=pytest.mark.long),
    ],
)
def test_history_of_four_drivers_is_right_and_planted_faults_are_named(
    request, drivers, tmp_path, levels, parts
):
    seed = int(os.environ.get("LAKESTEP_TEST_SEED", random.randrange(2**32)))
    print(f"LAKESTEP_TEST_SEED={seed}")
    lists = Lists(tmp_path, drivers, seed, levels)
    for number in range(parts):
        began = time.monotonic()
        lists.part(number, PART)
        found = Counter(txn.outcome for txn in lists.history)
        print(f"part {number}: {time.monotonic() - began:.0f} s, in all {dict(found)}", flush=True)
    (tmp_path / "history.jsonl").write_text(adya.as_elle(lists.history))
    assert check(lists.history, inserted(lists.history)) == []
    lists.lake.check_timeline()
    assert lists.done(0) >= parts * PART
    faulty = planted(lists.history)
    for kind, history in faulty.items():
        assert kind in {anomaly.kind for anomaly in check(history, inserted(history))}
    if request.node.get_closest_marker("long"):
        level, file = levels[0], tmp_path / "adya.jsonl"
        assert adya.is_right(for_adya(lists.history, level), level, file)
        for kind, history in faulty.items():
            allowed = kind == "G2-item" and level == "SNAPSHOT"
            assert adya.is_right(for_adya(history, level), level, file) == allowed
