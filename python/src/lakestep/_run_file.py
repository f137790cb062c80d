"""Running the statements of a file in one session: the command `lakestep run`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from lakestep import _report, _session
from lakestep._errors import LakestepError
from lakestep._statements import Statement
from lakestep._transaction import OPEN, roll_back_after, transaction
from lakestep._writer import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERRUPTED = 130


@dataclass(frozen=True)
class Job:
    """What to run, and how.

    Attributes
    ----------
    name : str
        The file as messages call it.
    statements : list of Statement
        What it holds.
    atomic : bool
        Whether all of it is one transaction.
    variables : mapping of str to str
        The values of named parameters.
    show_all : bool
        Whether every query is shown; else the last one is.
    as_json : bool
        Whether results are lines of JSON.
    quiet : bool
        Whether no progress is shown.
    """

    name: str
    statements: list[Statement]
    atomic: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    show_all: bool = False
    as_json: bool = False
    quiet: bool = False

    def boundary(self) -> Statement | None:
        """Return the first statement that cannot stand in a file that is one transaction."""
        return next((s for s in self.statements if s.is_boundary), None)

    def unused(self) -> set[str]:
        """Return the variables that no statement has a parameter for."""
        return self.variables.keys() - {name for s in self.statements for name in s.parameters}


class _Stopped(Exception):
    """The run stops at a statement; if the statement failed, its error is the cause."""

    def __init__(self, why: str, number: int, statement: Statement) -> None:
        super().__init__(why)
        self.why = why
        self.number = number
        self.statement = statement


def session(
    conf: Mapping[str, str], master: str | None, remote: str | None, root: str | None = None
) -> SparkSession:
    """Return a session with Lakestep, whose log is quiet unless the user has set its level."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    if remote is not None:
        builder = builder.remote(remote)
    elif master is not None:
        builder = builder.master(master)
    return _session.configure(_session.quiet(builder), root).getOrCreate()


def run_job(spark: SparkSession, job: Job) -> int:
    """Run all statements; return 0, 1 after an error that was printed, or 130 after Ctrl-C."""
    _report.quiet_loggers()
    run = _Run(spark, job)
    with run.interrupts:
        try:
            run.everything()
        except _Stopped as stopped:
            _print(run.explained(stopped))
            return _INTERRUPTED if run.interrupts.asked else 1
        except Exception as error:
            # Of BEGIN or COMMIT around the file.
            _print(f"{job.name}: {_report.message_of(error)}")
            return 1
    return 0


class _Run:
    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.interrupts = _Interrupts(lambda: cancel(spark))
        self._spark = spark
        self._job = job
        self._steps = _report.Steps(len(job.statements), quiet=job.quiet)
        self._was_open = False

    def everything(self) -> None:
        if self._job.atomic:
            with transaction(self._spark):
                self._each()
            return
        try:
            self._each()
            self._refuse_open()
        except _Stopped as stopped:
            # Also after a COMMIT that failed.
            roll_back_after(self._spark, stopped)
            raise

    def _each(self) -> None:
        queries = [n for n, s in enumerate(self._job.statements, 1) if s.is_query]
        shown = queries if self._job.show_all else queries[-1:]
        for number, statement in enumerate(self._job.statements, 1):
            try:
                self._one(number, statement, is_shown=number in shown)
            except Exception as error:
                why = "interrupted in" if self.interrupts.asked else "in"
                raise self._stop(why, number, statement) from error
            if self.interrupts.asked and number < len(self._job.statements):
                raise self._stop("interrupted after", number, statement)

    def _one(self, number: int, statement: Statement, *, is_shown: bool) -> None:
        used = {k: v for k, v in self._job.variables.items() if k in statement.parameters}
        prints = is_shown and self._job.as_json
        table = None
        with (
            self.interrupts.cancelling(statement),
            self._steps.step(number, statement, prints=prints),
        ):
            frame = self._spark.sql(statement.text, used or None)
            if statement.is_query and frame.columns:
                if not is_shown:
                    _report.run_through(frame)
                elif prints:
                    _report.show_json(frame)
                else:
                    table = _report.table_of(frame)
        if table is not None:
            _report.show_table(table)
        # COMMIT tells of names that are not as they should be.
        ends = statement.is_boundary and not statement.is_query
        if ends and "warnings" in frame.columns:
            for warning in (told for row in frame.collect() for told in row["warnings"] or ()):
                _print(f"warning: {warning}")

    def _refuse_open(self) -> None:
        last = [s for s in self._job.statements if s.is_boundary][-1:]
        stopped = self._stop("no COMMIT", 0, (last or self._job.statements)[-1])
        if self._was_open:
            raise stopped

    def _stop(self, why: str, number: int, statement: Statement) -> _Stopped:
        with suppress(Exception):
            self._was_open = bool(self._spark.conf.get(OPEN, ""))
        return _Stopped(why, number, statement)

    def explained(self, stopped: _Stopped) -> str:
        """Return what to print: the error and its line, the statement, what was rolled back."""
        name, statement, error = self._job.name, stopped.statement, stopped.__cause__
        place = f"{name}:{statement.line}:"
        if stopped.number == 0:
            lines = [f"{place} the transaction that begins here has no COMMIT and no ROLLBACK."]
        else:
            which = f"statement {stopped.number} of {len(self._job.statements)}"
            lines = [f"{place} {stopped.why} {which}: {statement.title}"]
        if error is not None and not (self.interrupts.asked and _is_of_spark(error)):
            line, message = _report.place_of(error, statement)
            lines.insert(0, f"{name}:{line}: {message}")
        notes: list[str] = getattr(stopped, "__notes__", [])
        if self._was_open and not notes:
            notes = ["The open transaction was rolled back."]
        return "\n".join([*lines, *notes])


class _Interrupts:
    """Ctrl-C ends a run between two statements, so that it is known what was done.

    The first one cancels the statement that runs, but never a COMMIT. The second one ends the
    process at once. A context manager.
    """

    def __init__(self, cancel: Callable[[], object]) -> None:
        self.asked = False
        self._cancel = cancel
        self._ended = threading.Event()
        self._ended.set()

    @contextmanager
    def cancelling(self, statement: Statement) -> Iterator[None]:
        """Cancel what the body does for the statement, as soon as it is asked for."""
        if not statement.is_boundary or statement.is_query:
            self._ended.clear()
        try:
            yield
        finally:
            self._ended.set()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            _print("Interrupted twice: the statement that ran may have taken effect.")
            os._exit(_INTERRUPTED)
        self.asked = True
        # Another thread: this one waits for the JVM.
        threading.Thread(target=self._keep_cancelling, daemon=True).start()

    def _keep_cancelling(self) -> None:
        while not self._ended.is_set():
            with suppress(Exception):
                self._cancel()
            self._ended.wait(0.3)

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._on_signal)

    def __exit__(self, *raised: object) -> None:
        signal.signal(signal.SIGINT, self._before)


def cancel(spark: SparkSession) -> None:
    """Cancel all that Spark runs."""
    if is_connect(spark):
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


def _is_of_spark(error: BaseException) -> bool:
    """Whether it says no more than that Spark was interrupted."""
    return not isinstance(error, LakestepError)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
