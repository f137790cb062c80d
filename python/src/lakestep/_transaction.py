"""A transaction of a Spark session, driven by SQL alone so that Classic and Connect are alike."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakestep import _errors, _session
from lakestep._savepoint import Savepoint
from lakestep._sql import begin, literal, quoted

if TYPE_CHECKING:
    from datetime import datetime
    from typing import TypeGuard

    from pyspark.sql import DataFrame, Row, SparkSession

_log = logging.getLogger("lakestep")

# The session setting by which the JVM names the open transaction.
OPEN = "spark.lakestep.transaction"


class Transaction:
    """One transaction; `lakestep.transaction` makes it.

    It is the session's: every statement of the session belongs to it while it is open. Not for use
    by several threads at once.
    """

    def __init__(self, spark: SparkSession, began: Row) -> None:
        self._spark = spark
        self._id: str = began["transaction_id"]
        self._name: str | None = began["name"]
        self._isolation: str = began["isolation"]
        self._read_only: bool = began["read_only"]
        self._replays: int | None = began["replays"]
        self._entry: int | None = None
        self._is_open = True
        self._views: list[str] = []

    @property
    def id(self) -> str:
        """The transaction id, the same in the timeline, in `SHOW TRANSACTIONS` and in messages."""
        return self._id

    @property
    def name(self) -> str | None:
        """The name given by the user."""
        return self._name

    @property
    def isolation(self) -> str:
        """``SNAPSHOT`` or ``SERIALIZABLE``, as it was when the transaction began."""
        return self._isolation

    @property
    def read_only(self) -> bool:
        """Whether it began READ ONLY."""
        return self._read_only

    @property
    def is_open(self) -> bool:
        """Whether neither `commit` nor `rollback` of this object was called yet."""
        return self._is_open

    @property
    def entry(self) -> int | None:
        """The entry of the committed transaction in the timeline; None if it wrote nothing."""
        return self._entry

    @property
    def replays(self) -> int | None:
        """The entry that has applied the batch already, so that this transaction changes nothing.

        None for a batch that is new, or without one. Another client may apply the batch while this
        transaction is open: then it is known after `commit`.
        """
        return self._replays

    def commit(self) -> None:
        """Make all changes visible, or none.

        When this returns, the changes of all tables are durable. When it raises, the transaction
        has ended, unless it says that an assertion does not hold. It warns (``UserWarning``) where
        all is committed, and a name is not as it should be.

        Raises
        ------
        ConflictError
            Another client's commit was first; nothing was changed.
        ResidueError
            A conflict came so late that something stays; see the message before running it again.
        StateUnknownError
            The outcome is not known yet; `lakestep.recover` decides it if it is in
            flight. So it is when the JVM, or the server of Spark Connect, is lost meanwhile.
        AssertionFailedError
            What was asserted does not hold. The transaction stays open, unless
            ``spark.lakestep.assert.onFailure`` is ``rollback``.
        TransactionStateError
            The transaction has ended already; a later one of the session stays as it is.
        """
        self._end("commit()")
        if self._spark.conf.get(OPEN, self._id) != self._id:
            raise _errors.error(
                "LAKESTEP_TRANSACTION_NOT_OPEN", operation="commit()", transaction=self._id
            )
        told: list[str] = []
        try:
            row = self._spark.sql("COMMIT").collect()[0]
            self._entry, told = row["entry"], row["warnings"]
        except BaseException as failure:
            if _errors.is_lost(failure):
                # Nobody is left to be asked anything.
                self._views.clear()
                raise _errors.error("LAKESTEP_CONNECTION_LOST", transaction=self._id) from failure
            is_failed = isinstance(failure, _errors.AssertionFailedError)
            self._is_open = is_failed and self._spark.conf.get(OPEN, None) == self._id
            if not self._is_open:
                # COMMIT refuses all until ROLLBACK, which then changes nothing on storage.
                roll_back_after(self._spark, failure)
            if isinstance(failure, _errors.AssertionFailedError):
                failure.failures = self._failed_assertions()
            if not _is(failure, "LAKESTEP_CONFLICT.BATCH_APPLIED"):
                raise
            self._replays = int(failure.getMessageParameters()["entry"])
            _log.warning("Another client has committed the same batch: %s", failure)
        finally:
            if not self._is_open:
                self._drop_views()
        _errors.warn(told)

    def rollback(self) -> None:
        """Drop all changes; the tables were never touched.

        Raises
        ------
        TransactionStateError
            The transaction has ended already.
        """
        self._end("rollback()")
        self._spark.sql("ROLLBACK").collect()
        self._drop_views()

    def check(
        self, name: str, holds: str | DataFrame, message: str | None = None, *, now: bool = False
    ) -> None:
        """Assert what has to hold for the transaction to be committed.

        It is asked by `commit`, on what would be published, and what it reads is validated at every
        isolation level: a condition that passed is true when the transaction is committed.

        Parameters
        ----------
        name : str
            For the error and the timeline.
        holds : str or DataFrame
            A condition in SQL, which must be true, not false and not NULL; or a DataFrame, which
            must have no rows. A DataFrame is planned anew when it is asked. After a conflict the
            commit does not run the statements of a transaction with one again by itself, as it may
            with conditions alone; `lakestep.run` calls the function again, which makes it anew.
        message : str, optional
            What to do when it fails.
        now : bool, optional
            Ask it now, on the snapshot and what the transaction has done so far, and not by
            `commit`.

        Raises
        ------
        AssertionFailedError
            With `now`: it does not hold.
        LakestepError
            ``LAKESTEP_ASSERTION_INVALID``: it cannot be asserted.
        TransactionStateError
            The transaction has ended.

        Examples
        --------
        >>> with lakestep.transaction(spark) as txn:  # doctest: +SKIP
        ...     txn.check("no debts", spark.table("accounts").where("balance < 0"))
        ...     txn.check("sum", "(SELECT sum(balance) FROM accounts) = 100")
        """
        self._check_open("check()")
        if isinstance(holds, str):
            asserted = holds
        else:
            view = f"lakestep_check_{uuid.uuid4().hex}"
            holds.createOrReplaceTempView(view)
            self._views.append(view)
            asserted = f"NO ROWS (SELECT * FROM {view})"
        # On a line of its own, should the condition end in a comment.
        statement = f"ASSERT {asserted}\n AS {quoted(name)}"
        if message is not None:
            statement += f" MESSAGE {literal(message)}"
        try:
            self._spark.sql(statement + " IMMEDIATE" * now).collect()
        except _errors.AssertionFailedError as failure:
            failure.failures = self._failed_assertions()[-1:]
            raise

    def _give_up(self, failure: BaseException) -> None:
        """Roll back after a failure, to which it is noted if that fails, too."""
        self._end("rollback()")
        roll_back_after(self._spark, failure)
        self._drop_views()

    def _drop_views(self) -> None:
        while self._views:
            view = self._views.pop()
            try:
                self._spark.catalog.dropTempView(view)
            except Exception as failure:
                _log.warning("The view %s of a check stays: %s", view, failure)

    def _failed_assertions(self) -> list[_errors.FailedAssertion]:
        rows = self._spark.sql("SHOW ASSERTIONS").where("outcome = 'FAILED'").collect()
        return [_errors.FailedAssertion(r["name"], r["message"], r["found"]) for r in rows]

    @contextmanager
    def savepoint(self, name: str | None = None) -> Iterator[Savepoint]:
        """Run the body of a ``with`` statement so that it alone can be taken back.

        An exception takes back everything that the body did to tables, and is raised again as it
        was; the transaction goes on. If that cannot be done, as the body has gone back to an
        earlier savepoint, the whole transaction is rolled back. Savepoints may be nested. Settings
        and temporary views of the session are not taken back, and what was read still counts as
        read.

        Parameters
        ----------
        name : str, optional
            For ``ROLLBACK TO`` in SQL. Default: one that no other has.

        Yields
        ------
        Savepoint
            For taking back a part by hand.

        Raises
        ------
        TransactionStateError
            The transaction has ended.

        Examples
        --------
        >>> with lakestep.transaction(spark) as txn:  # doctest: +SKIP
        ...     orders.writeTo("orders").append()
        ...     try:
        ...         with txn.savepoint():
        ...             late_orders.writeTo("orders").append()
        ...     except AnalysisException:
        ...         log.warning("no late orders today")
        """
        self._check_open("savepoint()")
        point = Savepoint(self._spark, name)
        try:
            yield point
        except BaseException as failure:
            # It may have ended the transaction, and then there is nothing to go back to.
            if self._is_open:
                try:
                    point.rollback()
                    point._release()
                except Exception as error:
                    # What the body did must not be committed.
                    _errors.add_note(
                        failure, f"ROLLBACK TO failed, so all was rolled back: {error}"
                    )
                    self._give_up(failure)
            raise
        if self._is_open:
            point._release()

    def _check_open(self, operation: str) -> None:
        if not self._is_open:
            raise _errors.error(
                "LAKESTEP_TRANSACTION_NOT_OPEN", operation=operation, transaction=self._id
            )

    def _end(self, operation: str) -> None:
        self._check_open(operation)
        self._is_open = False

    def __repr__(self) -> str:
        name = "" if self._name is None else f", name={self._name!r}"
        return f"Transaction(id={self._id!r}{name}, is_open={self._is_open})"


@contextmanager
def transaction(
    spark: SparkSession,
    name: str | None = None,
    *,
    isolation: str | None = None,
    read_only: bool = False,
    as_of: int | datetime | str | None = None,
    batch: tuple[str | None, int] | None = None,
    comment: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> Iterator[Transaction]:
    """Run the body of a ``with`` statement as one transaction over all Delta tables.

    A clean exit commits. An exception rolls back and is raised again as it was; if the rollback
    fails too, its error is added to the exception as a note. Nothing more is done after a body that
    has called `Transaction.commit` or `Transaction.rollback` itself.

    Parameters
    ----------
    spark : SparkSession
        A session configured by `lakestep.configure`, Classic or Connect.
    name : str, optional
        Shown in `SHOW TRANSACTIONS` and kept in the timeline.
    isolation : str, optional
        ``"SNAPSHOT"``: every statement reads one snapshot, and of two transactions that change the
        same file one fails. ``"SERIALIZABLE"``: the commit fails as well when rows that were read
        have changed, so that the transactions of this level are as if run one after another.
        Default: ``spark.lakestep.isolationLevel``, which is ``SNAPSHOT``.
    read_only : bool, optional
        Refuse every write, and put nothing on any store: read permissions are enough. It finishes
        no transaction of another client, and so may read an earlier snapshot than one that writes.
    as_of : int, datetime or str, optional
        Read the whole database, names too, as it was in this version (the number of an entry), at
        this time (without a zone of the session's), or in the named snapshot. Implies `read_only`.
    batch : tuple of str and int, optional
        A streaming query and the number of its batch, which is then applied exactly once, whoever
        dies and whoever else runs the query. The query is its id, or a name that no other query
        has; None inside a batch of Spark Classic for the query that runs it. When the batch is
        committed already, the body runs, `Transaction.replays` tells it, and nothing that it does
        to tables is committed; an exception of the body is logged then, and not raised.
    comment : str, optional
        Why; kept in the timeline, and shown by `SHOW TIMELINE`, as `tags` are.
    tags : mapping of str to str, optional
        Keys and values of your own, the run of a job for one. With the comment 4,096 characters.

    Yields
    ------
    Transaction
        For ``withTransaction`` and for an earlier commit or rollback.

    Raises
    ------
    ConfigurationError
        ``LAKESTEP_NOT_CONFIGURED`` or ``LAKESTEP_VERSION_MISMATCH``.
    TransactionStateError
        ``LAKESTEP_TRANSACTION_ALREADY_ACTIVE``: the session has an open transaction.
        ``LAKESTEP_BATCH_BEHIND``: a later batch of the query is committed.
        ``LAKESTEP_BATCH_OF_ANOTHER_QUERY``: another stream has that name.
    ValueError
        `isolation` is no level; a wrong `as_of` is ``LAKESTEP_AS_OF_NOT_FOUND``.
    ConflictError, ResidueError, StateUnknownError
        From the commit.

    Examples
    --------
    >>> with lakestep.transaction(spark, "daily load") as txn:  # doctest: +SKIP
    ...     orders.writeTo("orders").withTransaction(txn).append()
    ...     spark.sql("DELETE FROM staging WHERE loaded")
    """
    _session.meet(spark)
    statement = begin(name, isolation, read_only, as_of, batch, comment, tags or {})
    txn = Transaction(spark, spark.sql(statement).collect()[0])
    try:
        yield txn
    except BaseException as failure:
        if txn.is_open:
            txn._give_up(failure)
            if txn.replays is not None and isinstance(failure, Exception):
                _log.warning(
                    "Entry %d holds this batch already; its function failed",
                    txn.replays,
                    exc_info=True,
                )
                return
        raise
    if txn.is_open:
        try:
            txn.commit()
        except BaseException as failure:
            # It stays open for those who would look at it, and nobody is left to.
            if txn.is_open:
                txn._give_up(failure)
            raise


def _is(failure: BaseException, condition: str) -> TypeGuard[_errors.LakestepError]:
    return isinstance(failure, _errors.LakestepError) and failure.getCondition() == condition


def roll_back_after(spark: SparkSession, failure: BaseException) -> None:
    """Leave no transaction open in the session; what goes wrong here becomes a note."""
    try:
        spark.sql("ROLLBACK").collect()
    except Exception as error:
        if not _is(error, "LAKESTEP_NO_ACTIVE_TRANSACTION"):
            _errors.add_note(failure, f"ROLLBACK failed too: {error}")
