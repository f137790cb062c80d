"""The anomalies of `scripts`, each with drivers in processes of their own."""

import re
from itertools import product
from pathlib import Path

import pytest

from driver import DriverError
from lake import Lake

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.script"))
LEVELS = ("SNAPSHOT", "SERIALIZABLE")


class Run:
    """One script, with its rows in one table or in two."""

    def __init__(self, lake, drivers, level, tables):
        self.lake, self.level, self.tables = lake, level, tables
        self._drivers = drivers
        self._sessions = {}
        self._open = set()
        self._rows = None
        one, two = (f"delta.`{path}`" for path in (tables[0], tables[-1]))
        all_rows = " UNION ALL ".join(f"SELECT * FROM delta.`{path}`" for path in tables)
        self._names = {"a": one, "b": two, "both": f"({all_rows})"}

    def line(self, text, following):
        if match := re.fullmatch(r"(T\d)> (.*)", text):
            expects = following.startswith("!") and self.level in following
            self.statement(match.group(1), match.group(2), expects)
        elif text.startswith("= ") or text == "=":
            assert self._rows == rows(text[1:]), text
        elif match := re.fullmatch(r"end ?(\w*) =(.*)", text):
            if match.group(1) in ("", self.level):
                found = sorted(row for path in self.tables for row in self.lake.rows(path))
                assert found == rows(match.group(2)), text
        else:
            assert text.startswith("! "), text

    def statement(self, client, text, conflicts):
        session = self.session(client)
        if client not in self._open and text != "ROLLBACK":
            session.sql(f"BEGIN ISOLATION LEVEL {self.level}")
            self._open.add(client)
        if conflicts:
            with pytest.raises(DriverError) as raised:
                session.sql(text)
            assert raised.value.main_condition == "LAKESTEP_CONFLICT"
            session.sql("ROLLBACK")
        else:
            self._rows = sorted(session.sql(text.format(**self._names)))
        if text in ("COMMIT", "ROLLBACK"):
            self._open.discard(client)

    def session(self, client):
        if client not in self._sessions:
            driver = self._drivers[int(client[1:]) - 1]
            self._sessions[client] = driver.session(self.lake.root)
        return self._sessions[client]


def rows(text):
    return [tuple(map(int, row.split())) for row in text.split(",") if row.strip()]


def layouts():
    """One table and the weaker level tell least, and so are for `make test-long`."""
    for tables, level in product((1, 2), LEVELS):
        marks = (pytest.mark.long,) if (tables, level) == (1, "SNAPSHOT") else ()
        yield pytest.param(tables, level, marks=marks, id=f"{tables}-{level}")


@pytest.mark.sliced
@pytest.mark.parametrize(("tables", "level"), list(layouts()))
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(drivers, tmp_path, script, tables, level):
    lake = Lake(tmp_path)
    opening = [(1, 10), (2, 20)]
    parts = [opening] if tables == 1 else [[row] for row in opening]
    paths = [lake.table(f"t{i}", part) for i, part in enumerate(parts)]
    text = script.read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    run = Run(lake, drivers(3 if "T3>" in text else 2), level, paths)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        run.line(line, following)
    lake.check_timeline()
