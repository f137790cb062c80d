"""Which version each table has in a state of the database: `DatabaseAt`.

The rules are those of ``scala/PROTOCOL.md``, steps 3 and 17.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from lakestep import _errors
from lakestep._entries import CommitEntry, Completed, Status
from lakestep._published import log_of, mark_of, read_log
from lakestep._timeline import Timeline


@dataclass(frozen=True)
class TableAt:
    """A version of a table. Without a version there is no table of that log at the path."""

    path: str
    log: str
    version: int | None

    def __str__(self) -> str:
        return f"version {self.version} of {self.path}"


@dataclass
class _Known:
    """What entries have left in a log: up to the state, and the first one after it."""

    path: str
    floor: int
    next: int | None = None


class DatabaseAt:
    """A state of the database: what entries up to one left behind, or all that there is now.

    Parameters
    ----------
    timeline : Timeline
        Whose database.
    version : int, optional
        The entry. Default: the newest versions of all tables, with what others have written since.
    """

    def __init__(self, timeline: Timeline, version: int | None) -> None:
        self._timeline = timeline
        self._version = version
        self._known: dict[str, _Known] = {}
        self._dropped: set[str | None] = set()
        self._time_ms = 0
        # The newest entry before which none is in flight or damaged.
        self._finished = 0

    @property
    def is_newest(self) -> bool:
        """Return whether it is what there is now."""
        return self._version is None

    def see(self, status: Status | None) -> None:
        """Take in an entry, or None for one that is damaged; all are shown to it, in order."""
        if status is None:
            return
        entry = status.entry
        if status.is_finished and entry.number == self._finished + 1:
            self._finished = entry.number
        is_later = self._version is not None and entry.number > self._version
        if not is_later:
            self._time_ms = max(self._time_ms, status.ended_at_ms or 0)
        if isinstance(entry, CommitEntry) and not is_later and status.state == "COMPLETED":
            self._see_names(entry)
        for index, table in enumerate(entry.tables if isinstance(entry, CommitEntry) else ()):
            if is_later:
                known = self._known.get(table.log)
                if known and known.next is None:
                    known.next = entry.number
            else:
                last = _last_slot(status, index)
                floor = table.base if last is None else last
                self._known[table.log] = _Known(table.path, floor)

    def _see_names(self, entry: CommitEntry) -> None:
        """Take in which tables lose their name, and which get one."""
        given = {change.after for change in entry.names}
        taken = {change.before for change in entry.names} - given
        self._dropped = (self._dropped - given) | taken

    def tables(self) -> Iterator[TableAt]:
        """Yield the tables that are not dropped, each once it is asked for.

        Raises
        ------
        LakestepError
            ``LAKESTEP_AS_OF_NOT_FOUND``, for a version that is not there yet, or not whole; and as
            `read_log`.
        """
        if self._version is not None and self._version > self._finished:
            asked, reason = f"VERSION {self._version}", f"the newest version is {self._finished}"
            raise _errors.error("LAKESTEP_AS_OF_NOT_FOUND", asked=asked, reason=reason)
        left = ((log, one) for log, one in self._known.items() if one.path not in self._dropped)
        for log, known in sorted(left, key=lambda item: item[1].path):
            found = read_log(self._timeline, known.path)
            is_it = found.binding is not None and found.binding.log == log and found.versions
            version = None
            if is_it:
                newest = max(found.versions)
                version = newest if self._version is None else self._at(known, newest)
            yield TableAt(known.path, log, version)

    def _at(self, known: _Known, newest: int) -> int:
        """Return the version: what others have committed by then, up to the next entry's commit."""
        folder = log_of(known.path)
        found = {one.name: one.modified for one in self._timeline.stores.list(folder)}
        version = known.floor
        for number in range(known.floor + 1, newest + 1):
            name = f"{number:020}.json"
            line = self._timeline.stores.first_line(folder / name)
            if line is None or (known.next and self._is_of(line, known.next)):
                break
            modified = found.get(name)
            time = _in_commit_time(line) or (_ms(modified) if modified else 0)
            if time <= self._time_ms:
                version = number
        return version

    def _is_of(self, line: bytes, entry: int) -> bool:
        """Return whether it is a commit of that entry, or of a later one."""
        mark = mark_of(line)
        found = mark.get("entry")
        is_ours = mark.get("timeline") == self._timeline.id
        return is_ours and isinstance(found, int) and found >= entry


def _ms(time: datetime) -> int:
    """Return whole milliseconds, as the protocol counts."""
    return (time - datetime.fromtimestamp(0, timezone.utc)) // timedelta(milliseconds=1)


def _last_slot(status: Status, index: int) -> int | None:
    if isinstance(status.outcome, Completed):
        return max(status.outcome.slots[index], default=None)
    return status.rolled_back.tables[index].version if status.rolled_back else None


def _in_commit_time(line: bytes) -> int | None:
    try:
        found = json.loads(line)["commitInfo"]["inCommitTimestamp"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, int) else None
