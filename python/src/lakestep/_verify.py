"""Whether a timeline is whole, and its entries stand in the tables: `verify`.

Each file of the timeline is read; of the tables the binding, the listing of the log, each commit
that an entry has put there, and which data files there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lakestep import _errors, _report
from lakestep import _timeline_files as files
from lakestep._database_at import DatabaseAt
from lakestep._entries import (
    AbortEntry,
    Aborting,
    CommitEntry,
    Completed,
    Entry,
    Outcome,
    RolledBack,
    Status,
)
from lakestep._findings import Finding, of_error
from lakestep._live_files import LiveFiles
from lakestep._published import Published
from lakestep._snapshots import snapshots
from lakestep._timeline import Timeline

_AT_ONCE = 128
_NAME = re.compile(r"(\d{20})(\.outcome|\.rolled_back|\.applied)?\.json")
_RESTORE = "Restore the file from a backup. Do not edit or delete files of a timeline."


@dataclass(frozen=True)
class Point:
    """Of which state data files are looked for: of a version, of a named snapshot, or of now."""

    version: int | None = None
    snapshot: str | None = None

    def __str__(self) -> str:
        if self.snapshot is not None:
            return f"snapshot {self.snapshot}"
        return "now" if self.version is None else f"version {self.version}"


def verified(
    timeline: Timeline, entries: tuple[int | None, int | None], point: Point | None
) -> Iterator[Finding]:
    """Yield what a verification finds, and show its progress; what cannot be read ends it.

    Parameters
    ----------
    timeline : Timeline
        What is verified.
    entries : tuple
        The first and the last entry; None for all.
    point : Point, optional
        Of which state data files are looked for. Default: of none.
    """
    database = DatabaseAt(timeline, point.version if point else None)
    try:
        verification = Verification(timeline, *entries, see=database.see)
        total = max(verification.last - verification.first + 1, 0)
        with _report.counting("entries", total) as seen:
            yield from verification.findings(seen)
        if point is not None:
            with _report.counting("tables") as seen:
                yield from _files(timeline, database, point, seen)
    except _errors.LakestepError as error:
        yield of_error(str(timeline.root), error)


def _files(
    timeline: Timeline, database: DatabaseAt, point: Point, seen: Callable[[], object]
) -> Iterator[Finding]:
    live = LiveFiles(timeline)
    if point.snapshot is not None:
        named = [one for one in snapshots(timeline) if one.name == point.snapshot.lower()]
        if not named:
            raise _errors.error("LAKESTEP_NO_SUCH_SNAPSHOT", snapshot=point.snapshot)
        found = live.of_snapshot(named[0], seen)
    else:
        found = live.of_database(database, seen)
    is_well = True
    for finding in found:
        is_well &= finding.severity != "problem"
        yield finding
    if is_well:
        text = f"{live.files} files of {live.tables} tables are there with their sizes."
        yield Finding("ok", f"data of {point}", text)


@dataclass
class _Read:
    """What stands under a number: the entry, its end, and who holds its hash."""

    number: int
    hash: str | None = None
    entry: Entry | None = None
    outcome: Outcome | None = None
    rolled_back: RolledBack | None = None
    claims: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def status(self) -> Status | None:
        if self.entry is None or self.hash is None or self.findings:
            return None
        return Status(self.entry, self.hash, self.outcome, self.rolled_back)


class Verification:
    """Reads the entries from `first` to `last`, and all that belongs to them.

    Parameters
    ----------
    timeline : Timeline
        What is verified.
    first, last : int, optional
        The entries. Default: all.
    see : callable, optional
        Is told of each entry with its end, in order; of one that is damaged with None.
    """

    def __init__(
        self,
        timeline: Timeline,
        first: int | None,
        last: int | None,
        see: Callable[[Status | None], object] = lambda status: None,
    ) -> None:
        self._timeline = timeline
        self._see = see
        self._names: dict[int, set[str]] = {}
        for found in timeline.stores.list(timeline.folder):
            if name := _NAME.fullmatch(found.name):
                self._names.setdefault(int(name[1]), set()).add(name[2] or "")
        entries = [number for number, kinds in self._names.items() if "" in kinds]
        # More are not missing than are there.
        self._strays = [number for number in entries if number > 2 * len(entries) + _AT_ONCE]
        self._newest = max((n for n in entries if n not in self._strays), default=0)
        self._open: dict[str, int] = {}
        self.first = max(first or 1, 1)
        self.last = self._newest if last is None else min(last, self._newest)

    def findings(self, seen: Callable[[], object] = lambda: None) -> Iterator[Finding]:
        """Yield what is found; damage is a ``problem``. `seen` is called for each entry."""
        damaged = False
        for finding in self._all(seen):
            damaged |= finding.severity == "problem"
            yield finding
        if not damaged:
            yield self._summary()

    def _all(self, seen: Callable[[], object]) -> Iterator[Finding]:
        for number in self._strays:
            why = "Nothing leads up to a number like that."
            yield Finding("problem", str(self._timeline.file(number)), why, _RESTORE)
        yield from self._end()
        self._published = Published(self._timeline)
        # The one before is read for the chain alone.
        begin = max(self.first - 1, 1)
        before: _Read | None = None
        for number in range(begin, self.last + 1, _AT_ONCE):
            numbers = range(number, min(number + _AT_ONCE, self.last + 1))
            reads = list(self._timeline.stores.each(self._read, numbers))
            for read in reads:
                yield from self._linked(before, read)
                before = read
            asked = [read for read in reads if read.number >= self.first]
            statuses = [status for read in asked if (status := read.status())]
            yield from self._published.check(statuses)
            yield from (_in_flight(status) for status in statuses if not status.is_finished)
            for status in statuses:
                yield from self._endless(status)
            for read in asked:
                self._see(read.status())
                seen()
        if before is not None:
            yield from self._judged(before, None)
        if self.first == 1 and self.last == self._newest:
            yield from self._published.strays(self._newest)
        yield from self._published.notes()

    def _endless(self, status: Status) -> Iterator[Finding]:
        """Nobody commits to a table before earlier entries over it have ended."""
        entry = status.entry
        logs = [table.log for table in entry.tables] if isinstance(entry, CommitEntry) else []
        for number in sorted({self._open[log] for log in logs if log in self._open}):
            why = (
                "It, or what ends its rollback, is missing:"
                f" entry {entry.number} over the same table is later."
            )
            yield Finding("problem", str(self._timeline.file(number, ".outcome")), why, _RESTORE)
        for log in logs:
            self._open.pop(log, None)
            if not status.is_finished:
                self._open[log] = entry.number

    def _end(self) -> Iterator[Finding]:
        """Entries that are gone at the end leave no hole, but others know of them."""
        root = self._timeline.root
        known: dict[str, int] = {
            str(self._timeline.file(number, kind)): number
            for number, kinds in self._names.items()
            for kind in kinds
            if number > self._newest and number not in self._strays
        }
        for found in self._timeline.stores.list(root / "checkpoints"):
            if (name := _NAME.fullmatch(found.name)) and not name[2]:
                known[str(root / "checkpoints" / found.name)] = int(name[1])
        for kind in ("history/entries", "history/snapshots", "history/names", "makings"):
            folder = root / kind
            for found in self._timeline.stores.list(folder):
                if found.name[:20].isdecimal() and found.name[20:21] == ".":
                    known[str(folder / found.name)] = int(found.name[:20])
        try:
            for one in self._timeline.requested():
                known[str(root / "transactions" / f"{one.id}.json")] = one.snapshot
        except _errors.LakestepError as error:
            yield of_error(str(root / "transactions"), error)
        # Entries may have been put since the listing.
        for file, number in known.items():
            if number > self._newest and not self._timeline.stores.exists(
                self._timeline.file(number)
            ):
                what = str(self._timeline.file(number))
                yield Finding("problem", what, f"It is missing: {file} knows of it.", _RESTORE)
                return

    def _read(self, number: int) -> _Read:
        read = _Read(number)
        try:
            self._read_entry(read)
            kinds = self._names.get(number, set())
            # A listing may show the later of two files alone.
            more = {".outcome"} if ".rolled_back" in kinds else set()
            for kind in sorted(kinds | more):
                if kind:
                    self._read_end(read, kind)
        except _errors.LakestepError as error:
            read.findings.append(of_error(str(self._timeline.file(number)), error))
        return read

    def _read_entry(self, read: _Read) -> None:
        file = self._timeline.file(read.number)
        content = self._timeline.stores.get(file)
        if content is None:
            read.findings.append(Finding("problem", str(file), "It is missing.", _RESTORE))
            return
        read.hash = files.hash_of(content)
        read.entry = files.entry_of(str(file), content, read.number)

    def _read_end(self, read: _Read, kind: str) -> None:
        file = self._timeline.file(read.number, kind)
        content = self._timeline.stores.get(file)
        if content is None:
            return
        name = str(file)
        if kind == ".applied":
            read.claims[name] = files.applied_of(name, content, read.number)
        elif kind == ".outcome":
            read.outcome = files.outcome_of(name, content, read.number)
            read.claims[name] = read.outcome.entry_hash
        else:
            read.rolled_back = files.rolled_back_of(name, content, read.number)
            read.claims[name] = read.rolled_back.entry_hash
        if wrong := _misfit(read, kind):
            read.findings.append(Finding("problem", name, wrong, _RESTORE))

    def _linked(self, before: _Read | None, read: _Read) -> Iterator[Finding]:
        if before is not None:
            yield from self._judged(before, read)
        if read.number >= self.first:
            yield from read.findings
        if read.number == 1 and read.entry is not None and read.entry.previous:
            why = "It is the first entry, and holds the hash of one before it."
            yield Finding("problem", str(self._timeline.file(1)), why, _RESTORE)

    def _judged(self, read: _Read, following: _Read | None) -> Iterator[Finding]:
        """Compare the hash of an entry with what its own files, and the next entry, hold."""
        claims = dict(read.claims) if read.number >= self.first else {}
        if following is not None and following.entry is not None:
            claims[str(self._timeline.file(following.number))] = following.entry.previous
        wrong = {file: held for file, held in claims.items() if held != read.hash}
        if read.hash is None or not wrong:
            return
        own = str(self._timeline.file(read.number))
        if len(wrong) == len(claims) > 1 and len(set(wrong.values())) == 1:
            names = " and ".join(wrong)
            yield Finding(
                "problem", own, f"It was changed: {names} hold another hash of it.", _RESTORE
            )
            return
        for file in wrong:
            why = f"The hash that it holds is not that of {own}. One of the two was changed."
            yield Finding("problem", file, why, _RESTORE)

    def _summary(self) -> Finding:
        root = str(self._timeline.root)
        if self.last < self.first:
            if self._newest == 0:
                return Finding("ok", root, "There are no entries.")
            return Finding("note", root, f"The newest entry is {self._newest}: none was asked for.")
        published = self._published
        return Finding(
            "ok",
            root,
            f"Entries {self.first} to {self.last}: none is missing, each holds the hash of the one"
            f" before, and each end is that of its entry. {published.commits} commits in"
            f" {len(published.tables)} tables are those of their entries.",
        )


def _misfit(read: _Read, kind: str) -> str | None:
    """Return what is wrong with an end, beside its hash."""
    if read.entry is None:
        return None
    if isinstance(read.entry, AbortEntry):
        return "It belongs to an ABORT entry, which has no end of its own."
    tables = len(read.entry.tables)
    if kind == ".rolled_back":
        if not isinstance(read.outcome, Aborting):
            return "The outcome of its entry is not aborting."
        if read.rolled_back is not None and len(read.rolled_back.tables) != tables:
            return "It has not as many tables as its entry."
        for end in read.rolled_back.tables if read.rolled_back is not None else ():
            if end.how not in ("closed", "undone", "gone"):
                return f"A table of it is {end.how}, which none can be."
            if end.how != "gone" and end.version is None:
                return "A table of it has no version."
    if kind == ".outcome" and isinstance(read.outcome, Completed):
        if len(read.outcome.slots) != tables:
            return "It has not as many tables as its entry."
        known = len(read.outcome.commit_hashes)
        if known not in (0, sum(map(len, read.outcome.slots))):
            return "It has not a hash for each of its commits."
        for table, slots in zip(read.entry.tables, read.outcome.slots, strict=True):
            parts = table.parts + table.is_reserved
            low = [table.base, *slots]
            if len(slots) > parts or any(b <= a for a, b in zip(low, slots, strict=False)):
                return f"Its versions of {table.name} cannot be those of its entry."
    return None


def _in_flight(status: Status) -> Finding:
    number = status.entry.number
    return Finding(
        "note",
        f"entry {number}",
        "It is in flight: its client is at work, or has died.",
        "If its client has died: lakestep recover.",
    )
