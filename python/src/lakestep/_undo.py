"""Taking back what was committed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import index
from typing import TYPE_CHECKING

from lakestep import _session
from lakestep._sql import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Undone:
    """What became of a table, of a name, or of streaming queries.

    Attributes
    ----------
    action : str
        ``RESTORED`` or ``UNCHANGED`` for a table, ``MADE SINCE`` for one that stays as it is, as it
        was not there, ``GONE`` for one that is lost; ``NAMED`` or ``DROPPED`` for a name;
        ``BATCHES`` for streaming queries.
    table, path : str or None
        What it is of.
    from_version, to_version : int or None
        The Delta version that was there, and the one whose content the table has now.
    added_files, removed_files : int
        Data files that came back, and that went.
    added_rows, removed_rows : int or None
        Their rows; None where statistics do not tell.
    added_bytes, removed_bytes : int
        Their size.
    keys_taken_back, keys_kept : tuple of str
        Applications (``txnAppId``) and streaming queries that may apply their last batch once more,
        and those that may not.
    """

    action: str
    table: str | None
    path: str | None
    from_version: int | None
    to_version: int | None
    added_files: int
    added_rows: int | None
    added_bytes: int
    removed_files: int
    removed_rows: int | None
    removed_bytes: int
    keys_taken_back: tuple[str, ...]
    keys_kept: tuple[str, ...]


def revert(
    spark: SparkSession, transaction_id: str, *, dry_run: bool = False, keep_keys: bool = False
) -> list[Undone]:
    """Take one committed transaction back, over all its tables and names, and nothing else.

    It is a part of the open transaction, or one by itself. Nothing changes when later commits build
    upon the rows of the transaction, or when files that have to come back are gone.

    Parameters
    ----------
    spark : SparkSession
        A session configured by `lakestep.configure`.
    transaction_id : str
        The id of the transaction, as ``SHOW TIMELINE`` has it.
    dry_run : bool, optional
        Only tell what would be done.
    keep_keys : bool, optional
        Leave the marks of applications and streaming queries, so that nobody applies a batch of the
        transaction once more.

    Returns
    -------
    list of Undone
        A row for each table, name, and all streaming queries.

    Raises
    ------
    LakestepError
        ``LAKESTEP_REVERT_BUILT_UPON``, which names the later commits; ``LAKESTEP_UNDO_FILES_GONE``;
        ``LAKESTEP_REVERT_NOT_COMMITTED``, ``LAKESTEP_ALREADY_REVERTED`` and other conditions.
    ConflictError
        Others changed the same rows meanwhile, again and again.

    Examples
    --------
    >>> lakestep.revert(spark, "t0123456789abcdef0123456789abcdef")  # doctest: +SKIP
    """
    return _undone(spark, f"REVERT TRANSACTION {_id(transaction_id)}", dry_run, keep_keys)


def restore(
    spark: SparkSession,
    *,
    version: int | None = None,
    timestamp: datetime | None = None,
    snapshot: str | None = None,
    before: str | None = None,
    schema: str | None = None,
    tables: Iterable[str] | None = None,
    dry_run: bool = False,
    keep_keys: bool = False,
) -> list[Undone]:
    """Make tables and names what they were at a point of the timeline.

    Without `schema` and `tables` it is the whole database: every table that transactions have
    written, and every name that they have changed. It is a part of the open transaction, or one by
    itself; nothing changes when one of the tables cannot be what it was.

    Parameters
    ----------
    spark : SparkSession
        A session configured by `lakestep.configure`.
    version : int, optional
        A version of the database: an entry of the timeline.
    timestamp : datetime, optional
        What was committed by then. Without a zone it is of that of the session.
    snapshot : str, optional
        A named snapshot.
    before : str, optional
        The id of a transaction: what there was before it.
    schema : str, optional
        Only the names of this schema and their tables.
    tables : iterable of str, optional
        Only these, as SQL writes them: names, or ``delta.`path```.
    dry_run : bool, optional
        Only tell what would be done.
    keep_keys : bool, optional
        As for `revert`.

    Returns
    -------
    list of Undone
        A row for each table, for each name that changed, and one for streaming queries.

    Raises
    ------
    TypeError
        Not exactly one point was given, or both `schema` and `tables`.
    LakestepError
        ``LAKESTEP_AS_OF_NOT_FOUND``, ``LAKESTEP_NOT_THERE_AS_OF``, ``LAKESTEP_UNDO_FILES_GONE`` and
        other conditions.
    ConflictError
        Others changed the same rows meanwhile, again and again.

    Examples
    --------
    >>> lakestep.restore(spark, snapshot="monday", tables=["orders", "stock"])  # doctest: +SKIP
    """
    points = []
    if version is not None:
        if isinstance(version, bool):
            raise TypeError("version is a number")
        points.append(f"TO VERSION {index(version)}")
    if timestamp is not None:
        points.append(f"TO TIMESTAMP {literal(timestamp.isoformat())}")
    if snapshot is not None:
        points.append(f"TO SNAPSHOT {quoted(snapshot)}")
    if before is not None:
        points.append(f"TO BEFORE TRANSACTION {_id(before)}")
    if len(points) != 1:
        raise TypeError("restore takes exactly one of version, timestamp, snapshot and before")
    if schema is not None and tables is not None:
        raise TypeError("restore takes schema or tables, not both")
    what = "DATABASE"
    if schema is not None:
        what = f"SCHEMA {schema if '`' in schema else '.'.join(map(quoted, schema.split('.')))}"
    elif tables is not None:
        names = () if isinstance(tables, str) else tuple(tables)
        if not names:
            raise TypeError("tables is a list of names, and not empty")
        what = f"TABLES ({', '.join(names)})"
    return _undone(spark, f"RESTORE {what} {points[0]}", dry_run, keep_keys)


def _id(transaction: str) -> str:
    if not isinstance(transaction, str):
        raise TypeError("a transaction is named by its id, a text")
    return literal(transaction)


def _undone(spark: SparkSession, statement: str, dry_run: bool, keep_keys: bool) -> list[Undone]:
    _session.meet(spark)
    statement += " KEEP KEYS" * keep_keys + " DRY RUN" * dry_run
    rows = [row.asDict() for row in spark.sql(statement).collect()]
    keys = ("keys_taken_back", "keys_kept")
    return [Undone(**row | {key: tuple(row[key]) for key in keys}) for row in rows]
