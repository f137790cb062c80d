"""Running a function as a transaction, again when another client was first."""

from __future__ import annotations

import functools
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
    from pyspark.sql import DataFrame, SparkSession

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
    batch: tuple[str | None, int] | None = None,
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
    name, isolation, batch : optional
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
        with transaction(spark, name, isolation=isolation, batch=batch) as txn:
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


def foreach_batch(
    fn: Callable[[DataFrame, int], object],
    *,
    query: str | None = None,
    attempts: int = 10,
    name: str | None = None,
    isolation: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Wrap a function for ``foreachBatch``: each batch is one transaction, applied exactly once.

    Whatever `fn` writes by the session of the batch, into however many tables, is committed at
    once, or not at all. A batch that is committed already does not run again, also when the driver
    died between the commit and Spark's checkpoint, or two drivers run one query. After a conflict
    `fn` runs again, as by `lakestep.run`.

    Parameters
    ----------
    fn : callable
        Gets the batch and its number, as ``foreachBatch`` gives them. Its session is
        ``batch.sparkSession``.
    query : str, optional
        A name for the query that no other query has. Default: the id that it has in its
        checkpoint. On Spark Connect the id is not known there, and the name must be given.
    attempts : int
        How often `fn` is run at most for a batch.
    name, isolation : str, optional
        As for `lakestep.transaction`.

    Returns
    -------
    callable
        For ``DataStreamWriter.foreachBatch``.

    Raises
    ------
    TransactionStateError
        From a batch, which stops the query: see `lakestep.transaction`.
    ConflictError
        From a batch: the conflict of the last attempt.

    Examples
    --------
    >>> def load(batch, number):  # doctest: +SKIP
    ...     batch.write.format("delta").mode("append").saveAsTable("events")
    ...     batch.groupBy("day").count().write.insertInto("days")


    >>> stream.writeStream.foreachBatch(lakestep.foreach_batch(load)).start()  # doctest: +SKIP
    """

    @functools.wraps(fn)
    def once(batch: DataFrame, number: int) -> None:
        def apply(txn: Transaction) -> None:
            if txn.replays is None:
                fn(batch, number)

        run(
            batch.sparkSession,
            apply,
            attempts=attempts,
            name=name,
            isolation=isolation,
            batch=(query, number),
        )

    return once
