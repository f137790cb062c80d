"""Copies of ready-made tables: some to transact on, and twins for plain Delta."""

import itertools
import json
import shutil
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder

from statement_kinds import Target


class Arena:
    def __init__(self, spark, plain, folder):
        self._spark, self._plain, self._folder = spark, plain, folder
        self._numbers = itertools.count()
        self._expected = {}

    def copy(self, kind, path=None):
        """A table of this kind that nobody has met yet."""
        template = self._folder / "templates" / kind
        if not template.exists():
            self._plain.ask("create", kind=kind, path=str(template))
        path = Path(path or self._folder / f"{kind}-{next(self._numbers)}")
        shutil.copytree(template, path)
        return path

    def table(self, kind):
        """The same as an external table of the session."""
        path = self.copy(kind)
        name = path.name.replace("-", "_")
        self._spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
        return Target(name, str(path))

    def expected(self, kind, *statements):
        """What plain Delta makes of the statements on a twin; computed meanwhile."""
        if (kind, statements) not in self._expected:
            path = self.copy(kind)
            self._expected[kind, statements] = self._plain.start(
                "after", statements=statements, path=str(path), since=head(path)
            )
        return self._expected[kind, statements]

    def state(self, path, since):
        """The state of a table as plain Delta reads it."""
        return self._plain.ask("state", path=str(path), since=since)


def head(path):
    """The newest version of a table."""
    return max(int(file.name[:20]) for file in Path(path, "_delta_log").glob("[0-9]*.json"))


def read_by_delta_rs(path):
    """The rows of a table in the form of `table_state.shown`."""
    table = DeltaTable(str(path))
    columns = ", ".join(f'"{field.name}"' for field in table.schema().fields)
    result = QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t").read_all()
    rows = zip(*(result.column(i).to_pylist() for i in range(result.num_columns)), strict=True)
    return sorted(json.dumps(row, default=str, ensure_ascii=False) for row in rows)
