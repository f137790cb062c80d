"""Every exception of Lakestep, and the one place where JVM errors become them.

::

    pyspark.errors.PySparkException
    └── LakestepError
        ├── ConflictError                   40001  another client changed what this one changed
        ├── ResidueError                    2D000  rolled back, but what others built on stays
        ├── StateUnknownError               08007  COMMIT lost its answer; RECOVER finds the outcome
        ├── TransactionStateError           25xxx, 3B001  BEGIN twice, COMMIT without BEGIN, …
        ├── AssertionFailedError            23514  what was asserted does not hold
        ├── UnsupportedInTransactionError   0A000  refused before it did anything
        ├── TimelineCorruptError            XX001  a file of a timeline or log is damaged
        └── ConfigurationError              55000  versions, settings and JARs do not fit

The SQLSTATE chooses the class, so that a condition added on the JVM needs no change here; one that
none of the classes stands for is a plain `LakestepError`. Texts come from the error conditions that
the JAR also holds.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.errors import PySparkException

_log = logging.getLogger("lakestep")


class LakestepError(PySparkException):
    """Every error that Lakestep itself raises, on the JVM or in Python.

    `getCondition`, `getSqlState` and `getMessageParameters` never return None. Decide by these, not
    by the text of the message.
    """

    def __init__(
        self,
        message: str,
        *,
        condition: str,
        sql_state: str,
        parameters: dict[str, str] | None = None,
        stack_trace: str | None = None,
    ) -> None:
        super().__init__(message, errorClass=condition, messageParameters=dict(parameters or {}))
        self._condition = condition
        self._sql_state = sql_state
        self._parameters = dict(parameters or {})
        self._stack_trace = stack_trace

    def getCondition(self) -> str:
        """Return the error condition, ``LAKESTEP_…``."""
        return self._condition

    def getSqlState(self) -> str:
        """Return the SQLSTATE of the condition."""
        return self._sql_state

    def getMessageParameters(self) -> dict[str, str]:
        """Return the parameters of the message, such as table, version and transaction."""
        return dict(self._parameters)

    def getMessage(self) -> str:
        """Return the message with condition and SQLSTATE, without the JVM's stack trace."""
        return str(self._message)

    def getStackTrace(self) -> str | None:
        """Return the JVM's stack trace, or None for an error raised in Python."""
        return self._stack_trace

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _restore,
            (
                type(self),
                self._message,
                self._condition,
                self._sql_state,
                self._parameters,
                self._stack_trace,
            ),
        )


class ConflictError(LakestepError):
    """Another client's commit does not go together with this transaction; nothing was changed.

    Run the transaction again: it then sees what the other one wrote.
    """


class ResidueError(LakestepError):
    """COMMIT met a conflict so late that not all could be taken back: others had built on it.

    ``getMessageParameters()["residue"]`` names the files that stay, by table. Put the tables right
    first: a transaction that is run again would count these files twice.
    """


class StateUnknownError(LakestepError):
    """The store did not say whether COMMIT took effect.

    `lakestep.recover` decides it if it is in flight; ``DESCRIBE TRANSACTION`` then tells.
    """


class TransactionStateError(LakestepError):
    """The statement does not fit the state of the session's transaction."""


class AssertionFailedError(LakestepError):
    """What was asserted does not hold, so nothing was published.

    Attributes
    ----------
    failures : list of FailedAssertion
        From `Transaction.commit`, the end of a ``with`` statement and `Transaction.check`: what
        was found. After SQL, a block too, ``SHOW ASSERTIONS`` tells it. It stands in no message, as
        messages reach logs.
    """

    failures: Sequence[FailedAssertion] = ()


@dataclass(frozen=True)
class FailedAssertion:
    """An assertion that does not hold.

    Attributes
    ----------
    name : str
        As it was called.
    message : str or None
        What its author said about it.
    found : list of str
        ``false`` or ``NULL`` of a condition; of ``NO ROWS`` up to ten rows as JSON.
    """

    name: str
    message: str | None
    found: list[str]


class UnsupportedInTransactionError(LakestepError):
    """What cannot be part of a transaction. It was refused before it did anything."""


class TimelineCorruptError(LakestepError):
    """A file of the timeline, or of a table's log, is damaged, lost or overwritten."""


class ConfigurationError(LakestepError):
    """Settings, JARs or versions do not fit together."""


_BY_SQL_STATE: dict[str, type[LakestepError]] = {
    "40001": ConflictError,
    "2D000": ResidueError,
    "08007": StateUnknownError,
    "23514": AssertionFailedError,
    "3B001": TransactionStateError,
    "0A000": UnsupportedInTransactionError,
    "XX001": TimelineCorruptError,
    "55000": ConfigurationError,
}


def _class_for(sql_state: str) -> type[LakestepError]:
    if sql_state.startswith("25"):
        return TransactionStateError
    return _BY_SQL_STATE.get(sql_state, LakestepError)


def _restore(
    kind: type[LakestepError],
    message: str,
    condition: str,
    sql_state: str,
    parameters: dict[str, str],
    stack_trace: str | None,
) -> LakestepError:
    return kind(
        message,
        condition=condition,
        sql_state=sql_state,
        parameters=parameters,
        stack_trace=stack_trace,
    )


@lru_cache(maxsize=1)
def _conditions() -> dict[str, dict[str, Any]]:
    from lakestep import _build

    conditions: dict[str, dict[str, Any]] = json.loads(_build.conditions_path().read_text("utf-8"))
    return conditions


def error(condition: str, **parameters: str) -> LakestepError:
    """Return the exception for a condition raised in Python, of the class its SQLSTATE asks for."""
    entry = _conditions()[condition]
    template = "\n".join(entry["message"])
    text = re.sub(r"<(\w+)>", lambda match: parameters[match.group(1)], template)
    sql_state = entry["sqlState"]
    return _class_for(sql_state)(
        f"[{condition}] {text} SQLSTATE: {sql_state}",
        condition=condition,
        sql_state=sql_state,
        parameters=parameters,
    )


def _is_ours(condition: str | None) -> bool:
    return condition is not None and condition.startswith("LAKESTEP_")


def _from_java(java_exception: Any) -> LakestepError | None:  # noqa: ANN401
    """Return our exception for a JVM one that is, or was caused by, one of Lakestep's."""
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    gateway, jvm = SparkContext._gateway, SparkContext._jvm
    if gateway is None or jvm is None:
        return None
    # PySpark asks these of the throwable itself before 4.1, and by a helper class since.
    cause = java_exception
    while cause is not None:
        if is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable"):
            condition = cause.getCondition()
            if _is_ours(condition):
                sql_state = cause.getSqlState()
                trace = getattr(jvm, "org.apache.spark.util.Utils").exceptionString(java_exception)
                return _restore(
                    _class_for(sql_state),
                    cause.getMessage(),
                    condition,
                    sql_state,
                    dict(cause.getMessageParameters()),
                    trace,
                )
        cause = cause.getCause()
    return None


def is_lost(failure: BaseException) -> bool:
    """Return whether nobody answers the session: its JVM or its Connect server is gone."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    # What PySpark says by these classes alone is that a call had no answer.
    if type(failure) in (Py4JError, Py4JNetworkError) or isinstance(failure, ConnectionError):
        return True
    if not isinstance(failure, PySparkException):
        return False
    condition = failure.getCondition() or ""
    if condition in _LOST or condition.startswith("INVALID_HANDLE."):
        return True
    # Without a condition it is not of the server. PySpark 4.0 tells the status in the text alone.
    status = getattr(failure, "_grpc_status_code", None)
    text = str(failure if status is None else status)
    return (
        type(failure).__name__ == "SparkConnectGrpcException"
        and not condition
        and any(f"StatusCode.{name}" in text for name in _UNANSWERED)
    )


# Conditions of Spark Connect's client: the server did not come back, or another one did.
_LOST = ("RETRIES_EXCEEDED", "RESPONSE_ALREADY_RECEIVED")
_UNANSWERED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "ABORTED")


def _from_connect(
    message: str | None = None,
    *,
    errorClass: str | None = None,
    messageParameters: dict[str, str] | None = None,
    sql_state: str | None = None,
    server_stacktrace: str | None = None,
    **ignored: object,
) -> LakestepError:
    """Stand for an exception class in Spark Connect's table from JVM class to Python class."""
    return _restore(
        _class_for(sql_state or ""),
        message or "",
        errorClass or "LAKESTEP_UNKNOWN",
        sql_state or "XX000",
        dict(messageParameters or {}),
        server_stacktrace,
    )


_installed: set[str] = set()


def install(*, connect: bool = False) -> None:
    """Make PySpark raise these exceptions, also for a plain ``spark.sql("COMMIT")``.

    PySpark has no registry for Classic, so its converter is wrapped, as delta-spark does too; every
    error that is not Lakestep's goes to the converter that was there. PySpark asks it once it has
    a session; here it begins at once, for what is refused while that is made. Spark Connect
    has a table of classes, and ours is added to it. Idempotent.
    """
    if "classic" not in _installed:
        from pyspark.errors.exceptions import captured

        before: Callable[[Any], Any] = captured.convert_exception

        def convert_exception(java_exception: Any) -> Any:  # noqa: ANN401
            return _from_java(java_exception) or before(java_exception)

        captured.convert_exception = convert_exception  # type: ignore[assignment]
        captured.install_exception_handler()
        _installed.add("classic")
    if connect and "connect" not in _installed:
        from pyspark.errors.exceptions import connect as connect_errors

        table: dict[str, Any] = connect_errors.EXCEPTION_CLASS_MAPPING
        table["io.lakestep.LakestepException"] = _from_connect
        _installed.add("connect")


def add_note(error: BaseException, note: str) -> None:
    """Add a note, as ``BaseException.add_note`` does, which is new in Python 3.11."""
    notes: list[str] = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, note]  # type: ignore[attr-defined]


def warn(texts: Sequence[str]) -> None:
    """Warn the caller of the caller; what is committed raises nothing, whatever the filters say."""
    for text in texts:
        try:
            warnings.warn(text, stacklevel=3)
        except UserWarning:
            _log.warning("%s", text)
