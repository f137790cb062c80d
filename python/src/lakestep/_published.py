"""Whether the commits of entries stand in the logs of their tables: `Published`.

Only what files prove is damage. A table may be gone, and a log may be cleaned up: then nothing
can be told.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakestep import _errors
from lakestep import _timeline_files as files
from lakestep._entries import Binding, CommitEntry, Completed, EntryTable, Status
from lakestep._findings import Finding, of_error
from lakestep._storage import Place
from lakestep._table_files import checkpoints_of
from lakestep._timeline import Timeline

_COMMIT = re.compile(r"(\d{1,20})\.json")
_OVERWRITTEN = (
    "Restore the table together with the timeline, or see LAKESTEP_TABLE_OVERWRITTEN in the"
    " documentation."
)


@dataclass(frozen=True)
class TableLog:
    """The log of a table: its binding, the versions of its commits, and its newest checkpoint."""

    binding: Binding | None
    versions: frozenset[int]
    checkpoint: int

    def is_whole(self, first: int, last: int) -> bool:
        """Whether each commit from one version to another is there."""
        count = max(last - first + 1, 0)
        return count <= len(self.versions) and all(
            version in self.versions for version in range(first, last + 1)
        )


@dataclass(frozen=True)
class _Slot:
    """A commit that an entry has put: where, and what its mark says.

    Its part and its hash may be unknown.
    """

    entry: int
    index: int
    table: EntryTable
    version: int
    kinds: tuple[str, ...]
    part: int | None = None
    hash: str = ""

    def place(self) -> Place:
        return log_of(self.table.path) / f"{self.version:020}.json"


def log_of(path: str) -> Place:
    """Return the folder of a table's log."""
    return Place.of(path) / "_delta_log"


def read_log(timeline: Timeline, path: str) -> TableLog:
    """Read the log of a table.

    Raises
    ------
    LakestepError
        ``LAKESTEP_STORE_READ_FAILED``, ``LAKESTEP_STORE_PATH_INVALID``, and
        ``LAKESTEP_TIMELINE_CORRUPT`` for the binding.
    """
    folder = log_of(path)
    file = folder / "_lakestep" / "timeline.json"
    content = timeline.stores.get(file)
    names = [found.name for found in timeline.stores.list(folder)]
    commits = [int(match[1]) for match in map(_COMMIT.fullmatch, names) if match]
    return TableLog(
        None if content is None else files.binding_of(str(file), content),
        frozenset(commits),
        max(checkpoints_of(names), default=-1),
    )


class Published:
    """Looks for the commits of entries. What could not be looked at is in `notes`."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._logs: dict[str, TableLog | _errors.LakestepError] = {}
        self._untold: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._slots: dict[str, set[int]] = defaultdict(set)
        self._completed: set[int] = set()
        self.commits = 0
        self.tables: set[str] = set()

    def check(self, statuses: Sequence[Status]) -> list[Finding]:
        """Return what is damaged in the tables of these entries."""
        slots = [slot for status in statuses for slot in _slots(status)]
        for slot in slots:
            # By the id of the log: a folder may have been moved.
            self._slots[slot.table.log].add(slot.version)
        self._completed |= {s.entry.number for s in statuses if _names_all(s)}
        paths = sorted({slot.table.path for slot in slots} - self._logs.keys())
        self._logs.update(
            zip(paths, self._timeline.stores.each(self._read_log, paths), strict=True)
        )
        told = self._timeline.stores.each(self._look, slots)
        findings = [f for status in statuses for f in self._outcome_alone(status)]
        for slot, found in zip(slots, told, strict=True):
            if isinstance(found, Finding):
                findings.append(found)
            elif found:
                self._untold[slot.table.path, found].append(slot.entry)
            else:
                self.commits += 1
                self.tables.add(slot.table.log)
        return findings

    def strays(self, newest: int) -> Iterator[Finding]:
        """Yield the commits that say they are of an entry, and are not, once all were checked.

        What a checkpoint covers is left out: nobody reads it, and a client that was suspended
        during a log clean-up may have put it.
        """
        for path, log in self._logs.items():
            if isinstance(log, _errors.LakestepError) or log.binding is None:
                continue
            versions = log.versions - self._slots.get(log.binding.log, set())
            places = [
                log_of(path) / f"{v:020}.json" for v in sorted(versions) if v > log.checkpoint
            ]
            for place, line in zip(
                places, self._timeline.stores.each(self._first_line, places), strict=True
            ):
                mark = mark_of(line or b"")
                entry = mark.get("entry")
                if mark.get("timeline") != self._timeline.id or not isinstance(entry, int):
                    continue
                if entry in self._completed or not self._is_there(entry, newest):
                    why = f"It says it is of entry {entry}, which has not put it."
                    yield Finding("problem", str(place), why, _OVERWRITTEN)

    def _first_line(self, place: Place) -> bytes | None:
        try:
            return self._timeline.stores.first_line(place)
        except _errors.LakestepError:
            return None

    def _is_there(self, entry: int, newest: int) -> bool:
        """Return whether there is such an entry; it may have been put meanwhile."""
        return 1 <= entry <= newest or self._timeline.stores.exists(self._timeline.file(entry))

    def notes(self) -> list[Finding]:
        """Return which tables could not be looked at, and why."""
        return [
            Finding("note", path, f"{why} {_named(entries)} cannot be checked.")
            for (path, why), entries in self._untold.items()
        ]

    def _read_log(self, path: str) -> TableLog | _errors.LakestepError:
        try:
            return read_log(self._timeline, path)
        except _errors.LakestepError as error:
            return error

    def _look(self, slot: _Slot) -> Finding | str | None:
        """Return damage; or why nothing can be told; or None, where the commit is there."""
        found = self._judge(slot, self._logs[slot.table.path])
        if isinstance(found, Finding):
            # The table may have been dropped, or its log cleaned up, since it was listed.
            found = self._judge(slot, self._read_log(slot.table.path))
        return found

    def _outcome_alone(self, status: Status) -> Iterator[Finding]:
        """Yield what is wrong with an outcome that names fewer commits than there are."""
        if not isinstance(status.entry, CommitEntry) or not isinstance(status.outcome, Completed):
            return
        for table, versions in zip(status.entry.tables, status.outcome.slots, strict=False):
            parts = table.parts + table.is_reserved
            if len(versions) == parts:
                continue
            log = self._read_log(table.path)
            # Who finished it has looked for its marks: none is hidden in a log that is whole.
            if (
                not isinstance(log, _errors.LakestepError)
                and log.binding is not None
                and log.binding.log == table.log
                and log.versions
                and log.is_whole(table.base + 1, max(log.versions))
            ):
                why = f"It names {len(versions)} commits in {table.name}, which gets {parts}."
                file = str(self._timeline.file(status.entry.number, ".outcome"))
                yield Finding("problem", file, why, _OVERWRITTEN)

    def _judge(self, slot: _Slot, log: TableLog | _errors.LakestepError) -> Finding | str | None:
        if isinstance(log, _errors.LakestepError):
            return f"{log.getMessage()} So the commits of"
        if not log.versions:
            return "The table is gone. The commits of"
        if log.binding is None or log.binding.log != slot.table.log:
            return self._elsewhere(slot)
        place = slot.place()
        try:
            line, found = self._read_commit(place, slot)
        except _errors.LakestepError as error:
            return of_error(str(place), error)
        if line is None:
            if slot.version <= log.checkpoint:
                return "The log was cleaned up. The commits of"
            why = f"It is missing: entry {slot.entry} has put it, and no checkpoint covers it."
            return Finding("problem", str(place), why, _OVERWRITTEN)
        if _is_of(mark_of(line), slot, self._timeline.id):
            if slot.hash in ("", found):
                return None
            why = f"It was changed: the outcome of entry {slot.entry} holds another hash of it."
            return Finding("problem", str(place), why, _OVERWRITTEN)
        # A slot that was named after a clean-up may be a later one.
        if not log.is_whole(slot.table.base + 1, slot.version - 1):
            return "The log was cleaned up. The commits of"
        why = f"It is not the commit that entry {slot.entry} has put there."
        return Finding("problem", str(place), why, _OVERWRITTEN)

    def _elsewhere(self, slot: _Slot) -> Finding | str:
        """Judge a log that has no binding, or another one: that has none of our commits."""
        try:
            _, found = self._read_commit(slot.place(), slot)
        except _errors.LakestepError:
            found = ""
        if not slot.hash or found != slot.hash:
            return "Another table is at this path. The commits of"
        place = log_of(slot.table.path) / "_lakestep" / "timeline.json"
        why = "It is missing, or was changed: commits of this timeline stand in the log."
        return Finding("problem", str(place), why, _OVERWRITTEN)

    def _read_commit(self, place: Place, slot: _Slot) -> tuple[bytes | None, str]:
        """Return the first line of a commit, and its hash, if that is to be compared."""
        if not slot.hash:
            return self._timeline.stores.first_line(place), ""
        content = self._timeline.stores.get(place)
        if content is None:
            return None, ""
        return content.partition(b"\n")[0], files.hash_of(content)


def _names_all(status: Status) -> bool:
    """Whether an entry is completed, and its outcome names every commit that it has put."""
    if not isinstance(status.entry, CommitEntry) or not isinstance(status.outcome, Completed):
        return False
    found = zip(status.entry.tables, status.outcome.slots, strict=False)
    return all(len(slots) == table.parts + table.is_reserved for table, slots in found)


def _slots(status: Status) -> list[_Slot]:
    entry = status.entry
    if not isinstance(entry, CommitEntry):
        return []
    slots = []
    for index, table in enumerate(entry.tables):
        if isinstance(status.outcome, Completed):
            versions = status.outcome.slots[index]
            hashes = status.outcome.hashes()[index]
            parts: list[int | None] = [*range(0 if table.is_reserved else 1, table.parts + 1)]
            if len(versions) != len(parts):
                # The log was cleaned up before somebody could look.
                parts = [None] * len(versions)
            for version, part, held in zip(versions, parts, hashes, strict=True):
                kinds = {0: ("reserve",), None: ("reserve", "publish")}.get(part, ("publish",))
                slots.append(_Slot(entry.number, index, table, version, kinds, part, held))
        elif status.rolled_back is not None:
            end = status.rolled_back.tables[index]
            if end.version is not None and end.how != "gone":
                kinds = ("undo", "close")
                slots.append(_Slot(entry.number, index, table, end.version, kinds))
    return slots


def mark_of(line: bytes) -> dict[str, object]:
    """Return the mark in the first line of a commit; nothing if there is none."""
    try:
        mark = json.loads(line)["commitInfo"]["lakestep"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return mark if isinstance(mark, dict) else {}


def _is_of(mark: dict[str, object], slot: _Slot, timeline: str) -> bool:
    found = tuple(mark.get(name) for name in ("timeline", "entry", "table"))
    return (
        found == (timeline, slot.entry, slot.index)
        and mark.get("kind") in slot.kinds
        and slot.part in (None, mark.get("part"))
    )


def _named(entries: list[int]) -> str:
    some = sorted(set(entries))
    if len(some) == 1:
        return f"entry {some[0]}"
    return f"{len(some)} entries, {some[0]} to {some[-1]},"
