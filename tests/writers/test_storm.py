"""A storm of commits over two tables, read by clients that never heard of Lakestep.

Each of their reads of one table is the table after some number of commits. How far two tables are
apart for them is not promised; the test measures and prints it.
"""

import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from statistics import median

import duckdb
import duckdb_extension_delta
import pytest
from deltalake import DeltaTable, QueryBuilder

from lake import Lake
from storm import change, replay

EXTENSION = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))


def delta_rs(path):
    rows = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT id, v FROM t").read_all()
    return sorted(zip(*(rows.column(i).to_pylist() for i in range(2)), strict=True))


def duck_db(path):
    with duckdb.connect() as db:
        db.execute(f"LOAD '{EXTENSION}'")
        return sorted(db.execute(f"SELECT id, v FROM delta_scan('file://{path}')").fetchall())


def plain_spark(plain):
    def read(path):
        rows = plain.ask("sql", text=f"SELECT id, v FROM delta.`{path}`")
        return sorted(tuple(json.loads(row)) for row in rows)

    return read


def read_until(stop, read, tables):
    """Read the two tables one after the other, again and again, and once more after `stop`."""
    pairs = []
    last = False
    while not last:
        last = stop.is_set()
        pairs.append([read(path) for path in tables])
    return pairs


@pytest.mark.parametrize(
    ("number", "commits"),
    [pytest.param(2, 3, id="small"), pytest.param(4, 20, id="full", marks=pytest.mark.long)],
)
def test_every_read_of_a_foreign_client_is_a_table_after_some_commits(
    drivers, plain, tmp_path, number, commits
):
    lake = Lake(tmp_path)
    settings = {"spark.lakestep.commit.publishThreads": "8"}
    writers = [driver.session(lake.root, **settings) for driver in drivers(number)]
    tables = [str(tmp_path / name) for name in ("left", "right")]
    for path, vectors in zip(tables, ("false", "true"), strict=True):
        plain.ask(
            "sql",
            text=f"CREATE TABLE delta.`{path}` (id BIGINT, v BIGINT) USING delta"
            f" TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')",
        )
        files = 1 if vectors == "true" else number
        rows = f"SELECT id, 0 FROM range(0, {number}, 1, {files})"
        plain.ask("sql", text=f"INSERT INTO delta.`{path}` {rows}")
    clients = {"deltalake": delta_rs, "DuckDB": duck_db, "Spark": plain_spark(plain)}
    for read in clients.values():
        assert [read(path) for path in tables] == [replay([], number)[0]] * 2
    stop = threading.Event()

    def write(writer, session):
        for n in range(commits):
            name, statements = change(writer, n)
            texts = [text for template in statements for text in lake.sql(template, tables)]
            session.sql("; ".join([f"BEGIN {name}", *texts, "COMMIT"]))

    began = time.monotonic()
    with ThreadPoolExecutor(number + len(clients)) as threads:
        reading = {
            name: threads.submit(read_until, stop, read, tables) for name, read in clients.items()
        }
        writing = [threads.submit(write, *pair) for pair in enumerate(writers)]
        try:
            for future in writing:
                future.result()
        finally:
            stop.set()
    pairs = {name: future.result() for name, future in reading.items()}

    entries = lake.entry_numbers()
    assert len(entries) == number * commits
    states = replay([lake.entry(n)["transaction"]["name"] for n in entries], number)
    for name, found in pairs.items():
        for rows in (rows for pair in found for rows in pair):
            assert rows in states, f"{name} read {rows}"
        assert found[-1] == [states[-1]] * 2
    lake.check_timeline()
    print(f"{len(entries)} commits in {time.monotonic() - began:.0f} s")
    report(lake, states, pairs)


def report(lake, states, pairs):
    """How many milliseconds, and how many commits, the two tables are apart."""
    gaps, ends = [], []
    for number in lake.entry_numbers():
        paths = [table["path"].removeprefix("file:") for table in lake.entry(number)["tables"]]
        first, last = sorted(
            Path(path, f"_delta_log/{slot:020}.json").stat().st_ctime_ns
            for path, [slot] in zip(paths, lake.outcome(number)["slots"], strict=True)
        )
        gaps.append((last - first) / 1e6)
        ends += [(first, 1), (last, -1)]
    gaps.sort()
    tail = gaps[int(len(gaps) * 0.95)]
    most = max(accumulate(step for _, step in sorted(ends)))
    print(
        f"apart: median {median(gaps):.1f} ms, 95 % {tail:.1f} ms, longest {gaps[-1]:.1f} ms,"
        f" {most} commits at most"
    )
    for name, found in pairs.items():
        distances = Counter(states.index(right) - states.index(left) for left, right in found)
        print(f"{name}, commits that right, read after left, is ahead: {sorted(distances.items())}")
