"""A run of dbt as one transaction: `run_dbt`, and the command `lakestep dbt`."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.dummy import DummyProcess
from typing import TYPE_CHECKING, Any

from lakestep import _errors, _session
from lakestep._transaction import transaction
from lakestep._writer import is_connect

if TYPE_CHECKING:
    from dbt.cli.main import dbtRunnerResult
    from dbt_common.events.base_types import EventMsg
    from pyspark.sql import SparkSession


def run_dbt(
    spark: SparkSession,
    arguments: Sequence[str],
    *,
    name: str | None = None,
    isolation: str | None = None,
) -> dbtRunnerResult:
    """Run dbt, and all that it does to tables, views and schemas as one transaction.

    It is committed if dbt succeeds: all models, seeds, snapshots and tests passed. Else it is
    rolled back, and no row, name or schema of the run is left. The profile has ``method: session``;
    dbt's threads share the session, and their statements take turns. Temporary views and settings
    that dbt leaves in the session are taken away. Files that dbt writes, its logs and ``target``,
    tell what dbt did, also after a rollback.

    Needs ``pip install lakestep[dbt]``.

    Parameters
    ----------
    spark : SparkSession
        A Classic session configured by `lakestep.configure`: the first of the process, as dbt takes
        that one.
    arguments : sequence of str
        As for the command ``dbt``: ``["build", "--project-dir", "shop"]``.
    name : str, optional
        As for `lakestep.transaction`.
    isolation : str, optional
        As for `lakestep.transaction`.

    Returns
    -------
    dbtRunnerResult
        That of dbt. The run is committed if and only if its ``success`` is true. Its ``exception``
        is a ValueError, and dbt has done nothing, when the profile has another method, or for
        ``dbt retry``, which builds on a run that was rolled back.

    Raises
    ------
    ValueError
        dbt would use another session.
    ConfigurationError
        ``LAKESTEP_NOT_CONFIGURED`` or ``LAKESTEP_VERSION_MISMATCH``.
    TransactionStateError
        ``LAKESTEP_TRANSACTION_ALREADY_ACTIVE``: the session has an open transaction.
    ConflictError, ResidueError, StateUnknownError
        From the commit.

    Examples
    --------
    >>> result = lakestep.run_dbt(spark, ["build", "--project-dir", "shop"])  # doctest: +SKIP
    >>> result.success  # doctest: +SKIP
    True
    """
    return run(spark, arguments, name=name, isolation=isolation)


def run(
    spark: SparkSession,
    arguments: Sequence[str],
    *,
    name: str | None = None,
    isolation: str | None = None,
    cancel: Callable[[], object] = lambda: None,
) -> dbtRunnerResult:
    """Do what `run_dbt` does; `cancel` stops what Spark runs when dbt gives statements up."""
    from dbt.cli.main import dbtRunner

    _session.meet(spark)
    if is_connect(spark) or _session_of_dbt() is not spark:
        raise ValueError("dbt uses the first Classic session of the process, and no other")

    def watch(event: EventMsg) -> None:
        if event.info.name == "MainReportVersion":
            _refuse_retry()
        elif event.info.name == "NewConnection":
            _refuse_other_methods(event.data.conn_type)
        elif event.info.name == "LogCancelLine":
            cancel()

    others = set(threading.enumerate())
    with _as_it_was(spark), transaction(spark, name, isolation=isolation) as txn:
        result = dbtRunner(callbacks=[watch]).invoke(list(arguments))
        if result.exception is not None:
            _wait_for_threads(others, cancel)
        if not result.success:
            txn.rollback()
    return result


def is_installed() -> bool:
    """Return whether there is a dbt for Spark."""
    try:
        return importlib.util.find_spec("dbt.adapters.spark") is not None
    except ModuleNotFoundError:
        return False


def exit_code(result: dbtRunnerResult) -> int:
    """Return the exit code for a run: 0, 1 after a failure, 2 after wrong usage, 130 by Ctrl-C."""
    from dbt.cli.exceptions import DbtUsageException

    if isinstance(result.exception, KeyboardInterrupt):
        return 130
    if isinstance(result.exception, (DbtUsageException, ValueError)):
        return 2
    return 0 if result.success else 1


def _session_of_dbt() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _refuse_retry() -> None:
    from dbt.flags import get_flags

    if get_flags().WHICH == "retry":
        raise ValueError("dbt retry builds on a run that was rolled back; run the whole again")


def _refuse_other_methods(kind: str) -> None:
    """Refuse what would not be part of the transaction, before its first statement."""
    from dbt.adapters.factory import get_adapter_by_type

    adapter: Any = get_adapter_by_type(kind)
    method = getattr(adapter.config.credentials, "method", None)
    if kind != "spark" or method != "session":
        raise ValueError(f"the profile has {kind} and method {method}, not spark and session")


def _wait_for_threads(others: set[threading.Thread], cancel: Callable[[], object]) -> None:
    """Wait for dbt's workers: after the end of the transaction none may run a statement.

    dbt does so itself, but for a second Ctrl-C.
    """
    while workers := [t for t in threading.enumerate() if _is_worker(t) and t not in others]:
        try:
            for worker in workers:
                worker.join()
        except KeyboardInterrupt:
            cancel()


def _is_worker(thread: threading.Thread) -> bool:
    return isinstance(thread, DummyProcess)


@contextmanager
def _as_it_was(spark: SparkSession) -> Iterator[None]:
    """Take temporary views and settings away that the body leaves in the session."""
    views, settings = _temporary_views(spark), dict(spark.conf.getAll)
    passed_over: list[type[Exception]] = []
    try:
        yield
    except _errors.StateUnknownError:
        # The session may be gone; what became of the transaction is what counts.
        passed_over = [Exception]
        raise
    finally:
        with suppress(*passed_over):
            for view in _temporary_views(spark) - views:
                spark.catalog.dropTempView(view)
            found = dict(spark.conf.getAll)
            for key in found.keys() - settings.keys():
                spark.conf.unset(key)
            for key, value in settings.items():
                if found.get(key) != value:
                    spark.conf.set(key, value)


def _temporary_views(spark: SparkSession) -> set[str]:
    # Those of the session are listed with every schema; this one has nothing else to ask for.
    rows = spark.sql("SHOW VIEWS IN global_temp").collect()
    return {row["viewName"] for row in rows if not row["namespace"]}
