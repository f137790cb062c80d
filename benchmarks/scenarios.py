"""What is compared: the same statements with Lakestep and without, and how fast they must be.

A goal and a floor are ratios to plain Delta. The floor is missed when the whole 95 % interval lies
above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

FACTS = "SELECT id, CAST(id % 7 AS INT) AS k, id % 1000 AS v FROM range(0, {rows}, 1, 2)"
SMALL = "SELECT CAST(id AS INT) AS id, 'first' AS v FROM range(0, 2, 1, 1)"
MERGE = """
MERGE INTO big USING (SELECT id * 100 + {n} AS id, {n} AS v FROM range(10000)) AS new
ON big.id = new.id WHEN MATCHED THEN UPDATE SET v = big.v + new.v
"""


@dataclass(frozen=True)
class Scenario:
    """The same work in every session, round by round.

    `tables` gives each table's first rows as a query, `body` the statements of a round. In a
    transaction they stand between BEGIN and COMMIT, whose time counts, unless `only_body`.
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


def _three(number: int) -> list[str]:
    return [
        f"INSERT INTO facts VALUES ({-number}, 1, 1), ({-number}, 2, 2)",
        f"INSERT INTO facts SELECT id + 1000000, k, v FROM dims WHERE id % 100 = {number % 100}",
        f"UPDATE dims SET v = v + 1 WHERE id % 100 = {number % 100}",
    ]


def _eight(number: int) -> list[str]:
    return [f"INSERT INTO one{table} VALUES ({number}, 'new')" for table in range(8)]


def _eleven(number: int) -> list[str]:
    inserts = [f"INSERT INTO many VALUES ({number * 10 + i}, 'new')" for i in range(10)]
    return [*inserts, f"UPDATE many SET v = 'changed' WHERE id = {number * 10}"]


def _queries(number: int) -> list[str]:
    return [
        "SELECT k, count(*), sum(v), avg(v) FROM facts2 GROUP BY k ORDER BY k",
        "SELECT count(*) FROM facts2 f WHERE EXISTS (SELECT * FROM dims2 d WHERE d.id = f.v)",
        "SELECT count(*) FROM facts2",
        f"SELECT * FROM facts2 WHERE id = {number * 997 % 1000000}",
    ]


THREE = Scenario(
    "INSERT, INSERT … SELECT, UPDATE over 2 tables",
    0.95,
    1.05,
    {name: FACTS.format(rows=100_000) for name in ("facts", "dims")},
    _three,
)

ALL = (
    THREE,
    Scenario(
        "8 single-row INSERTs into 8 tables",
        0.7,
        1.0,
        {f"one{table}": SMALL for table in range(8)},
        _eight,
    ),
    Scenario("10 INSERTs and 1 UPDATE of one table", 0.8, 1.0, {"many": SMALL}, _eleven),
    Scenario(
        "MERGE of 1 % into 1,000,000 rows",
        1.0,
        1.05,
        {"big": FACTS.format(rows=1_000_000)},
        lambda number: [MERGE.format(n=number % 100)],
        rounds=7,
        warm_up=2,
    ),
    Scenario(
        "SELECTs in a transaction",
        1.01,
        1.05,
        {"facts2": FACTS.format(rows=1_000_000), "dims2": FACTS.format(rows=1000)},
        _queries,
        only_body=True,
    ),
    Scenario(
        "SELECTs outside a transaction",
        1.0,
        1.02,
        {"facts2": FACTS.format(rows=1_000_000), "dims2": FACTS.format(rows=1000)},
        _queries,
        in_transaction=False,
    ),
    Scenario(
        "INSERT outside a transaction",
        1.0,
        1.02,
        {"alone": SMALL},
        lambda number: [f"INSERT INTO alone VALUES ({number}, 'new')"],
        in_transaction=False,
    ),
)
