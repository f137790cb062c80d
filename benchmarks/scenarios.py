"""What is compared: the same statements with Lakestep and without, and how fast they must be.

A goal and a floor are ratios to plain Delta. The floor is missed when the whole 95 % interval lies
above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tpch

FACTS = "SELECT id, CAST(id % 7 AS INT) AS k, id % 1000 AS v FROM range(0, {rows}, 1, 2)"
SMALL = "SELECT CAST(id AS INT) AS id, 'first' AS v FROM range(0, 2, 1, 1)"
MERGE = """
MERGE INTO big USING (SELECT id * 100 + {n} AS id, {n} AS v FROM range(10000)) AS new
ON big.id = new.id WHEN MATCHED THEN UPDATE SET v = big.v + new.v
"""
MERGE_BY_RANGE = """
MERGE INTO wide USING (SELECT id, 1 AS v FROM range({first}, {last})) AS new
ON wide.id = new.id AND wide.id >= {first} AND wide.id < {last}
WHEN MATCHED THEN UPDATE SET v = wide.v + new.v
"""
# As a session is that nobody has set up, and as one who knows Delta would set it up for small
# statements.
STOCK = {"spark.sql.shuffle.partitions": "200", "spark.databricks.delta.snapshotPartitions": "50"}
EXPERT = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
}


@dataclass(frozen=True)
class Scenario:
    """The same work in every session, round by round.

    `tables` gives each table's first rows as a query, `body` the statements of a round. In a
    transaction they stand between BEGIN and COMMIT, whose time counts, unless `only_body`.
    Scenarios of the same number of `forks` run in the same drivers, whose sessions get `settings`
    for them. Each driver makes its own tables, which warms it up, unless that would take too long:
    then one makes them once, with the settings `made_with`. With several forks all of it is done
    again in new drivers, `rounds` in each. A short run has those that are `quick`.
    """

    name: str
    goal: float
    floor: float
    tables: Mapping[str, str]
    body: Callable[[int], list[str]]
    in_transaction: bool = True
    only_body: bool = False
    rounds: int = 15
    warm_up: int = 4
    settings: Mapping[str, str] = field(default_factory=dict)
    made_once: bool = False
    made_with: Mapping[str, str] = field(default_factory=dict)
    forks: int = 1
    quick: bool = False


def _three(kind: str) -> dict[str, Any]:
    """Return the tables and the body of the three statements."""
    facts, dims = f"facts{kind}", f"dims{kind}"

    def body(number: int) -> list[str]:
        some = number % 100
        return [
            f"INSERT INTO {facts} VALUES ({-number}, 1, 1), ({-number}, 2, 2)",
            f"INSERT INTO {facts} SELECT id + 1000000, k, v FROM {dims} WHERE id % 100 = {some}",
            f"UPDATE {dims} SET v = v + 1 WHERE id % 100 = {some}",
        ]

    return {"tables": dict.fromkeys((facts, dims), FACTS.format(rows=100_000)), "body": body}


def eight(number: int) -> list[str]:
    """Return a single-row INSERT into each of eight tables."""
    return [f"INSERT INTO one{table} VALUES ({number}, 'new')" for table in range(8)]


def _merge_by_range(number: int) -> list[str]:
    first = number % 100 * 10_000
    return [MERGE_BY_RANGE.format(first=first, last=first + 10_000)]


def _eleven(number: int) -> list[str]:
    inserts = [f"INSERT INTO many VALUES ({number * 10 + i}, 'new')" for i in range(10)]
    return [*inserts, f"UPDATE many SET v = 'changed' WHERE id = {number * 10}"]


THREE = Scenario(
    "INSERT, INSERT … SELECT, UPDATE over 2 tables",
    0.95,
    1.05,
    **_three(""),
    # These are the first that cold drivers do, and its floor is next to its ratio.
    warm_up=12,
    rounds=45,
    quick=True,
)
# A round of these takes long enough for fewer of them.
FEWER: dict[str, Any] = {"quick": False, "rounds": 7, "warm_up": 2}
# Work of seconds, of which the JVM compiles so much that two of them never do the same: the same
# SELECTs took 0.97 of plain Delta's time in one pair of drivers, 1.07 in the next.
FORKED: dict[str, Any] = {"rounds": 3, "warm_up": 4, "forks": 3, "made_once": True}

GENERATED = (
    THREE,
    Scenario(
        "8 single-row INSERTs into 8 tables",
        0.7,
        1.0,
        {f"one{table}": SMALL for table in range(8)},
        eight,
        quick=True,
    ),
    Scenario("10 INSERTs and 1 UPDATE of one table", 0.8, 1.0, {"many": SMALL}, _eleven, rounds=7),
    # In drivers that are warm.
    replace(
        THREE,
        name="The same with stock settings",
        **_three("_stock"),
        settings=STOCK,
        **FEWER | {"rounds": 5},
    ),
    replace(
        THREE,
        name="The same with the settings of an expert",
        **_three("_expert"),
        settings=EXPERT,
        **FEWER,
    ),
    Scenario(
        "MERGE of 1 % into 1,000,000 rows",
        1.0,
        1.05,
        {"big": FACTS.format(rows=1_000_000)},
        lambda number: [MERGE.format(n=number % 100)],
        **FORKED | {"made_once": False},
    ),
    Scenario(
        "MERGE of 1 % into 1,000,000 rows in 10,000 files",
        1.0,
        1.05,
        {"wide": FACTS.format(rows=1_000_000)},
        _merge_by_range,
        **FORKED,
        made_with={"spark.sql.files.maxRecordsPerFile": "100"},
    ),
    Scenario(
        "INSERT outside a transaction",
        1.0,
        1.02,
        {"alone": SMALL},
        lambda number: [f"INSERT INTO alone VALUES ({number}, 'new')"],
        in_transaction=False,
        quick=True,
    ),
)


SCALE = 0.1
REFRESH_ORDERS = 150
TPCH = (
    f"SELECTs in a transaction (Q1, Q4, Q12, count, point; scale {SCALE})",
    "The same SELECTs outside",
    f"RF1 and RF2 (scale {SCALE})",
)


def tpch_scenarios(folder: Path) -> tuple[Scenario, ...]:
    """Return the refresh functions and the queries, over files made in `folder`."""
    rounds, warm_up = 5, 2
    files, refreshes = folder / "tpch", folder / "refreshes"
    refreshes.mkdir(parents=True, exist_ok=True)
    tpch.generate(files, SCALE)
    reference = tpch.Reference(files, refreshes, held_back=rounds + warm_up, orders=REFRESH_ORDERS)
    loaded = {
        table: f"SELECT * FROM parquet.`{files}/{table}.parquet`"
        f" WHERE {key} < {reference.first_held_back}"
        for table, key in tpch.TABLES.items()
    }
    refreshed = [
        [*reference.rf1(number).statements, *reference.rf2(number).statements]
        for number in range(rounds + warm_up)
    ]

    def queries(number: int) -> list[str]:
        point = f"SELECT * FROM orders WHERE o_orderkey = {number * 32 + 1}"
        return [tpch.Q1, tpch.Q4, tpch.Q12, "SELECT count(*) FROM lineitem", point]

    return (
        Scenario(
            TPCH[0],
            1.01,
            1.05,
            loaded,
            queries,
            only_body=True,
            **FORKED,
        ),
        # The same drivers have just run these queries.
        Scenario(
            TPCH[1], 1.0, 1.02, loaded, queries, in_transaction=False, **FORKED | {"warm_up": 1}
        ),
        Scenario(
            TPCH[2],
            0.95,
            1.05,
            loaded,
            lambda number: refreshed[number],
            rounds=rounds,
            warm_up=warm_up,
            made_once=True,
        ),
    )
