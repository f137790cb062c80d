"""``withTransaction`` for PySpark's readers and writers: the only methods added to PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lakestep import _errors

if TYPE_CHECKING:
    from lakestep._transaction import Transaction

_Target = TypeVar("_Target")

OPTION = "lakestep.transaction"

_installed: set[str] = set()


def install(*, connect: bool = False) -> None:
    """Give PySpark's readers and writers the method ``withTransaction(txn)``.

    Classic: ``DataFrameReader``, ``DataFrameWriter``, ``DataFrameWriterV2``, ``MergeIntoWriter``;
    with `connect` also the classes of these names of Spark Connect, which are imported only then.
    Idempotent.
    """
    if "classic" not in _installed:
        from pyspark.sql import merge, readwriter

        _add(readwriter, merge)
        _installed.add("classic")
    if connect and "connect" not in _installed:
        from pyspark.sql.connect import merge as connect_merge
        from pyspark.sql.connect import readwriter as connect_readwriter

        _add(connect_readwriter, connect_merge)
        _installed.add("connect")


def is_connect(instance: object) -> bool:
    """Return whether a session, reader or writer belongs to Spark Connect."""
    return type(instance).__module__.startswith("pyspark.sql.connect.")


def _add(readwriter: Any, merge: Any) -> None:  # noqa: ANN401
    for target in (
        readwriter.DataFrameReader,
        readwriter.DataFrameWriter,
        readwriter.DataFrameWriterV2,
        merge.MergeIntoWriter,
    ):
        target.withTransaction = _with_transaction


def _with_transaction(self: _Target, txn: Transaction) -> _Target:
    """State that this read or write belongs to a transaction, and check that it is so.

    While a transaction is open, everything its session does belongs to it; this method changes
    nothing but refuses at once what would not. The option that it sets lets the JVM check again
    when the read or write runs; a merge has no options and is checked only here.

    Parameters
    ----------
    txn : Transaction
        An open transaction of the session of this reader or writer.

    Returns
    -------
    reader or writer
        The same object.

    Raises
    ------
    TransactionStateError
        ``LAKESTEP_TRANSACTION_NOT_OPEN`` or ``LAKESTEP_TRANSACTION_OF_OTHER_SESSION``.

    Examples
    --------
    >>> df.write.format("delta").mode("append").withTransaction(txn).save(path)  # doctest: +SKIP
    """
    operation = type(self).__name__
    if not txn.is_open:
        raise _errors.error(
            "LAKESTEP_TRANSACTION_NOT_OPEN", operation=operation, transaction=txn.id
        )
    if _session_identity(_session_of(self)) != _session_identity(txn._spark):
        raise _errors.error(
            "LAKESTEP_TRANSACTION_OF_OTHER_SESSION", operation=operation, transaction=txn.id
        )
    option = getattr(self, "option", None)
    if option is not None:
        option(OPTION, txn.id)
    return self


def _session_of(target: Any) -> Any:  # noqa: ANN401
    # Connect's reader calls its session `_client`; its merge holds only the session's client there.
    session = getattr(target, "_spark", None)
    return session if session is not None else target._client


def _session_identity(session: Any) -> object:  # noqa: ANN401
    """Return what two Python objects for one session of the JVM or server have in common."""
    if is_connect(session):
        return ("connect", session._session_id)
    return ("classic", session._jsparkSession.sessionUUID())
