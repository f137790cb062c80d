"""Reading a timeline without Spark: `Timeline`.

It puts nothing and finishes nothing. The steps are those of ``scala/PROTOCOL.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lakestep import _errors
from lakestep import _timeline_files as files
from lakestep._entries import (
    AbortEntry,
    Aborting,
    Checkpoint,
    CommitEntry,
    Entry,
    Format,
    Outcome,
    Requested,
    RolledBack,
    Status,
)
from lakestep._fields import corrupt
from lakestep._storage import Place, Stores

# How wide a hole may be before it looks like the end.
_WINDOW = 64
_CHECKPOINT = re.compile(r"(\d{20})\.json")
_REQUESTED = re.compile(r"(t[0-9a-f]{32})\.json")


@dataclass(frozen=True)
class Described:
    """What became of a transaction: ``status`` when it has an entry, ``requested`` while open.

    ``aborted_by`` is the entry that ended it. Without any of them it is not known here.
    """

    status: Status | None = None
    aborted_by: int | None = None
    requested: Requested | None = None


class Timeline:
    """The timeline of a root, as its files are now.

    Parameters
    ----------
    root : str
        The folder, as ``spark.lakestep.root`` names it.
    stores : Stores
        Reads its files.

    Raises
    ------
    LakestepError
        ``LAKESTEP_TIMELINE_NOT_FOUND``, if there is none; from all methods
        ``LAKESTEP_TIMELINE_CORRUPT``, ``LAKESTEP_TIMELINE_FEATURE_UNKNOWN`` and
        ``LAKESTEP_STORE_READ_FAILED``.
    """

    def __init__(self, root: str, stores: Stores) -> None:
        self.stores = stores
        self.root = Place.named(root)
        self.folder = self.root / "timeline"
        self.format = self._read_format()

    @property
    def id(self) -> str:
        """Return the id by which tables name it."""
        return self.format.timeline

    def _read_format(self) -> Format:
        file = self.root / "format.json"
        content = self.stores.get(file)
        if content is None:
            raise _errors.error("LAKESTEP_TIMELINE_NOT_FOUND", root=str(self.root), file=str(file))
        return files.format_of(str(file), content)

    # Files.

    def file(self, number: int, kind: str = "") -> Place:
        """Return the place of entry `number`; of what belongs to it with `kind` ``.outcome``, …."""
        return self.folder / f"{number:020}{kind}.json"

    def entry(self, number: int) -> Status | None:
        """Return an entry without its end, or None if there is none."""
        file = self.file(number)
        content = self.stores.get(file)
        if content is None:
            return None
        return Status(files.entry_of(str(file), content, number), files.hash_of(content))

    def outcome(self, number: int) -> Outcome | None:
        """Return the outcome of an entry, if it has one."""
        file = self.file(number, ".outcome")
        content = self.stores.get(file)
        return None if content is None else files.outcome_of(str(file), content, number)

    def rolled_back(self, number: int) -> RolledBack | None:
        """Return how the rollback of an entry ended, if it has."""
        file = self.file(number, ".rolled_back")
        content = self.stores.get(file)
        return None if content is None else files.rolled_back_of(str(file), content, number)

    def status(self, number: int) -> Status:
        """Return an entry that must be there, with its end."""
        return self._with_end(self._existing(number))

    def _existing(self, number: int) -> Status:
        found = self.entry(number)
        if found is None:
            raise corrupt(str(self.file(number)), "it is missing")
        return found

    def _with_end(self, status: Status) -> Status:
        if isinstance(status.entry, AbortEntry):
            return status
        number = status.entry.number
        outcome = self.outcome(number)
        rolled_back = self.rolled_back(number) if isinstance(outcome, Aborting) else None
        for end, kind in ((outcome, ".outcome"), (rolled_back, ".rolled_back")):
            if end is not None and end.entry_hash != status.hash:
                why = "the hash that it holds is not that of its entry"
                raise corrupt(str(self.file(number, kind)), why)
        return Status(status.entry, status.hash, outcome, rolled_back)

    # Numbers.

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that fits; one that does not is passed over, as JVMs do."""
        folder = self.root / "checkpoints"
        try:
            names = [_CHECKPOINT.fullmatch(found.name) for found in self.stores.list(folder)]
        except _errors.LakestepError:
            return None
        for number in sorted((int(name[1]) for name in names if name), reverse=True):
            file = folder / f"{number:020}.json"
            try:
                content, entry = self.stores.get(file), self.stores.get(self.file(number))
                found = files.checkpoint_of(str(file), content or b"", number)
            except _errors.LakestepError:
                continue
            if entry is not None and files.hash_of(entry) == found.hash:
                return found
        return None

    def newest(self) -> int:
        """Return the number of the newest entry, 0 for none.

        Numbers have no holes, so what follows a checkpoint is found without a listing, which is as
        long as the timeline. A hole near the end is damage; others are found by who reads entries.
        """
        low = self.checkpoint.number if self.checkpoint else 0
        step = _WINDOW
        while self.stores.exists(self.file(low + step)):
            low, step = low + step, step * 2
        while step > _WINDOW:
            step //= 2
            if self.stores.exists(self.file(low + step)):
                low += step
        numbers = range(low + 1, low + 2 * _WINDOW)
        there = [n for n, found in zip(numbers, self._exist(numbers), strict=True) if found]
        newest = there[-1] if there else low
        # One that was put meanwhile is there by now.
        absent = [n for n in range(low + 1, newest) if n not in there]
        for number, found in zip(absent, self._exist(absent), strict=True):
            if not found:
                raise corrupt(str(self.file(number)), "it is missing before a later entry")
        return newest

    def _exist(self, numbers: Iterable[int]) -> Iterator[bool]:
        return self.stores.each(lambda n: self.stores.exists(self.file(n)), numbers)

    # Entries.

    def statuses(self, first: int, last: int) -> Iterator[Status]:
        """Yield entries with their ends, oldest first; each holds the hash of the one before."""
        numbers = range(max(first, 1), last + 1)
        return self._chained(self.stores.each(self.status, numbers))

    def _chained(self, statuses: Iterable[Status]) -> Iterator[Status]:
        previous: str | None = None
        for status in statuses:
            entry = status.entry
            if (previous or "") != entry.previous and (previous is not None or entry.number == 1):
                why = f"the hash that it holds is not that of entry {entry.number - 1}"
                raise corrupt(str(self.file(entry.number)), why)
            previous = status.hash
            yield status

    def backwards(self, newest: int, until: int = 0) -> Iterator[Status]:
        """Yield entries without their ends, newest first, down to the one after `until`."""
        numbers = range(newest, max(until, 0), -1)
        following: Entry | None = None
        for status in self.stores.each(self._existing, numbers):
            if following is not None and following.previous != status.hash:
                why = f"its hash is not the one that entry {following.number} holds"
                raise corrupt(str(self.file(status.entry.number)), why)
            following = status.entry
            yield status

    def unfinished(self, newest: int) -> list[Status]:
        """Return the entries in flight, oldest first. What a checkpoint is of is finished."""
        finished = self.checkpoint.number if self.checkpoint else 0
        return [s for s in self.statuses(finished + 1, newest) if not s.is_finished]

    # Transactions.

    def requested(self) -> list[Requested]:
        """Return what stands in ``transactions``, oldest first: open ones, and what others left."""
        names = [_REQUESTED.fullmatch(f.name) for f in self.stores.list(self.root / "transactions")]
        found = self.stores.each(self._requested, [name[1] for name in names if name])
        return sorted((one for one in found if one), key=lambda one: one.requested_at_ms)

    def _requested(self, transaction: str) -> Requested | None:
        file = self.root / "transactions" / f"{transaction}.json"
        content = self.stores.get(file)
        return None if content is None else files.requested_of(str(file), content)

    def open_transactions(self) -> list[Requested]:
        """Return the transactions without an entry that nobody has ended, oldest first."""
        # One of these may get its entry now: the entries are read afterwards.
        requested = self.requested()
        began = {one.id: one.snapshot for one in requested}
        newest = self.newest()
        for one in requested:
            # The entries at the end are gone.
            if one.snapshot > newest and not self.stores.exists(self.file(one.snapshot)):
                why = f"it is missing: transaction {one.id} began after it"
                raise corrupt(str(self.file(one.snapshot)), why)
        ended = self._ended(began, newest)
        return [one for one in requested if one.id not in ended]

    def _ended(self, began: dict[str, int], newest: int) -> set[str]:
        aborted = self.checkpoint.aborted if self.checkpoint else {}
        ended = began.keys() & aborted.keys()
        left = {id: snapshot for id, snapshot in began.items() if id not in ended}
        if not left:
            return ended
        # An entry of a transaction comes after the snapshot with which it began.
        for status in self.backwards(newest, min(left.values())):
            found = left.keys() & transactions_of(status.entry)
            ended |= found
            for id in found:
                del left[id]
            if not left:
                break
        return ended

    def describe(
        self, transaction: str, seen: Callable[[Status], object] = lambda status: None
    ) -> Described:
        """Return what became of a transaction.

        Parameters
        ----------
        transaction : str
            Its id.
        seen : callable, optional
            Is told of each entry that is read on the way.
        """
        requested = self._requested(transaction)
        newest = self.newest()
        aborted = self.checkpoint.aborted if self.checkpoint else {}
        if transaction in aborted:
            return Described(aborted_by=aborted[transaction])
        for status in self.backwards(newest, requested.snapshot if requested else 0):
            seen(status)
            if transaction in transactions_of(status.entry):
                if isinstance(status.entry, AbortEntry):
                    return Described(aborted_by=status.entry.number)
                return Described(status=self._with_end(status))
        return Described(requested=requested)


def transactions_of(entry: Entry) -> Sequence[str]:
    """Return the transactions that have this entry, or are ended by it."""
    return (entry.transaction.id,) if isinstance(entry, CommitEntry) else entry.transactions
