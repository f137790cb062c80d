"""TPC-H: the generated files, the refresh functions derived from them, and what DuckDB says.

RF1 needs orders that are not in the tables yet. They are the newest of the generated ones, held
back when the tables are loaded; RF2 deletes the oldest. One refresh is scale factor x 1500 orders
with their lineitems, as TPC-H has it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

Q1 = """
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity) AS avg_qty,
       avg(l_extendedprice) AS avg_price,
       avg(l_discount) AS avg_disc,
       count(*) AS count_order
FROM lineitem
WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus
"""

Q4 = """
SELECT o_orderpriority, count(*) AS order_count
FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
  AND EXISTS (
    SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority
ORDER BY o_orderpriority
"""

Q12 = """
SELECT l_shipmode,
       sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_lines,
       sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 0 ELSE 1 END) AS low_lines
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
  AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
GROUP BY l_shipmode
ORDER BY l_shipmode
"""

TABLES = {"orders": "o_orderkey", "lineitem": "l_orderkey"}


@dataclass(frozen=True)
class State:
    """What identifies the state of both tables: rows and the sum of their order keys."""

    orders: int
    order_keys: int
    lineitems: int
    lineitem_keys: int


@dataclass(frozen=True)
class Refresh:
    """One refresh function: two statements that belong together."""

    name: str
    statements: tuple[str, str]


def generate(folder: Path, scale: float) -> None:
    """Make the TPC-H files, unless they are there."""
    if all((folder / f"{table}.parquet").is_file() for table in TABLES):
        return
    making = folder.with_name(folder.name + ".making")
    tool = Path(sys.executable).with_name("tpchgen-cli")
    command: Sequence[str] = [
        str(tool),
        "parquet",
        "--scale-factor",
        str(scale),
        "--tables",
        ",".join(TABLES),
        "--output-dir",
        str(making),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    making.replace(folder)


class Reference:
    """The same tables and the same refreshes in DuckDB, from the generated Parquet files."""

    def __init__(self, files: Path, refresh_files: Path, *, held_back: int, orders: int) -> None:
        """Load both tables without the newest `held_back` refreshes of `orders` orders each."""
        self._db = duckdb.connect()
        self._files = refresh_files
        for table in TABLES:
            self._db.execute(f"CREATE VIEW all_{table} AS FROM '{files / f'{table}.parquet'}'")
        keys = [
            row[0]
            for row in self._db.execute("SELECT o_orderkey FROM all_orders ORDER BY 1").fetchall()
        ]
        cuts = range(len(keys) - held_back * orders, len(keys), orders)
        self._new = [(keys[cut], keys[cut + orders - 1]) for cut in cuts]
        self._old = [
            (keys[cut], keys[cut + orders - 1]) for cut in range(0, held_back * orders, orders)
        ]
        self.first_held_back: int = self._new[0][0]
        for table, key in TABLES.items():
            self._db.execute(
                f"CREATE TABLE {table} AS FROM all_{table} WHERE {key} < {self.first_held_back}"
            )

    def state(self) -> State:
        """Return the state after what was applied so far."""
        row = self._db.execute(
            "SELECT * FROM (SELECT count(*), sum(o_orderkey) FROM orders),"
            " (SELECT count(*), sum(l_orderkey) FROM lineitem)"
        ).fetchone()
        assert row is not None
        return State(*map(int, row))

    def rf1(self, number: int) -> Refresh:
        """Apply RF1 and return it for Spark, which reads the new rows from Parquet files."""
        first, last = self._new[number]
        statements = []
        for table, key in TABLES.items():
            file = self._files / f"rf1_{number:02}_{table}.parquet"
            self._db.execute(
                f"COPY (FROM all_{table} WHERE {key} BETWEEN {first} AND {last} ORDER BY {key})"
                f" TO '{file}' (FORMAT parquet)"
            )
            self._db.execute(f"INSERT INTO {table} FROM '{file}'")
            statements.append(f"INSERT INTO {table} SELECT * FROM parquet.`{file}`")
        return Refresh(f"RF1 {number}", (statements[0], statements[1]))

    def rf2(self, number: int) -> Refresh:
        """Apply RF2 and return it for Spark."""
        first, last = self._old[number]
        statements = [
            f"DELETE FROM {table} WHERE {key} BETWEEN {first} AND {last}"
            for table, key in TABLES.items()
        ]
        for statement in statements:
            self._db.execute(statement)
        return Refresh(f"RF2 {number}", (statements[0], statements[1]))

    def answer(self, query: str) -> list[list[str]]:
        """Return the rows of a query as texts."""
        return texts(self._db.execute(query).fetchall())


class PlainReader:
    """DuckDB on the Delta tables themselves: a reader that never heard of Lakestep."""

    def __init__(self, tables: Path) -> None:
        self._db = duckdb.connect()
        self._db.execute(f"LOAD '{_delta_extension()}'")
        for table in TABLES:
            self._db.execute(f"CREATE VIEW {table} AS FROM delta_scan('file://{tables / table}')")

    def orders_without_lineitems(self) -> int:
        """Return how many orders have no lineitem, in the newest version of each table."""
        row = self._db.execute(
            "SELECT count(*) FROM orders ANTI JOIN lineitem ON l_orderkey = o_orderkey"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def answer(self, query: str) -> list[list[str]]:
        """Return the rows of a query as texts."""
        return texts(self._db.execute(query).fetchall())


def texts(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return rows as they are compared and sent between processes."""
    return [[str(value) for value in row] for row in rows]


def same(one: list[list[str]], other: list[list[str]]) -> bool:
    """Return whether two answers are equal.

    Sums and counts must be equal to the last digit. Averages may differ by one millionth: Spark's
    average of a decimal has six digits after the point, DuckDB's is a floating-point number.
    """
    if [len(row) for row in one] != [len(row) for row in other]:
        return False
    pairs = [(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)]
    return all(_same_value(a, b) for a, b in pairs)


def _same_value(a: str, b: str) -> bool:
    try:
        x, y = Decimal(a), Decimal(b)
    except ArithmeticError:
        return a == b
    return x == y or (_is_average(x, y) and abs(x - y) <= Decimal("0.000001"))


def _is_average(x: Decimal, y: Decimal) -> bool:
    return min(int(x.as_tuple().exponent), int(y.as_tuple().exponent)) < -6


def as_dict(state: State) -> dict[str, int]:
    """Return a state for printing."""
    return asdict(state)


def _delta_extension() -> Path:
    import duckdb_extension_delta

    folder = Path(duckdb_extension_delta.__file__).parent
    return next(folder.rglob("delta.duckdb_extension"))
