"""What the command line shows: progress, results as a table or as JSON, errors with their line."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from lakestep._errors import LakestepError
from lakestep._statements import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_ROWS = 100
# A pipe has no width, and a row is one line there.
_PIPE_WIDTH = 1_000_000

# Where Spark says in which line of the statement it was: at its end, or in front of the text.
_LINE = re.compile(r"(?:\(line |; line |\{LINE:)(\d+)")
_AFTER_MESSAGE = re.compile(r"\n+(?:== SQL|JVM stacktrace:)")
_OWN_LINE = re.compile(r"\(line (\d+)\)")


class Steps:
    """The lines of progress, on stderr: one for each statement."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def step(self, number: int, statement: Statement, *, prints: bool) -> Iterator[None]:
        """Show a statement while the body runs, and its seconds once that has ended well.

        A body that prints would print into the moving line.
        """
        label, begun = f"[{number}/{self._total}]", time.monotonic()
        if self._console.is_terminal and not self._quiet and not prints:
            moving = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            with moving:
                moving.add_task(f"{label} {statement.title}", total=None)
                yield
        else:
            yield
        if not self._quiet:
            seconds = time.monotonic() - begun
            self._console.print(f"{label} {seconds:.1f} s  {statement.title}")


def run_through(frame: DataFrame) -> None:
    """Run a query over all of its rows, and bring none of them here."""
    from pyspark.sql import functions as F

    text = _as_text(frame)
    text.agg(F.max(F.xxhash64(*text.columns))).collect()


def table_of(frame: DataFrame) -> RenderableType:
    """Run a query over all of its rows; return a table of the first ones."""
    text = _as_text(frame)
    rows = text.limit(_MOST_ROWS + 1).collect()
    shown = [["NULL" if value is None else value for value in row] for row in rows[:_MOST_ROWS]]
    parts: list[RenderableType] = [text_table(frame.columns, shown)]
    if len(rows) > _MOST_ROWS:
        run_through(frame)
        parts.append(Text(f"There are more than these {_MOST_ROWS} rows."))
    return Group(*parts)


def text_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table of texts; without a head, if no column has a name."""
    columns = list(columns)
    table = Table(box=box.ASCII2, show_header=any(columns))
    for name in columns:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def show_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print rows that have the same columns on stdout; of a table leave out those without a value.

    As JSON a row is a line, and times are ISO 8601.
    """
    if as_json:
        for row in rows:
            print(_json(row))
        sys.stdout.flush()
    elif rows:
        empty: tuple[object, ...] = (None, "", [], {})
        columns = [name for name in rows[0] if any(row[name] not in empty for row in rows)]
        show_table(text_table(columns, ([_text(row[name]) for name in columns] for row in rows)))


def _json(row: Mapping[str, Any]) -> str:
    text = json.dumps(row, ensure_ascii=False, default=_iso)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(row, default=_iso)
    return text


def show_fields(fields: Mapping[str, Any]) -> None:
    """Print what there is to say of one thing on stdout, and lists of several as tables below."""
    tables = {name: value for name, value in fields.items() if _is_rows(value)}
    shown = [
        (name, _text(value))
        for name, value in fields.items()
        if name not in tables and value not in (None, "", [], {})
    ]
    show_table(text_table(("", ""), shown))
    for name, rows in tables.items():
        print(f"\n{name}")
        show_rows(rows, as_json=False)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _text(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_text(v)}" for k, v in value.items() if v not in (None, []))
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def _iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    raise TypeError(f"{value!r} is no JSON")


@contextmanager
def counting(label: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show on stderr, if that is a terminal, how often the body has called what this yields."""
    console = Console(stderr=True, highlight=False, markup=False)
    moving = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with moving:
        task = moving.add_task(label, total=total)
        yield lambda *_: moving.advance(task)


def show_table(table: RenderableType) -> None:
    """Print a table on stdout."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPE_WIDTH)
    console.print(table)


def show_json(frame: DataFrame) -> None:
    """Run a query, and print each row as a line of JSON on stdout."""
    from pyspark.sql import functions as F

    row = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    for (line,) in frame.select(row).toLocalIterator():
        print(line)
    sys.stdout.flush()


def _as_text(frame: DataFrame) -> DataFrame:
    """Return the rows as Spark writes them; two columns may have had one name."""
    from pyspark.sql import functions as F

    names = [f"c{i}" for i in range(len(frame.columns))]
    return frame.toDF(*names).select([F.col(name).cast("string") for name in names])


def quiet_loggers() -> None:
    """Keep PySpark from printing each error as JSON, with its stack trace, as well."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def message_of(error: BaseException) -> str:
    """Return condition, text and SQLSTATE of an error, without plans, texts of SQL and traces."""
    error = _known(error)
    if not isinstance(error, PySparkException):
        return f"{type(error).__name__}: {_first_line(str(error))}"
    state, text = None, str(error)
    # PySpark may not know a text of Delta.
    with suppress(Exception):
        state = error.getSqlState()
        text = error.getMessage()
    if isinstance(error, LakestepError):
        return text
    text = _AFTER_MESSAGE.split(text.strip())[0]
    if state is None:
        return _first_line(text)
    return f"{text.partition(f' SQLSTATE: {state}')[0]} SQLSTATE: {state}"


def place_of(error: BaseException, statement: Statement) -> tuple[int, str]:
    """Return the line of the file that an error is about, and its message."""
    error = _known(error)
    message, first = message_of(error), statement.line - 1
    if isinstance(error, LakestepError):
        message = _OWN_LINE.sub(lambda found: f"(line {first + int(found[1])})", message)
    found = _LINE.search(str(error))
    lines = statement.text.count("\n") + 1
    if found is None or int(found[1]) > lines or _is_in_another_text(error):
        return statement.line, message
    return first + int(found[1]), message


def _is_in_another_text(error: BaseException) -> bool:
    """Whether the lines are those of a view or a function."""
    with suppress(Exception):
        if isinstance(error, PySparkException):
            return any(context.objectType() for context in error.getQueryContext())
    return False


def _known(error: BaseException) -> BaseException:
    """Return the error of Spark that a failure of the JVM was caused by, where there is one."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions import captured

    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    while cause is not None:
        converted = captured.convert_exception(cause)
        if not isinstance(converted, captured.UnknownException):
            return converted
        cause = cause.getCause()
    if isinstance(error, Py4JJavaError):
        return PySparkException(_first_line(error.java_exception.toString()))
    return error


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
