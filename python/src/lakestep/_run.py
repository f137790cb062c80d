"""Running a function as a transaction, again when another client was first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tenacity import (
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    stop_never,
    wait_random_exponential,
)

from lakestep._errors import ConflictError
from lakestep._transaction import Transaction, transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")

# Seconds; doubled at each attempt, and some random part of that is waited for.
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 5.0


def run(
    spark: SparkSession,
    fn: Callable[[Transaction], _Result],
    *,
    attempts: int = 10,
    timeout_s: float | None = None,
    name: str | None = None,
    isolation: str | None = None,
) -> _Result:
    """Run a function as one transaction, and again from its start after a conflict.

    Each attempt is a transaction of its own on a new snapshot; nothing of an earlier one remains.
    Whatever else `fn` does, it does again at each attempt. Between attempts there is a random wait,
    from a range that doubles up to 5 seconds.

    Parameters
    ----------
    spark : SparkSession
        A session configured by `lakestep.configure`, Classic or Connect.
    fn : callable
        Gets the open `Transaction`. It may read and write through the session as it likes.
    attempts : int
        How often `fn` is run at most.
    timeout_s : float, optional
        Seconds from the first attempt after which no further one is begun.
    name, isolation : str, optional
        As for `lakestep.transaction`.

    Returns
    -------
    object
        What `fn` returned in the attempt that was committed.

    Raises
    ------
    ConflictError
        The conflict of the last attempt. Or one that `fn` met after it had committed its
        transaction, which is not run again.
    ResidueError
        A rollback left something, so it is not run again.
    StateUnknownError
        The outcome of a commit is not known, so it is not run again: `lakestep.recover`
        decides it if it is in flight.
    ValueError
        `attempts` is below 1.
    Exception
        Whatever `fn` raises; the transaction is rolled back and not run again.

    Examples
    --------
    >>> def move(txn):  # doctest: +SKIP
    ...     spark.sql("UPDATE stock SET n = n - 1 WHERE item = 'apple'")
    ...     spark.sql("INSERT INTO sales VALUES ('apple', current_timestamp())")


    >>> lakestep.run(spark, move, attempts=20)  # doctest: +SKIP
    """
    if attempts < 1:
        raise ValueError(f"attempts must be at least 1, not {attempts}")
    stop = stop_after_attempt(attempts) | (
        stop_never if timeout_s is None else stop_after_delay(timeout_s)
    )

    committed = False

    def attempt() -> _Result:
        nonlocal committed
        with transaction(spark, name, isolation=isolation) as txn:
            try:
                return fn(txn)
            finally:
                # A function may commit by itself, and meet a conflict in what it does after that.
                committed = txn.entry is not None

    return Retrying(
        retry=retry_if_exception(lambda e: isinstance(e, ConflictError) and not committed),
        stop=stop,
        wait=wait_random_exponential(multiplier=_FIRST_WAIT_S, max=_LONGEST_WAIT_S),
        reraise=True,
    )(attempt)
