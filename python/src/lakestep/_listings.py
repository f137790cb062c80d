"""What the command line says of transactions: rows as SHOW TIMELINE has them, and more.

A row is a mapping from column to value: texts, numbers, times in UTC, lists and mappings of these.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from lakestep._entries import (
    AbortEntry,
    Aborting,
    CommitEntry,
    Completed,
    Conflict,
    EntryTable,
    Requested,
    Status,
)
from lakestep._timeline import Described

Row = dict[str, Any]

_TIMELINE = (
    *("entry", "state", "transaction_id", "name", "comment", "tags", "user", "application"),
    *("isolation", "began_at", "ordered_at", "ended_at", "operations", "tables", "names", "batch"),
    *("added_files", "added_rows", "removed_files", "undoes"),
)


def time_of(ms: int | None) -> datetime | None:
    """Return a time of the protocol."""
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=ms)
    except OverflowError:
        # A clock that was very wrong.
        return (datetime.min if ms < 0 else datetime.max).replace(tzinfo=timezone.utc)


def now_ms() -> int:
    """Return the time by the clock of this machine."""
    return int(datetime.now(timezone.utc).timestamp() * 1000)


def timeline(status: Status) -> list[Row]:
    """Return the rows of SHOW TIMELINE for an entry."""
    entry = status.entry
    if isinstance(entry, AbortEntry):
        ended = time_of(entry.time_ms)
        about = {"entry": entry.number, "state": "ABORTED", "ordered_at": ended, "ended_at": ended}
        return [
            dict.fromkeys(_TIMELINE) | about | {"transaction_id": id} for id in entry.transactions
        ]
    of = entry.transaction
    row = {
        "entry": entry.number,
        "state": status.state,
        "transaction_id": of.id,
        "name": of.name,
        "comment": of.comment,
        "tags": dict(of.tags),
        "user": of.user,
        "application": of.application,
        "isolation": of.isolation,
        "began_at": time_of(of.requested_at_ms),
        "ordered_at": time_of(entry.time_ms),
        "ended_at": time_of(status.ended_at_ms),
        "operations": list(dict.fromkeys(o for t in entry.tables for o in t.operations)),
        "tables": [table.name for table in entry.tables],
        "names": [str(change) for change in entry.names],
        "batch": _batches(entry) or None,
        "added_files": sum(table.added.files for table in entry.tables),
        "added_rows": sum(table.added.rows for table in entry.tables),
        "removed_files": sum(table.removed.files for table in entry.tables),
        "undoes": [str(undoing) for undoing in entry.undoes],
    }
    return [row]


def in_flight(status: Status, now: int) -> Row:
    """Return the row of SHOW TRANSACTIONS for an unfinished entry."""
    entry = status.entry
    assert isinstance(entry, CommitEntry)
    tables = ", ".join(table.name for table in entry.tables)
    row = _transaction(entry.transaction, "INFLIGHT", entry.number, tables)
    return row | {"age_seconds": _seconds(now, entry.time_ms)}


def open_transaction(requested: Requested, now: int) -> Row:
    """Return the row of SHOW TRANSACTIONS ALL for a transaction without an entry."""
    row = _transaction(requested, "REQUESTED", None, None)
    return row | {"age_seconds": _seconds(now, requested.requested_at_ms)}


def _transaction(of: Requested, state: str, entry: int | None, tables: str | None) -> Row:
    return {
        "transaction_id": of.id,
        "name": of.name,
        "user": of.user,
        "state": state,
        "entry": entry,
        "began_at": time_of(of.requested_at_ms),
        "tables": tables,
        "application": of.application,
        "comment": of.comment,
        "tags": dict(of.tags),
    }


def _seconds(now: int, then: int) -> int:
    return max(0, now - then) // 1000


def age_of(seconds: int) -> str:
    """Return an age for people: ``3 d 4 h``, ``5 min``."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def conflict(status: Status) -> Row | None:
    """Return what an entry was, or is being, rolled back for; None for any other entry."""
    entry, outcome = status.entry, status.outcome
    if not isinstance(entry, CommitEntry) or not isinstance(outcome, Aborting):
        return None
    about = {
        "entry": entry.number,
        "state": status.state,
        "transaction_id": entry.transaction.id,
        "name": entry.transaction.name,
    }
    return about | _conflict(outcome.conflict) | {"residue": _residue(status)}


def _conflict(of: Conflict) -> Row:
    return {
        "rule": of.rule,
        "table": of.table,
        "path": of.path,
        "version": of.version,
        "operation": of.operation,
        "user": of.user,
        "time": time_of(of.time_ms),
        "files": list(of.files),
        "other_transaction": of.other_transaction,
    }


def described(transaction: str, found: Described) -> Row:
    """Return all that is known of a transaction."""
    if found.status is not None:
        return _ordered(found.status)
    if found.aborted_by is not None:
        return {"transaction_id": transaction, "state": "ABORTED", "entry": found.aborted_by}
    if found.requested is None:
        return {"transaction_id": transaction, "state": "NOT_FOUND"}
    return _begun(found.requested, "REQUESTED") | {"entry": None}


def described_entry(status: Status) -> Row:
    """Return all that is known of an entry."""
    entry = status.entry
    if isinstance(entry, CommitEntry):
        return _ordered(status)
    return {
        "entry": entry.number,
        "state": status.state,
        "ordered_at": time_of(entry.time_ms),
        "aborts": list(entry.transactions),
        "reason": entry.reason,
    }


def _begun(of: Requested, state: str) -> Row:
    return {
        "transaction_id": of.id,
        "state": state,
        "name": of.name,
        "comment": of.comment,
        "tags": dict(of.tags),
        "user": of.user,
        "application": of.application,
        "isolation": of.isolation,
        "snapshot": of.snapshot,
        "began_at": time_of(of.requested_at_ms),
    }


def _ordered(status: Status) -> Row:
    entry, outcome = status.entry, status.outcome
    assert isinstance(entry, CommitEntry)
    return _begun(entry.transaction, status.state) | {
        "entry": entry.number,
        "ordered_at": time_of(entry.time_ms),
        "ended_at": time_of(status.ended_at_ms),
        "batch": _batches(entry),
        "residue": _residue(status),
        "tables": [_table(status, i, table) for i, table in enumerate(entry.tables)],
        "reads": [
            {"name": r.name, "path": r.path, "pin": r.pin, "validated_to": r.validated_to}
            for r in entry.reads
        ],
        "names": [str(change) for change in entry.names],
        "purges": [{"name": purge.name, "path": purge.path} for purge in entry.purges],
        "assertions": [{"name": a.name, "passed": a.passed} for a in entry.assertions],
        "undoes": [str(undoing) for undoing in entry.undoes],
        "conflict": _conflict(outcome.conflict) if isinstance(outcome, Aborting) else None,
    }


def _table(status: Status, index: int, table: EntryTable) -> Row:
    ended, versions, residue = None, [], []
    if isinstance(status.outcome, Completed):
        ended, versions = "published", list(_at(status.outcome.slots, index) or ())
    elif settled := _at(status.rolled_back.tables if status.rolled_back else (), index):
        ended, residue = settled.how, list(settled.residue)
        versions = [] if settled.version is None else [settled.version]
    return {
        "name": table.name,
        "path": table.path,
        "pin": table.pin,
        "base": table.base,
        "ended": ended,
        "versions": versions,
        "operations": list(table.operations),
        "added_files": table.added.files,
        "added_rows": table.added.rows,
        "added_bytes": table.added.size_bytes,
        "removed_files": table.removed.files,
        "removed_rows": table.removed.rows,
        "removed_bytes": table.removed.size_bytes,
        "residue": residue,
    }


def _at(items: tuple[Any, ...], index: int) -> Any:  # noqa: ANN401
    return items[index] if index < len(items) else None


def _batches(entry: CommitEntry) -> str:
    return ", ".join(map(str, entry.batches))


def _residue(status: Status) -> list[str]:
    if status.rolled_back is None or not isinstance(status.entry, CommitEntry):
        return []
    ends = zip(status.entry.tables, status.rolled_back.tables, strict=False)
    return [f"{table.name}: {text}" for table, end in ends for text in end.residue]
