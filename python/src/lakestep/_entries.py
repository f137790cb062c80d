"""What the files of a timeline say, as values; `_timeline_files` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """``format.json``."""

    timeline: str
    format: int
    required_features: tuple[str, ...]


@dataclass(frozen=True)
class Requested:
    """A transaction at BEGIN: what its file says, and its entry repeats."""

    id: str
    name: str | None
    user: str
    application: str
    isolation: str
    snapshot: int
    requested_at_ms: int
    comment: str | None
    tags: Mapping[str, str]


@dataclass(frozen=True)
class FileSums:
    """Files, their rows as far as statistics tell, and bytes."""

    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class EntryTable:
    """A table that an entry writes."""

    log: str
    table_id: str
    path: str
    name: str
    pin: int
    base: int
    parts: int
    is_reserved: bool
    is_closed: bool
    added: FileSums
    removed: FileSums
    operations: tuple[str, ...] = ()


@dataclass(frozen=True)
class EntryRead:
    """A table that a SERIALIZABLE transaction read and did not write."""

    log: str
    path: str
    name: str
    pin: int
    validated_to: int


@dataclass(frozen=True)
class NameChange:
    """What an entry makes of a name: ``CREATE TABLE``, ``DROP VIEW``, and the name.

    ``before`` and ``after`` are the paths of the tables that it stood, and stands for.
    """

    verb: str
    name: str
    before: str | None = None
    after: str | None = None

    def __str__(self) -> str:
        return f"{self.verb} {self.name}"


@dataclass(frozen=True)
class Purge:
    """A dropped table whose data an entry gives up."""

    name: str
    path: str


@dataclass(frozen=True)
class BatchKey:
    """A batch of a streaming query; without a number the query is forgotten."""

    query: str
    batch: int | None
    stream: str | None

    def __str__(self) -> str:
        return f"{'none' if self.batch is None else self.batch} of {self.query}"


@dataclass(frozen=True)
class Assertion:
    """What was asserted, and whether it held."""

    name: str
    passed: bool


@dataclass(frozen=True)
class Undoing:
    """What a transaction takes back: another one, or all since a point."""

    transaction: str | None
    restored: str | None
    to: str | None

    def __str__(self) -> str:
        if self.transaction is not None:
            return f"REVERT TRANSACTION '{self.transaction}'"
        return f"RESTORE {self.restored or ''} TO {self.to or ''}"


@dataclass(frozen=True)
class CommitEntry:
    """A transaction at its order point."""

    number: int
    previous: str
    time_ms: int
    transaction: Requested
    tables: tuple[EntryTable, ...]
    reads: tuple[EntryRead, ...]
    names: tuple[NameChange, ...]
    purges: tuple[Purge, ...]
    batches: tuple[BatchKey, ...]
    assertions: tuple[Assertion, ...]
    undoes: tuple[Undoing, ...] = ()


@dataclass(frozen=True)
class AbortEntry:
    """Ends transactions that have no entry and never get one."""

    number: int
    previous: str
    time_ms: int
    transactions: tuple[str, ...]
    reason: str


Entry = CommitEntry | AbortEntry


@dataclass(frozen=True)
class Conflict:
    """Why an entry is rolled back; of the commit that conflicts what is known."""

    rule: str
    table: str
    path: str
    version: int | None
    operation: str | None
    user: str | None
    time_ms: int | None
    files: tuple[str, ...]
    other_transaction: str | None


@dataclass(frozen=True)
class Completed:
    """Every table holds the entry; the versions of each, in the order of its tables.

    ``commit_hashes`` has the hash of the commit in each slot, one after another, empty for one that
    is not known. Earlier versions have put none.
    """

    number: int
    entry_hash: str
    time_ms: int
    slots: tuple[tuple[int, ...], ...]
    commit_hashes: tuple[str, ...] = ()

    def hashes(self) -> list[list[str]]:
        """Return them table by table, as many as there are slots."""
        rest = iter(self.commit_hashes)
        return [[next(rest, "") for _ in slots] for slots in self.slots]


@dataclass(frozen=True)
class Aborting:
    """The entry is being rolled back."""

    number: int
    entry_hash: str
    time_ms: int
    conflict: Conflict


Outcome = Completed | Aborting


@dataclass(frozen=True)
class Settled:
    """How a table of a rolled-back entry ended: ``closed``, ``undone`` or ``gone``."""

    how: str
    version: int | None
    residue: tuple[str, ...]


@dataclass(frozen=True)
class RolledBack:
    """Every table of an entry that was aborting is settled."""

    number: int
    entry_hash: str
    time_ms: int
    tables: tuple[Settled, ...]


@dataclass(frozen=True)
class Checkpoint:
    """Of what finished entries left behind: which transactions were aborted, and by which entry."""

    number: int
    hash: str
    aborted: Mapping[str, int]


@dataclass(frozen=True)
class Binding:
    """Which timeline a table belongs to."""

    timeline: str
    log: str
    path: str


@dataclass(frozen=True)
class Status:
    """An entry, the hash of its bytes, and what is known of its end."""

    entry: Entry
    hash: str
    outcome: Outcome | None = None
    rolled_back: RolledBack | None = None

    @property
    def state(self) -> str:
        """Return ``COMPLETED``, ``ROLLED_BACK``, ``INFLIGHT`` or ``ABORTED``."""
        if isinstance(self.entry, AbortEntry):
            return "ABORTED"
        if isinstance(self.outcome, Completed):
            return "COMPLETED"
        return "INFLIGHT" if self.rolled_back is None else "ROLLED_BACK"

    @property
    def is_finished(self) -> bool:
        """Return whether nobody has anything left to do for it."""
        return self.state != "INFLIGHT"

    @property
    def ended_at_ms(self) -> int | None:
        """Return when it was finished."""
        if isinstance(self.entry, AbortEntry):
            return self.entry.time_ms
        end = self.rolled_back or (self.outcome if self.is_finished else None)
        return None if end is None else end.time_ms
